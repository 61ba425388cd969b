"""Tensors like another one, of data, of ramps; the identity; tensors with given strides."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import DType, as_dtype, bool_, float32, float64, int64
from rushlight.core.basis.layout import Layout
from rushlight.core.ops.common import Scalar, is_tensor
from rushlight.core.ops.creation import arange, empty, full, ones, sizes, zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.movement import permute
from rushlight.core.ops.strided import as_strided
from rushlight.core.tensor import interpreter_stack

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _options(x: Tensor, dtype: DType | str | None, device: Device | str | None) -> dict[str, Any]:
    return {"dtype": x.dtype if dtype is None else as_dtype(dtype), "device": device or x.device}


def _new(
    x: Tensor,
    make: Any,
    shape: tuple[int, ...],
    dtype: DType | str | None,
    device: Device | str | None,
) -> Tensor:
    options = _options(x, dtype, device)
    return interpreter_stack.new_like(x, lambda shape: make(shape, **options), shape)


@method()
def new_zeros(
    x: Tensor,
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of a shape, by default with the dtype and device of x.

    `size`: ints, or one sequence. `dtype` and `device` are those of `x` unless set;
    `requires_grad`: the result needs a gradient. Raises ValueError for a negative size.
    """
    out = _new(x, zeros, sizes("new_zeros", size), dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_ones(
    x: Tensor,
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of a shape, by default with the dtype and device of x.

    `size`: ints, or one sequence. `dtype` and `device` are those of `x` unless set;
    `requires_grad`: the result needs a gradient. Raises ValueError for a negative size.
    """
    out = _new(x, ones, sizes("new_ones", size), dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_empty(
    x: Tensor,
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of a shape without chosen values, by default with the dtype and device of x.

    `size`: ints, or one sequence. `dtype` and `device` are those of `x` unless set;
    `requires_grad`: the result needs a gradient. Raises ValueError for a negative size.
    """
    out = _new(x, empty, sizes("new_empty", size), dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_full(
    x: Tensor,
    size: Sequence[int],
    fill_value: float,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A shape full of one value, by default with the dtype and device of x.

    `size` is a sequence of ints, `fill_value` a number. `dtype` and `device` are those of `x`
    unless set; `requires_grad`: the result needs a gradient. Raises ValueError for a negative size.
    """
    options = _options(x, dtype, device)
    out: Tensor = interpreter_stack.new_like(
        x, lambda shape: full(shape, fill_value, **options), tuple(size)
    )
    return out.requires_grad_() if requires_grad else out


@method()
def new_tensor(
    x: Tensor,
    data: Any,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of `data`, by default with the dtype and device of x.

    `dtype` and `device` are those of `x` unless set; `requires_grad`: the result needs a gradient.
    Raises ValueError or TypeError for data that are no numbers.
    """
    return of_data(data, **_options(x, dtype, device)).requires_grad_(requires_grad)


@public
def scalar_tensor(
    s: float,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A 0-d tensor of a number.

    `s` is the number. `dtype` and `device` are the result's; `requires_grad`: it needs a gradient.
    Raises RangeError for one that the dtype cannot hold.
    """
    return full((), s, dtype=as_dtype(dtype), device=device, requires_grad=requires_grad)


@public
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """base ** linspace(start, end, steps), as torch rounds it for integers.

    `start`, `end` and `base` are numbers. `dtype` and `device` are the result's; `requires_grad`:
    it needs a gradient. Raises ValueError for negative steps.
    """
    kind = as_dtype(dtype)
    start, end = (v.item() if hasattr(v, "item") else v for v in (start, end))
    if kind.kind in "bui":
        start, end = int(start), int(end)
    wide = kind if kind.is_floating_point else float64
    there = device if kind.is_floating_point else "cpu"
    out = (
        (base ** linspace(start, end, steps, dtype=wide, device=there)).to(kind).to(_device(device))
    )
    return out.requires_grad_() if requires_grad else out


def _strided(
    size: Sequence[int], stride: Sequence[int], dtype: DType | str | None, device: Any
) -> Tensor:
    layout = Layout(tuple(size), tuple(stride), 0)
    memory = empty(max(layout.extent[1], 1), dtype=as_dtype(dtype), device=device)
    return as_strided(memory, size, stride)


@public
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor to write to, with these strides; it holds zeros.

    `size` and `stride` are of one length. `dtype` and `device` are the result's; `requires_grad`:
    it needs a gradient. Raises ValueError for a negative one.
    """
    out = _strided(size, stride, dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_empty_strided(
    x: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`empty_strided`, by default with the dtype and device of x.

    `size` and `stride` are of one length. `requires_grad`: it needs a gradient. Raises ValueError
    for a negative one.
    """
    out = _strided(size, stride, dtype or x.dtype, device or x.device)
    return out.requires_grad_() if requires_grad else out


@public
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor to write to, whose dims lie in memory in the order given; it holds zeros.

    `size` are the sizes, `physical_layout` the dims from the outermost in memory. `dtype` and
    `device` are the result's; `requires_grad`: it needs a gradient. Raises IndexError for a dim
    that there is not.
    """
    memory = empty([size[d] for d in physical_layout], dtype=dtype, device=device)
    out = permute(memory, *(list(physical_layout).index(d) for d in range(len(size))))
    return out.requires_grad_() if requires_grad else out


@public
@method()
def full_like(
    x: Tensor,
    fill_value: Scalar,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of one value with the shape and (unless given) dtype and device of `x`.

    `fill_value` is a number. `requires_grad`: the result needs a gradient. Raises RangeError for a
    value that the dtype cannot hold.
    """
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
    x: Tensor,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros with the shape and (unless given) dtype and device of `x`.

    `requires_grad`: the result needs a gradient. Raises TypeError for a dtype that is not known.
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@public
@method()
def ones_like(
    x: Tensor,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones with the shape and (unless given) dtype and device of `x`.

    `requires_grad`: the result needs a gradient. Raises TypeError for a dtype that is not known.
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@public
def empty_like(
    x: Tensor,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor to write to, with the shape and (unless given) dtype and device of `x`.

    `requires_grad`: the result needs a gradient. Raises TypeError for a dtype that is not known.
    """
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
    """`steps` values evenly spaced from `start` to `end` (numbers, 0-d tensors), both included.

    `dtype` and `device` are the result's; `requires_grad`: it needs a gradient. Raises ValueError
    for negative steps.
    """
    if requires_grad:
        return linspace(start, end, steps, dtype=dtype, device=device).requires_grad_()
    start, end = (v.item() if is_tensor(v) else v for v in (start, end))  # type: ignore[attr-defined]
    steps = operator.index(steps)
    if steps < 0:
        raise ValueError(f"linspace: steps is {steps}; it must not be negative")
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    kind = as_dtype(dtype)
    # As in torch, integers are truncated from float64, which not every device has, the ends first;
    # narrow floats are rounded once.
    if not kind.is_floating_point:
        if not kind.is_complex:
            start, end = int(start), int(end)
        return linspace(start, end, steps, dtype=float64).to(kind).to(_device(device))
    wide = float64 if kind is float64 else float32
    ramp = arange(steps, dtype=wide, device=device)
    # The upper half counts down from the end, so that both ends are exact.
    low, high = ramp * gap + start, (ramp - (steps - 1)) * gap + end
    return (low.where(ramp < (steps + 1) // 2, high) if steps > 1 else low).to(kind)


@public
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix of zeros; m defaults to n.

    `dtype` and `device` are the result's; `requires_grad`: it needs a gradient. Raises ValueError
    for a negative size.
    """
    rows = arange(n, device=device).unsqueeze(1)
    cols = arange(n if m is None else m, device=device)
    result = (rows == cols).to(as_dtype(dtype))
    return result.requires_grad_() if requires_grad else result


def of_data(data: Any, *, dtype: DType | str | None = None, device: Device | str | None) -> Tensor:
    """A tensor of nested lists or an array: bool, int64, or float32 unless `dtype` is float64."""
    values = np.asarray(data)
    wanted = None if dtype is None else as_dtype(dtype)
    kind = bool_ if values.dtype.kind == "b" else int64
    if values.dtype.kind == "f" or (wanted is not None and wanted.is_floating_point):
        kind = float64 if wanted is float64 else float32
    raw = np.array(values, kind.numpy, order="C")
    result: Tensor = type(empty(0)).from_buffer(raw.reshape(-1).view(np.uint8), kind, raw.shape)
    return result.to(dtype=kind if wanted is None else wanted, device=_device(device))
