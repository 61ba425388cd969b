"""Tensors like another one, linspace, the identity and triangles."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import DType, as_dtype, bool_, float32, float64, int64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.ops.common import Scalar, is_tensor
from rushlight.core.ops.creation import arange, empty, full
from rushlight.core.ops.declare import method, public
from rushlight.core.tensor import interpreter_stack

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def full_like(
    x: Tensor, fill_value: Scalar, *, dtype: DType | str | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value with the shape and (unless given) dtype and device of `x`."""
    kind, there = x.dtype if dtype is None else dtype, x.device if device is None else device
    if not x.level:
        return full(x.shape, fill_value, dtype=kind, device=there, requires_grad=requires_grad)
    out = interpreter_stack.new_like(
        x, lambda shape: full(shape, fill_value, dtype=kind, device=there), x.shape
    )
    return out.requires_grad_() if requires_grad else out


@public
@method()
def zeros_like(
    x: Tensor, *, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros with the shape and (unless given) dtype and device of `x`."""
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@public
@method()
def ones_like(
    x: Tensor, *, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones with the shape and (unless given) dtype and device of `x`."""
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@public
def empty_like(
    x: Tensor, *, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor to write to, with the shape and (unless given) dtype and device of `x`."""
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@public
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` values evenly spaced from `start` to `end` (numbers, 0-d tensors), both included."""
    if requires_grad:
        return linspace(start, end, steps, dtype=dtype, device=device).requires_grad_()
    start, end = (v.item() if is_tensor(v) else v for v in (start, end))  # type: ignore[attr-defined]
    steps = operator.index(steps)
    if steps < 0:
        raise ValueError(f"linspace: steps is {steps}; it must not be negative")
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    found = as_dtype(dtype)
    # As in torch, integers are truncated from float64, which not every device has, the ends first;
    # narrow floats are rounded once.
    if not found.is_floating_point:
        if not found.is_complex:
            start, end = int(start), int(end)
        return linspace(start, end, steps, dtype=float64).to(found).to(_device(device))
    wide = float64 if found is float64 else float32
    ramp = arange(steps, dtype=wide, device=device)
    # The upper half counts down from the end, so that both ends are exact.
    low, high = ramp * gap + start, (ramp - (steps - 1)) * gap + end
    return (low.where(ramp < (steps + 1) // 2, high) if steps > 1 else low).to(found)


@public
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix of zeros; m defaults to n."""
    rows = arange(n, device=device).unsqueeze(1)
    cols = arange(n if m is None else m, device=device)
    found = (rows == cols).to(as_dtype(dtype))
    return found.requires_grad_() if requires_grad else found


@public
@method()
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dims' lower triangle, zeros above `diagonal`; same shape."""
    rows, columns = _places(x)
    return x.masked_fill(columns > rows + diagonal, 0)


@public
@method()
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dims' upper triangle, zeros below `diagonal`; same shape."""
    rows, columns = _places(x)
    return x.masked_fill(columns < rows + diagonal, 0)


def _places(x: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of the rows, as a column, and of the columns; floats, which compare faster."""
    if x.ndim < 2:
        raise ShapeError(f"tril/triu: shape {x.shape} has fewer than two dims")
    kind = "float32" if max(x.shape[-2:]) < 1 << 24 else "int64"
    rows, columns = (arange(n, dtype=kind, device=x.device) for n in x.shape[-2:])
    return rows.unsqueeze(1), columns


def of_data(data: Any, *, dtype: DType | str | None = None, device: Device | str | None) -> Tensor:
    """A tensor of nested lists or an array: bool, int64, or float32 unless `dtype` is float64."""
    values = np.asarray(data)
    wanted = None if dtype is None else as_dtype(dtype)
    kind = bool_ if values.dtype.kind == "b" else int64
    if values.dtype.kind == "f" or (wanted is not None and wanted.is_floating_point):
        kind = float64 if wanted is float64 else float32
    raw = np.array(values, kind.numpy, order="C")
    made: Tensor = type(empty(0)).from_buffer(raw.reshape(-1).view(np.uint8), kind, raw.shape)
    return made.to(dtype=kind if wanted is None else wanted, device=_device(device))
