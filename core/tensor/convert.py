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
    complex64,
    float32,
    float64,
    int64,
    of_scalar,
)
from rushlight.core.basis.errors import RangeError
from rushlight.core.jit import capture
from rushlight.core.ops.common import fitted
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
    """
    source = Source(ext_tensor)
    there = HOST if device is None else _device(device)
    if not source.on_host and device is None:
        raise BufferError(
            f"from_dlpack: the memory is on DLPack's device {ext_tensor.__dlpack_device__()}; "
            "device='cpu' takes a copy"
        )
    if copy is False and not (source.on_host and there is HOST):
        raise BufferError(f"from_dlpack: the memory cannot be on {there} without a copy")
    out = from_numpy(source.read())
    if source.dtype is not None:
        out = Tensor(out.storage, source.dtype, out.layout)
    return out.clone() if copy and there is HOST else out.to(there)


def tensor(
    data: Any,
    *,
    dtype: DType | str | None = None,
    device: Device | str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`: a number, nested lists, a NumPy array or a tensor.

    Python floats give float32, complex numbers complex64, ints int64, bools bool; arrays keep
    their dtype.
    """
    if isinstance(data, Tensor):
        out = data.detach().clone()
    else:
        array = _array(data)
        if dtype is not None and array.size and not isinstance(data, (np.ndarray, np.generic)):
            if as_dtype(dtype).kind in "ui":
                for bound in (array.min(), array.max()):
                    fitted("tensor", bound.item(), as_dtype(dtype))
        out = from_numpy(array)
        if capture.active:
            capture.made_from_values(out)
        if dtype is None and array.dtype == np.float64 and not _holds_float64(_leaf(data)):
            dtype = float32
        if dtype is None and isinstance(_leaf(data), complex):
            dtype = complex64
    out = out.to(dtype=dtype, device=device).detach()
    return out.requires_grad_() if requires_grad else out


def _array(data: Any) -> npt.NDArray[Any]:
    if isinstance(data, (np.ndarray, np.generic)):
        return np.array(data, order="C")
    if isinstance(data, (bool, int, float, complex)):
        # Python floats stay float64 until the dtype is known, so no digits are lost.
        if isinstance(data, int):
            fitted("tensor", data, int64)
        return np.array(data, _WIDEST.get(type(data)) or of_scalar(data).numpy)
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


def _holds_float64(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic)) or (
        isinstance(leaf, Tensor) and leaf.dtype is float64
    )


def as_tensor(data: Any, *, dtype: Any = None, device: Device | str = "cpu") -> Tensor:
    """Like `tensor`, but shares memory with a tensor or NumPy array where nothing changes."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and all(s >= 0 for s in data.strides):
        return from_numpy(data).to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)
