"""Clamping of elements to bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.ops.binary import CLAMP
from rushlight.core.ops.common import TensorLike, is_tensor, numbers, operands, repeated
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.tensor.autograd import needs_gradient
from rushlight.core.tensor.op import REGISTRY, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _call(x: Tensor, min: Any, max: Any) -> tuple[Op, list[Tensor]]:
    """The op of a clamp, and its operands."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    # A bound that is not given lets everything through.
    ends = (-math.inf if min is None else min, math.inf if max is None else max)
    a, b = map(type, ends)
    if x.dtype.kind == "f" and (a is float or a is int) and (b is float or b is int):  # most calls
        like = x.dtype, x.storage.device, x.layout.shape
        return CLAMP, [x, repeated(ends[0], *like), repeated(ends[1], *like)]
    values = numbers("clamp", tuple(v for v in (x, min, max) if v is not None))
    whole = operands("clamp", *values)
    if len(whole) == 3:
        return CLAMP, whole
    if whole[0].dtype.kind != "f":  # of integers a device need not hold the ends
        return REGISTRY["maximum" if max is None else "minimum"], whole
    at = 1 if min is None else 2
    whole.insert(at, whole[0].new_full((), ends[at - 1]).expand(*whole[0].shape))
    return CLAMP, whole


@public
@method()
def clamp(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to [min, max]; where min > max the result is max. One may be None.

    At a bound that is a number no gradient goes to x; x and an equal bound that is a tensor get
    half of it each, as in torch 2.14.
    """
    op, whole = _call(x, min, max)
    tensors = [v for v in (min, max) if is_tensor(v)]
    if op is CLAMP and tensors and needs_gradient(x, *tensors):  # type: ignore[arg-type]
        found: Tensor = whole[0] if min is None else REGISTRY["maximum"](whole[0], whole[1])
        return found if max is None else REGISTRY["minimum"](found, whole[2])
    return op(*whole)


@public
@method()
def clamp_(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Limit the elements of `x` to [min, max], in place."""
    op, whole = _call(x, min, max)
    tensors = [v for v in (min, max) if is_tensor(v)]
    halves = tensors and needs_gradient(x, *tensors)  # type: ignore[arg-type]
    if halves or whole[0].dtype is not x.dtype or whole[0].shape != x.shape:
        return copy_(x, clamp(x.clone() if needs_gradient(x) else x, min, max))
    return op.inplace(x, *whole[1:])
