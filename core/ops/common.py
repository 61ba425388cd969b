"""Helpers of all ops: scalars as tensors, promotion, broadcasting of operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType, of_scalar, result_type
from rushlight.core.basis.layout import Layout, broadcast_shapes
from rushlight.core.jit import capture
from rushlight.core.tensor import op as _op
from rushlight.core.tensor.op import Meta, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Scalar = bool | int | float
TensorLike = Union["Tensor", bool, int, float]


def _infer_full(*, shape: tuple[int, ...], value: Scalar, dtype: DType) -> Meta:
    return Meta(dtype, Layout.contiguous(shape))


FULL = Op("full", infer=_infer_full, differentiable=False)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor."""
    return isinstance(value, _op.tensor_class[0])


_CONSTANTS = 4096  # the most constants of a device


def constant(value: Scalar, dtype: DType, device: Device) -> Tensor:
    """A read-only 0-d tensor of `value`; equal arguments return the same tensor."""
    # The key distinguishes 1, 1.0 and True, and 0.0 and -0.0, which compare equal.
    kept, key = device.constants, (repr(value), dtype)
    found: Tensor | None = kept.get(key)
    if found is None:
        with capture.tracing(None):  # the tensor outlives the captured call
            found = FULL(device=device, shape=(), value=value, dtype=dtype)
        if len(kept) >= _CONSTANTS:
            kept.pop(next(iter(kept)), None)
        kept[key] = found
    return found


def modular(value: Scalar, dtype: DType) -> Scalar:
    """`value` modulo the range of an integer `dtype`, as in torch."""
    if dtype.kind not in "ui" or not isinstance(value, int):
        return value
    bits = 8 * dtype.itemsize
    rest: int = value % 2**bits
    return rest - 2**bits if dtype.kind == "i" and rest >= 2 ** (bits - 1) else rest


def check_fits(name: str, value: Scalar, dtype: DType) -> None:
    """Raise ValueError for a number that `dtype` cannot hold; a fraction may be cut off."""
    try:
        if dtype.kind not in "ui":
            float(value)
            return
        info = np.iinfo(dtype.numpy)
        if info.min <= int(value) <= info.max:
            return
    except (OverflowError, ValueError):
        pass
    raise ValueError(f"{name}: {value} does not fit dtype {dtype.name}")


def operands(name: str, *values: TensorLike, wrap: bool = False) -> list[Tensor]:
    """The operands of an elementwise op with torch's promotion, expanded to one shape.

    wrap: a Python integer out of the dtype's range wraps around; otherwise it raises ValueError.
    """
    first = values[0]
    if is_tensor(first) and first.dtype.kind != "q":  # type: ignore[union-attr]
        dtype, shape = first.dtype, first.layout.shape  # type: ignore[union-attr]
        for v in values:
            if not is_tensor(v) or v.dtype is not dtype or v.layout.shape != shape:  # type: ignore[union-attr]
                break
        else:
            return list(values)  # type: ignore[arg-type]
    values = numbers(name, values)
    tensors = [v for v in values if is_tensor(v)]
    if not tensors:
        raise TypeError(f"{name}: one of the operands must be a Tensor")
    ranks = [(v.dtype, 2 if v.ndim else 1) if is_tensor(v) else (of_scalar(v), 0) for v in values]  # type: ignore[union-attr,arg-type]
    dtype = result_type(*ranks)
    if wrap:
        values = tuple(v if is_tensor(v) else modular(v, dtype) for v in values)  # type: ignore[arg-type]
    return converted(name, values, dtype, tensors[0].device)  # type: ignore[union-attr]


def converted(
    name: str, values: tuple[TensorLike, ...], dtype: DType, device: Device
) -> list[Tensor]:
    """The operands in `dtype`, expanded to one shape."""
    found = [
        v.to(dtype) if is_tensor(v) else constant(v, dtype, device)  # type: ignore[union-attr,arg-type]
        for v in values
    ]
    shape = broadcast_shapes(name, *(t.shape for t in found))
    return [t if t.shape == shape else _op.REGISTRY["expand"](t, shape=shape) for t in found]


def numbers(name: str, values: tuple[Any, ...]) -> tuple[TensorLike, ...]:
    """The operands, NumPy scalars as Python numbers; TypeError if not a number or tensor."""
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    for v in plain:
        if is_tensor(v) and v.dtype.kind == "q":
            raise TypeError(f"{name}: {v!r} holds quantized blocks; dequantize() it first")
        if not is_tensor(v) and not isinstance(v, (bool, int, float)):
            raise TypeError(
                f"{name}: an operand is a {type(v).__name__}; it must be a Tensor or a Python "
                "number (make one with rl.tensor(...) or rl.from_numpy(...))"
            )
    return plain


def floating(name: str, x: Tensor) -> Tensor:
    """`x` as floating point: integers and booleans become float32, as in torch."""
    if x.dtype.kind == "q":
        raise TypeError(f"{name}: {x.dtype.name} is quantized; dequantize() it first")
    return x if x.dtype.is_floating_point else x.to("float32")
