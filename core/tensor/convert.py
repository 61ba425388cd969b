"""Tensors from Python numbers, nested lists, NumPy arrays and DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import HOST, Device
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import (
    DType,
    as_dtype,
    complex_of,
    float64,
    get_default_dtype,
    int64,
    of_scalar,
    uint64,
)
from rushlight.core.basis.errors import RangeError
from rushlight.core.basis.layout import Size
from rushlight.core.jit import capture
from rushlight.core.ops.common import fitted
from rushlight.core.ops.creation import empty
from rushlight.core.tensor.exchange.dlpack import Source
from rushlight.core.tensor.tensor import Tensor, from_numpy

_WIDEST: dict[type, Any] = {float: np.float64, complex: np.complex128}


def from_dlpack(
    ext_tensor: Any, *, device: Device | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor that shares memory with any object that has `__dlpack__`, or with a capsule.

    device: where the tensor is to be; cpu takes a copy of memory elsewhere. copy: True for a copy,
    False for BufferError where one is needed. BufferError for memory that the process cannot
    reach, TypeError for a dtype that the table does not have.

    `ext_tensor` is the object or capsule.
    """
    source = Source(ext_tensor)
    target = HOST if device is None else _device(device)
    if not source.on_host and device is None:
        raise BufferError(
            f"from_dlpack: the memory is on DLPack's device {ext_tensor.__dlpack_device__()}; "
            "device='cpu' takes a copy"
        )
    if copy is False and not (source.on_host and target is HOST):
        raise BufferError(f"from_dlpack: the memory cannot be on {target} without a copy")
    out = from_numpy(source.read())
    if source.dtype is not None:
        out = Tensor(out.storage, source.dtype, out.layout)
    return out.clone() if copy and target is HOST else out.to(target)


