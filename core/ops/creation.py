"""Tensors out of nothing: constants, ranges and triangles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import Device
from rushlight.core.backends import device as _device
from rushlight.core.dtype import DType, as_dtype, float32, float64, int64, of_scalar
from rushlight.core.layout import Layout, as_shape
from rushlight.core.op import Meta, Op
from rushlight.core.ops.common import FULL, Scalar

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

Size = int | Sequence[int]


def _infer_arange(*, start: Scalar, step: Scalar, count: int, dtype: DType) -> Meta:
    return Meta(dtype, Layout.contiguous((count,)))


ARANGE = Op("arange", infer=_infer_arange, differentiable=False)


def sizes(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape given as separate ints or as one sequence; ValueError for a negative size."""
    shape = as_shape(name, size)
    for n in shape:
        if n < 0:
            raise ValueError(f"{name}: size {n} in {shape} is negative")
    return shape


def full(
    size: Sequence[int],
    fill_value: Scalar,
    *,
    dtype: DType | str | None = None,
    device: Device | str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of shape `size` filled with one value; dtype follows the value unless given."""
    found = of_scalar(fill_value) if dtype is None else as_dtype(dtype)
    shape = sizes("full", tuple(size))
    out = FULL(device=_device(device), shape=shape, value=fill_value, dtype=found)
    return out.requires_grad_() if requires_grad else out


def zeros(
    *size: Any,
    dtype: DType | str = float32,
    device: Device | str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of shape `size` (ints, or one sequence of them)."""
    shape = sizes("zeros", size)
    return full(shape, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones(
    *size: Any,
    dtype: DType | str = float32,
    device: Device | str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Ones of shape `size` (ints, or one sequence of them)."""
    shape = sizes("ones", size)
    return full(shape, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def full_like(x: Tensor, fill_value: Scalar, *, dtype: DType | str | None = None) -> Tensor:
    """A tensor of one value with the shape, device and (unless given) dtype of `x`."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=x.device)


def zeros_like(x: Tensor, *, dtype: DType | str | None = None) -> Tensor:
    """Zeros with the shape, device and (unless given) dtype of `x`."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Tensor, *, dtype: DType | str | None = None) -> Tensor:
    """Ones with the shape, device and (unless given) dtype of `x`."""
    return full_like(x, 1, dtype=dtype)


def empty(*size: Any, dtype: DType | str = float32, device: Device | str = "cpu") -> Tensor:
    """A tensor of shape `size` to be written to; it holds zeros, so no old memory shows."""
    return full(sizes("empty", size), 0, dtype=dtype, device=device)


def empty_like(x: Tensor, *, dtype: DType | str | None = None) -> Tensor:
    """A tensor to be written to, with the shape, device and (unless given) dtype of `x`."""
    return full_like(x, 0, dtype=dtype)


def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: DType | str | None = None,
    device: Device | str = "cpu",
) -> Tensor:
    """start, start + step, ... below `end`; from zero where only one bound is given.

    int64 where all three are ints, else float32. ValueError for a step of zero, or one that leads
    away from `end`.
    """
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"arange: step {step} does not lead from {start} to {end}")
    whole = all(isinstance(v, int) for v in (start, end, step))
    found = (int64 if whole else float32) if dtype is None else as_dtype(dtype)
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    return ARANGE(device=_device(device), start=start, step=step, count=int(count), dtype=found)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | str = float32,
    device: Device | str = "cpu",
) -> Tensor:
    """`steps` values evenly spaced from `start` to `end`, both included."""
    if steps < 0:
        raise ValueError(f"linspace: steps is {steps}; it must not be negative")
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    found = as_dtype(dtype)
    # Integers are cut from float64, which not every device has, and the narrow floats rounded
    # once, as torch does.
    if not found.is_floating_point:
        return linspace(start, end, steps, dtype=float64).to(found).to(device)
    wide = float64 if found is float64 else float32
    ramp = arange(steps, dtype=wide, device=device)
    # The upper half counts back from the end, so that both ends are exact.
    low, high = ramp * gap + start, (ramp - (steps - 1)) * gap + end
    return (low.where(ramp < (steps + 1) // 2, high) if steps > 1 else low).to(found)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | str = float32,
    device: Device | str = "cpu",
) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix of zeros; square where `m` is left out."""
    rows = arange(n, device=device).unsqueeze(1)
    cols = arange(n if m is None else m, device=device)
    return (rows == cols).to(dtype)


def _below(x: Tensor, diagonal: int) -> Tensor:
    if x.ndim < 2:
        raise ValueError(f"tril/triu: shape {x.shape} has fewer than two dims")
    rows = arange(x.shape[-2], device=x.device).unsqueeze(1)
    cols = arange(x.shape[-1], device=x.device)
    return cols - rows <= diagonal


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dims' lower triangle, zeros above `diagonal`; same shape."""
    return x.masked_fill(_below(x, diagonal).logical_not(), 0)


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dims' upper triangle, zeros below `diagonal`; same shape."""
    return x.masked_fill(_below(x, diagonal - 1), 0)
