"""Conditions on values: an error at once on the host, at the next read on other devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.backends import HOST
from rushlight.core.basis.errors import RangeError
from rushlight.core.jit import capture
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.indexing import GATHER
from rushlight.core.ops.reduce import all as every
from rushlight.core.ops.unary import bitwise_not

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def require(name: str, good: Tensor, said: str) -> None:
    """Raise RangeError `NAME: SAID` unless all of `good` (bool) holds.

    On the host it is read at once. Other devices, captured functions and `vmap` note it as they
    note an index out of range: the read that follows raises.
    """
    holds, message = every(good), f"{name}: {said}"
    if good.device is HOST and not good.level and not capture.capturing():
        if not holds.item():
            raise RangeError(message)
        return
    index = bitwise_not(holds).to("int64").reshape(1)
    GATHER(zeros(1, device=good.device), index, dim=0, refusal=message)
