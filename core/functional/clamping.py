"""Clamping of elements to bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.limits import iinfo
from rushlight.core.ops.binary import CLAMP, maximum, minimum
from rushlight.core.ops.common import TensorLike, constant, is_tensor, numbers, operands
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.inplace import copy_

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _given(x: Tensor, min: Any, max: Any) -> tuple[list[Tensor], tuple[bool, bool]]:
    """The operands of CLAMP, and which bounds are numbers."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    # A bound that is not given lets everything through.
    ends = (-math.inf if min is None else min, math.inf if max is None else max)
    if x.dtype.kind == "f" and all(type(v) in (int, float) for v in ends):  # most calls
        low, high = (constant(v, x.dtype, x.storage.device).expand(*x.shape) for v in ends)
        return [x, low, high], (min is not None, max is not None)
    values = numbers("clamp", tuple(v for v in (x, min, max) if v is not None))
    whole = operands("clamp", *values)
    if len(whole) < 3:
        at, kind = 1 if min is None else 2, whole[0].dtype
        if kind.kind in "iub":
            ends = (False, True) if kind.kind == "b" else (iinfo(kind).min, iinfo(kind).max)
        whole.insert(at, whole[0].new_full((), ends[at - 1]).expand(*whole[0].shape))
    return whole, tuple(v is not None and not is_tensor(v) for v in (min, max))  # type: ignore[return-value]


@public
@method()
def clamp(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to [min, max]; where min > max the result is max. One may be None.

    As in torch x has no gradient at a bound that is a number, and half of it at one of a tensor.
    """
    if is_tensor(min) and max is None or min is None and is_tensor(max):
        return maximum(x, min) if max is None else minimum(x, max)  # type: ignore[arg-type]
    whole, sides = _given(x, min, max)
    return CLAMP(*whole, numbers=sides)


@public
@method()
def clamp_(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Limit the elements of `x` to [min, max], in place."""
    whole, sides = _given(x, min, max)
    if whole[0].dtype is not x.dtype or whole[0].shape != x.shape:
        return copy_(x, clamp(x, min, max))
    return CLAMP.inplace(x, *whole[1:], numbers=sides)
