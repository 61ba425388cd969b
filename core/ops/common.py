"""Helpers of all ops: scalars as tensors, promotion, broadcasting of operands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from rushlight.core.backends import HOST, Device
from rushlight.core.basis.dtype import (
    DType,
    as_dtype,
    float32,
    float64,
    get_default_dtype,
    of_scalar,
    promote_types,
    result_type,
)
from rushlight.core.basis.errors import RangeError
from rushlight.core.basis.layout import Layout, Shape, broadcast_shapes
from rushlight.core.basis.limits import finfo
from rushlight.core.jit import capture
from rushlight.core.tensor import op as _op
from rushlight.core.tensor.grad_mode import no_inference
from rushlight.core.tensor.op import Meta, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Scalar = bool | int | float | complex
TensorLike = Union["Tensor", bool, int, float, complex]


def _infer_full(*, shape: tuple[int, ...], value: Scalar, dtype: DType) -> Meta:
    return Meta(dtype, Layout.contiguous(shape))


FULL = Op("full", infer=_infer_full, differentiable=False, complex=True)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a Tensor."""
    return isinstance(value, _op.tensor_class[0])


def check_tensors(name: str, **values: Any) -> None:
    """Raise TypeError for an argument that is not a Tensor."""
    for label, value in values.items():
        if not isinstance(value, Meta):
            raise TypeError(
                f"{name}: {label} is {type(value).__name__}; it must be a Tensor (make one with "
                "rl.tensor(...) or rl.from_numpy(...))"
            )


_CONSTANTS = 4096  # the most constants of a device
# The most of them that have a buffer of their own where that is not plain memory: functions that
# are captured with ever new numbers would leave as many buffers.
_BUFFERS = 512


def constant(value: Scalar, dtype: DType, device: Device) -> Tensor:
    """A read-only 0-d tensor of `value`; equal arguments return the same tensor."""
    key = _key(value, dtype)
    result: Tensor | None = device.constants.get(key)
    if result is None:
        # The tensor outlives the captured call, and inference mode.
        with capture.tracing(None), no_inference():
            result = FULL(device=device, shape=(), value=value, dtype=dtype)
        _keep(device, key, result)
    return result


def _key(value: Scalar, *more: Any) -> tuple[Any, ...]:
    """It tells apart 1, 1.0 and True, and 0.0 and -0.0, which compare equal."""
    kind = value.__class__
    return (repr(value) if kind is complex or not value or value != value else value, kind, *more)


def _keep(device: Device, key: tuple[Any, ...], tensor: Tensor) -> None:
    constants = device.constants
    if len(constants) >= _CONSTANTS:
        constants.pop(next(iter(constants)), None)
    constants[key] = tensor
    if device is not HOST and not tensor.layout.shape:
        device.scalars.append(key)
        if len(device.scalars) > _BUFFERS:
            constants.pop(device.scalars.popleft(), None)


def repeated(value: Scalar, dtype: DType, device: Device, shape: Shape) -> Tensor:
    """`constant` with one value for all of `shape`; it is not written to."""
    if capture.active or not shape:
        scalar = constant(value, dtype, device)
        return scalar.expand(*shape) if shape else scalar
    key = _key(value, dtype, shape)
    result: Tensor | None = device.constants.get(key)
    if result is None:  # what `expand` gives, without its view's history
        result = constant(value, dtype, device).alias(Layout(shape, (0,) * len(shape)))
        _keep(device, key, result)
    return result


def modular(value: Scalar, dtype: DType) -> Scalar:
    """`value` modulo the range of an integer `dtype`, as in torch."""
    if dtype.kind not in "ui" or not isinstance(value, int):
        return value
    bits = 8 * dtype.itemsize
    rest: int = value % 2**bits
    return rest - 2**bits if dtype.kind == "i" and rest >= 2 ** (bits - 1) else rest


def fitted(name: str, value: Scalar, dtype: DType) -> Scalar:
    """`value` as `dtype` holds it; RangeError for one that it cannot hold.

    A fraction is cut off, infinity stays, and a negative number wraps around in an unsigned dtype
    that holds its amount, as in torch. A complex number without an imaginary part is a real one.
    """
    try:
        if dtype.kind == "c":
            return value
        if isinstance(value, complex):
            if value.imag:
                raise OverflowError
            value = value.real
        if dtype.kind == "f":
            amount = abs(float(value))
            # 448 is the largest number of float8_e4m3fn: every dtype holds it.
            if amount <= 448 or not math.isfinite(amount) or amount <= finfo(dtype).max:
                return value
        elif dtype.kind not in "ui":
            return bool(value)
        else:
            info = np.iinfo(dtype.numpy)
            least = info.min if dtype.kind == "i" else -int(info.max)
            if least <= int(value) <= info.max:
                return modular(int(value), dtype)
    except (OverflowError, ValueError):
        pass
    raise RangeError(f"{name}: {value} does not fit dtype {dtype.name}")


_PLAIN = frozenset((float, int))  # which take the dtype of a floating tensor


