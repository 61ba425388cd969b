"""Padding with constants, mirrored, repeated or circular edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data
from rushlight.core.ops.autocast import casts, listed
from rushlight.core.ops.common import Scalar
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import flip
from rushlight.core.ops.movement import pad as _pad

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
def constant_pad_nd(x: Tensor, pad_: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a constant.

    `x` is padded by `pad_` as there with `value`; a copy. Raises ShapeError for pads that do not
    fit.
    """
    return _pad(x, pad_, "constant", value).clone()


def _mirrored(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    n = x.shape[d]
    least = n if mode == "circular" else n - 1
    if before > least or after > least:
        raise ShapeError(f"pad: {before} and {after} are more than {mode} padding of {n} can be")
    front, back = x.narrow(d, 0, 0), x.narrow(d, 0, 0)
    if mode == "circular":
        front, back = x.narrow(d, n - before, before), x.narrow(d, 0, after)
    else:
        front = flip(x.narrow(d, 1, before), d) if before else front
        back = flip(x.narrow(d, n - 1 - after, after), d) if after else back
    return cat([front, x, back], d)


@network
@casts("inside")
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: Scalar | None = None
) -> Tensor:
    """Pad the last dims: (before, after) of the last dim, then of the one before, and so on.

    mode: "constant" (with `value`, 0 by default), "reflect", "replicate" or "circular". Negative
    numbers cut elements off. ValueError for another mode and for sizes that do not fit.

    `input` is any tensor, `pad` the ints.
    """
    if mode == "constant":
        return _pad(input, pad, value=value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(
            f"pad: mode {mode!r} is not supported; supported: constant, reflect, replicate, "
            "circular"
        )
    if value:
        raise ValueError(f"pad: mode {mode!r} takes no value")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(f"pad: {tuple(pad)} is not a pair for each of at most {input.ndim} dims")
    return (_beyond if mode == "circular" else edge_pad)(input, pad, mode)


@listed
@casts(cpu="float32")
def edge_pad(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """`pad` of the modes "reflect" and "replicate"; within autocast on cpu float32, as in torch."""
    return _beyond(input, pad, mode)


def _beyond(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    x = input
    for i in range(0, len(pad), 2):
        d = x.ndim - 1 - i // 2
        before, after = pad[i], pad[i + 1]
        if mode == "replicate":
            if x.shape[d] + before + after < 0 or not x.shape[d]:
                raise ShapeError(f"pad: {tuple(pad)} cuts off more than shape {input.shape} has")
            nearest = np.arange(-before, x.shape[d] + after).clip(0, x.shape[d] - 1)
            x = x.index_select(d, of_data(nearest, device=x.device))
            continue
        low, high = max(0, -before), max(0, -after)
        if low + high > x.shape[d]:
            raise ShapeError(f"pad: {tuple(pad)} cuts off more than shape {input.shape} has")
        x = x.narrow(d, low, x.shape[d] - low - high) if low or high else x
        if max(before, 0) or max(after, 0):
            x = _mirrored(x, d, max(before, 0), max(after, 0), mode)
    return x
