"""Clamping of elements to bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.limits import iinfo
from rushlight.core.ops.binary import CLAMP, maximum, minimum
from rushlight.core.ops.common import TensorLike, constant, is_tensor, numbers, operands
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.tensor.autograd import needs_gradient

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _given(x: Tensor, min: Any, max: Any) -> tuple[list[Tensor], tuple[bool, bool]]:
    """The operands of CLAMP, and which bounds are numbers."""
    values = numbers("clamp", tuple(v for v in (x, min, max) if v is not None))
    sides = (min is not None and not is_tensor(min), max is not None and not is_tensor(max))
    whole = operands("clamp", *values)
    if len(whole) < 3:  # the bound that is not given lets everything through
        kind = whole[0].dtype
        ends = (-math.inf, math.inf)
        if kind.kind in "iub":
            ends = (False, True) if kind.kind == "b" else (iinfo(kind).min, iinfo(kind).max)
        at = 1 if min is None else 2
        other = whole[0].new_full((), ends[at - 1]).expand(*whole[0].shape)
        whole.insert(at, other)
    return whole, sides


@public
@method()
def clamp(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to [min, max]; where min > max the result is max. One may be None.

    As in torch x has no gradient at a bound that is a number, and half of it at one of a tensor.
    """
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    sides = min is not None, max is not None
    given = (-math.inf if min is None else min, math.inf if max is None else max)
    if x.dtype.kind == "f" and all(type(v) in (int, float) for v in given):  # most calls
        low, high = (constant(v, x.dtype, x.storage.device).expand(*x.shape) for v in given)  # type: ignore[arg-type]
        return CLAMP(x, low, high, numbers=sides)
    one = min is None or max is None
    if one and (is_tensor(min) or is_tensor(max) or not needs_gradient(x)):
        return minimum(x, max) if min is None else maximum(x, min)  # type: ignore[arg-type]
    whole, sides = _given(x, min, max)
    return CLAMP(*whole, numbers=sides)


@public
@method()
def clamp_(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Limit the elements of `x` to [min, max], in place."""
    return copy_(x, clamp(x, min, max))
