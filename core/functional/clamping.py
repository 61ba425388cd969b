"""Clamping of elements to bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.jit import capture
from rushlight.core.ops.binary import Binary, bitwise_or, gt, lt, maximum, minimum, where
from rushlight.core.ops.common import TensorLike, is_tensor, operands
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.unary import isnan, logical_not
from rushlight.core.tensor.autograd import needs_gradient
from rushlight.core.tensor.op import REGISTRY

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def clamp(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """`x` limited to [min, max]; where min > max the result is max. One may be None."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    if not needs_gradient(*(v for v in (x, min, max) if is_tensor(v))):  # type: ignore[arg-type]
        low = x if min is None else maximum(x, min)
        if max is None:
            return low
        if min is None or is_tensor(max) or capture.capturing():
            return minimum(low, max)
        # Over the first result: memory for another one costs more than the comparison.
        fresh, bound = operands("clamp", low, max)
        return REGISTRY["minimum"].inplace(fresh, bound)
    # `where` instead of `maximum`: at a bound the whole gradient goes to x, as in torch.
    if min is not None:
        x = where(_outside(lt, x, min), min, x)
    return x if max is None else where(_outside(gt, x, max), max, x)


@public
@method()
def clamp_(x: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Limit the elements of `x` to [min, max], in place."""
    return copy_(x, clamp(x, min, max))


def _outside(compare: Binary, x: Tensor, bound: TensorLike) -> Tensor:
    """Where the bound replaces `x`: beyond the bound, and where the bound is nan."""
    beyond = compare(x, bound)
    if is_tensor(bound):
        return bitwise_or(beyond, isnan(bound))  # type: ignore[arg-type]
    return beyond if bound == bound else logical_not(beyond)
