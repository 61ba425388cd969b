"""New tensors: constants and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import DType, as_dtype, get_default_dtype, int64, of_scalar
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import Layout, as_shape
from rushlight.core.ops.common import FULL, Scalar, fitted, is_tensor
from rushlight.core.ops.declare import public
from rushlight.core.tensor.op import Meta, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Size = int | Sequence[int]


def _infer_arange(*, start: Scalar, step: Scalar, count: int, dtype: DType) -> Meta:
    return Meta(dtype, Layout.contiguous((count,)))


ARANGE = Op("arange", infer=_infer_arange, differentiable=False)


def sizes(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape passed as separate ints or as one sequence; ValueError for a negative size."""
    shape = as_shape(name, size)
    for n in shape:
        if n < 0:
            raise ShapeError(f"{name}: size {n} in {shape} is negative")
    return shape


@public
def full(
    size: Sequence[int],
    fill_value: Scalar,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of shape `size` filled with one value; dtype: default: that of the value.

    `fill_value` is a number. `device` has the result; `requires_grad`: it needs a gradient. Raises
    TypeError for no number, RangeError for one that the dtype cannot hold.
    """
    if is_tensor(fill_value) and not fill_value.ndim:  # type: ignore[union-attr]
        fill_value = fill_value.item()  # type: ignore[union-attr]
    if not isinstance(fill_value, (bool, int, float, complex, np.generic)):
        kind = type(fill_value).__name__
        raise TypeError(f"full: fill_value is a {kind}; it must be a number")
    chosen = of_scalar(fill_value) if dtype is None else as_dtype(dtype)
    shape = sizes("full", tuple(size))
    out = FULL(
        device=_device(device), shape=shape, value=fitted("full", fill_value, chosen), dtype=chosen
    )
    return out.requires_grad_() if requires_grad else out


@public
def zeros(
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of shape `size` (ints, or one sequence of them).

    `dtype` and `device` are the result's; `requires_grad`: it needs a gradient. Raises ValueError
    for a negative size.
    """
    shape = sizes("zeros", size)
    return full(shape, 0, dtype=as_dtype(dtype), device=device, requires_grad=requires_grad)


@public
def ones(
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of shape `size` (ints, or one sequence of them).

    `dtype` and `device` are the result's; `requires_grad`: it needs a gradient. Raises ValueError
    for a negative size.
    """
    shape = sizes("ones", size)
    return full(shape, 1, dtype=as_dtype(dtype), device=device, requires_grad=requires_grad)


@public
def empty(
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of shape `size` to write to; it holds zeros, so old memory never shows.

    `dtype` and `device` are the result's; `requires_grad`: it needs a gradient. Raises ValueError
    for a negative size.
    """
    shape = sizes("empty", size)
    return full(shape, 0, dtype=as_dtype(dtype), device=device, requires_grad=requires_grad)


@public
def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below `end`; one bound alone is the end, and the start is zero.

    int64 if all three are ints, else the default dtype. ValueError for a step of zero or one that
    leads away from `end`.

    `device` has the result; `requires_grad`: it needs a gradient.
    """
    if end is None:
        start, end = 0, start
    bounds: list[Any] = [start, end, step]
    start, end, step = (v.item() if is_tensor(v) else v for v in bounds)
    kind = None if dtype is None else as_dtype(dtype)
    if step == 0 or (end - start) * step < 0 or not math.isfinite(end - start):
        raise ValueError(f"arange: step {step} does not lead from {start} to {end}")
    integers = all(isinstance(v, int) for v in (start, end, step))
    kind = (int64 if integers else get_default_dtype()) if kind is None else kind
    count = -((start - end) // step) if integers else math.ceil((end - start) / step)
    if not kind.is_floating_point:
        start, step = int(start), int(step)  # after they were counted, as in torch
    if integers:
        for bound in (start, start + max(count - 1, 0) * step):
            fitted("arange", bound, int64)
    out = ARANGE(device=_device(device), start=start, step=step, count=int(count), dtype=kind)
    return out.requires_grad_() if requires_grad else out