def tensor(
    data: Any,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, a NumPy array or a tensor.

    Python floats give the default dtype (float32), complex numbers complex64, ints int64, bools
    bool; arrays keep their dtype.

    `device` is where it is, `requires_grad` whether it needs a gradient. Raises TypeError for
    values that are no numbers, ValueError for lists of different lengths and for integers that the
    dtype cannot hold.
    """
    if isinstance(data, Tensor):
        out = data.detach().clone()
    else:
        array = _array(data, dtype)
        if dtype is not None and array.size and not isinstance(data, (np.ndarray, np.generic)):
            if as_dtype(dtype).kind in "ui":
                for bound in (array.min(), array.max()):
                    fitted("tensor", bound.item(), as_dtype(dtype))
        out = from_numpy(array)
        if capture.active:
            capture.made_from_values(out)
        if dtype is None and array.dtype == np.float64 and not _holds_float64(data):
            dtype = get_default_dtype()
        if (
            dtype is None
            and array.dtype.kind == "c"
            and isinstance(_leaf(data), (float, int, complex))
        ):
            dtype = complex_of(get_default_dtype())
    out = out.to(dtype=dtype, device=_device(device)).detach()
    return out.requires_grad_() if requires_grad else out


def _array(data: Any, dtype: Any) -> npt.NDArray[Any]:
    if isinstance(data, (np.ndarray, np.generic)):
        return np.array(data, order="C")
    if isinstance(data, (bool, int, float, complex)):
        # Python floats stay float64 until the dtype is known, so no digits are lost.
        if isinstance(data, int) and not isinstance(data, bool):
            integers = uint64 if _is_wide(dtype) else int64
            return np.array(fitted("tensor", data, integers), integers.numpy)
        return np.array(data, _WIDEST.get(type(data)) or of_scalar(data).numpy)
    if _is_wide(dtype):  # NumPy makes floats of integers on both sides of 2**63
        wide = np.array(_plain(data), object)
        flat = wide.reshape(-1).tolist()
        if all(isinstance(n, int) for n in flat):
            converted = [fitted("tensor", n, uint64) for n in flat]
            return np.array(converted, np.uint64).reshape(wide.shape)
    try:
        array = np.array(_plain(data), order="C")
    except ValueError as error:
        raise ValueError(f"tensor: the lists differ in length: {error}") from None
    if array.dtype.kind == "i" and isinstance(_leaf(data), int):
        return array.astype(np.int64)  # NumPy's own default has 32 bits in the tab
    if array.dtype.kind in "Ou" and all(isinstance(n, int) for n in array.reshape(-1).tolist()):
        raise RangeError(f"tensor: an integer of the {type(data).__name__} does not fit int64")
    if array.dtype.kind not in "buifc":
        raise TypeError(
            f"tensor: {type(data).__name__} does not hold numbers (found {array.dtype})"
        )
    return array


def _is_wide(dtype: Any) -> bool:
    return dtype is not None and as_dtype(dtype) is uint64


def _plain(data: Any) -> Any:
    """Nested sequences, with their tensors replaced by arrays."""
    if isinstance(data, Tensor):
        return data.detach().host_values()
    return [_plain(d) for d in data] if isinstance(data, (list, tuple)) else data


def _leaf(data: Any) -> Any:
    """The first element of nested lists."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _holds_float64(data: Any) -> bool:
    """Whether nested lists hold a float64 that is no plain number of Python."""
    leaf = _leaf(data)
    if leaf is not data and isinstance(leaf, np.generic) and leaf.dtype != np.float64:
        return any(map(_holds_float64, data))  # NumPy makes float64 of float32 beside an int
    if isinstance(leaf, Tensor):
        return leaf.dtype is float64
    return isinstance(leaf, np.ndarray | np.generic) and leaf.dtype == np.float64


def as_tensor(data: Any, *, dtype: Any = None, device: Device | str | None = None) -> Tensor:
    """Like `tensor`, but shares memory with a tensor or NumPy array where nothing changes.

    `data`, `dtype` and `device` are as there. Raises TypeError or ValueError as there.
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and all(s >= 0 for s in data.strides):
        return from_numpy(data).to(dtype=dtype, device=_device(device))
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` (tensor, array, DLPack object, lists) as a tensor, over its memory where it can be.

    copy: True for new memory, False for ValueError where it would be needed.

    `dtype` and `device` are the result's, `requires_grad`: it needs a gradient.
    """
    source = obj
    if not isinstance(obj, Tensor | np.ndarray) and hasattr(obj, "__dlpack__"):
        source = from_dlpack(obj)
    out = as_tensor(source, dtype=dtype, device=device)
    shared = isinstance(source, Tensor | np.ndarray) and (
        out is source or (out.device is HOST and np.shares_memory(out.detach().numpy(), source))
    )
    if copy is False and not shared:
        raise ValueError(
            "asarray: these values, dtype and device need a copy; copy=False forbids it"
        )
    if copy and shared:
        out = out.detach().clone()
    return out.detach().requires_grad_() if requires_grad else out


def frombuffer(
    buffer: Any,
    *,
    dtype: DType | str,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of one dim over a buffer's memory on cpu: `count` elements after `offset` bytes.

    count: -1 for all that follow. ValueError where the buffer is too short, or leaves a rest.

    `dtype` says how bytes are read; `requires_grad`: the tensor needs a gradient.
    """
    kind, data = as_dtype(dtype), np.frombuffer(buffer, np.uint8)
    rest = data.size - offset
    if offset < 0 or rest < 0:
        raise ValueError(f"frombuffer: offset {offset} is outside the buffer of {data.size} bytes")
    if count < 0:
        if rest % kind.itemsize:
            raise ValueError(f"frombuffer: {rest} bytes are no whole number of {kind.name}")
        count = rest // kind.itemsize
    if count * kind.itemsize > rest:
        need = count * kind.itemsize
        raise ValueError(f"frombuffer: {count} {kind.name} take {need} bytes, {rest} are there")
    out = Tensor.from_buffer(data[offset : offset + count * kind.itemsize], kind, (count,))
    return out.requires_grad_() if requires_grad else out


def of_sizes_or_values(dtype: DType, values: tuple[Any, ...]) -> Tensor:
    """A tensor of these sizes, or of a sequence, array or tensor of values, on cpu."""
    if len(values) == 1 and not isinstance(values[0], int | Size):
        return tensor(values[0], dtype=dtype, device="cpu")
    shape = values[0] if values and isinstance(values[0], Size) else values or (0,)
    return empty(shape, dtype=dtype, device="cpu")