def alike(condition: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether the operands of `where` need no conversion: one shape, device and plain dtype."""
    place, shape = condition.storage.device, condition.layout.shape
    return (
        a.dtype is b.dtype
        and a.dtype.kind != "q"
        and a.layout.shape == b.layout.shape == shape
        and a.storage.device is place
        and b.storage.device is place
    )


def operands(name: str, *values: TensorLike, wrap: bool = False) -> list[Tensor]:
    """The operands of an elementwise op with torch's promotion, expanded to one shape.

    wrap: a Python integer out of the dtype's range wraps around; otherwise it raises RangeError.
    """
    if len(values) == 2:  # most calls need no conversion
        a: Any = values[0]
        b: Any = values[1]
        if not is_tensor(a):
            if type(a) in _PLAIN and is_tensor(b) and b.dtype.kind == "f":
                return [repeated(a, b.dtype, b.storage.device, b.layout.shape), b]
        elif is_tensor(b):
            same = a.dtype is b.dtype and a.layout.shape == b.layout.shape
            if same and a.storage.device is b.storage.device and a.dtype.kind != "q":
                return [a, b]
        elif type(b) in _PLAIN and a.dtype.kind == "f":
            return [a, repeated(b, a.dtype, a.storage.device, a.layout.shape)]
    values = numbers(name, values)
    tensors = [v for v in values if is_tensor(v)]
    if not tensors:
        raise TypeError(f"{name}: one of the operands must be a Tensor")
    return converted(name, values, promoted(*values), tensors[0].device, wrap=wrap)  # type: ignore[union-attr]


def promoted(*values: TensorLike) -> DType:
    """The dtype of an op on these tensors and numbers, by torch's promotion."""
    return result_type(
        *(
            (v.dtype, 2 if v.ndim else 1) if is_tensor(v) else (of_scalar(v), 0)  # type: ignore[union-attr,arg-type]
            for v in values
        )
    )


def converted(
    name: str, values: tuple[TensorLike, ...], dtype: DType, device: Device, *, wrap: bool = False
) -> list[Tensor]:
    """The operands in `dtype`, expanded to one shape; 0-d ones on cpu go to the others' device."""
    if device is HOST:
        device = next((v.device for v in values if is_tensor(v) and v.device is not HOST), HOST)  # type: ignore[union-attr]
    tensors_or_none = [beside_others(v, device).to(dtype) if is_tensor(v) else None for v in values]  # type: ignore[arg-type]
    shape = broadcast_shapes(name, *(t.shape for t in tensors_or_none if t is not None))
    return [
        repeated(_whole(name, v, dtype, wrap), dtype, device, shape)  # type: ignore[arg-type]
        if t is None
        else t
        if t.shape == shape
        else _op.REGISTRY["expand"](t, shape=shape)
        for t, v in zip(tensors_or_none, values, strict=True)
    ]


def beside_others(x: Tensor, device: Device) -> Tensor:
    """A 0-d tensor on cpu on `device`; others as they are."""
    return x.to(device) if x.storage.device is HOST is not device and not x.ndim else x


def _whole(name: str, value: Scalar, dtype: DType, wrap: bool) -> Scalar:
    if dtype.kind not in "ui":
        return value
    return modular(value, dtype) if wrap else fitted(name, value, dtype)


def numbers(name: str, values: tuple[Any, ...]) -> tuple[TensorLike, ...]:
    """The operands, NumPy scalars as Python numbers, arrays as tensors; TypeError for others."""
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    arrays = False
    for v in plain:
        if is_tensor(v) and v.dtype.kind == "q":
            raise TypeError(f"{name}: {v!r} holds quantized blocks; dequantize() it first")
        if isinstance(v, np.ndarray):
            arrays = True
        elif not is_tensor(v) and not isinstance(v, (bool, int, float, complex)):
            raise TypeError(
                f"{name}: an operand is a {type(v).__name__}; it must be a Tensor or a Python "
                "number (make one with rl.tensor(...) or rl.from_numpy(...))"
            )
    return beside(name, plain) if arrays else plain


def beside(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """NumPy arrays among the operands as tensors on the device of the first tensor.

    All tensors get the dtype that NumPy's promotion gives, as in torch; devices other than cpu have
    no float64 and take float32. TypeError for arrays without a tensor, or of no numbers.
    """
    tensors = [v for v in values if is_tensor(v)]
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    for array in arrays:
        if not tensors or array.dtype.kind not in "buifc":
            check_tensors(name, **{f"the operand of {array.dtype}": array})
    plain = [t.dtype.numpy for t in tensors if not t.dtype.encoded]
    dtype = as_dtype(np.result_type(*arrays, *plain))
    for t in tensors:
        dtype = promote_types(dtype, t.dtype) if t.dtype.encoded else dtype
    if dtype is float64 and tensors[0].device is not HOST:
        dtype = float32
    return tuple(
        v.to(dtype)
        if is_tensor(v)
        else tensors[0].from_host(v, dtype)
        if isinstance(v, np.ndarray)
        else v
        for v in values
    )


def floating(name: str, x: Tensor) -> Tensor:
    """`x` as floating point: integers and booleans take the default dtype."""
    if x.dtype.kind == "q":
        raise TypeError(f"{name}: {x.dtype.name} is quantized; dequantize() it first")
    return x if x.dtype.kind in "fc" else x.to(get_default_dtype())
