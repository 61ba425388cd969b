"""Storage: the memory that a tensor and its views share."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from rushlight.core.backends import HOST, Device
from rushlight.core.basis.dtype import DType
from rushlight.core.jit import capture

_Byte = ctypes.c_char


class _Inference(threading.local):
    """on: this thread makes tensors for inference only (grad_mode.py)."""

    on = False


inference = _Inference()


class Storage:
    """A buffer on a device, shared by every view of it.

    version counts in-place writes: a gradient rule that saved a value compares it.
    history counts in-place writes that autograd recorded: views taken before are out of date.
    moves counts how often a tensor left this storage for another: executables compare it.
    lent: other code has, or may have, the memory too, and may write to it unseen.
    inference: it was made in `inference_mode`, and autograd takes no tensor of it.
    """

    __slots__ = (
        "_address",
        "buffer",
        "device",
        "history",
        "inference",
        "lent",
        "moves",
        "nbytes",
        "version",
        "__weakref__",
    )

    def __init__(self, device: Device, buffer: Any, nbytes: int, lent: bool = True) -> None:
        self.device = device
        self.buffer = buffer
        self.nbytes = nbytes
        self.version = 0
        self.history = 0
        self.moves = 0
        self.lent = lent
        self.inference = inference.on
        self._address: int | None = None
        if capture.active:
            capture.storage_made(self)

    @property
    def weights_layout(self) -> str:
        """The layout of quantized blocks in the buffer: see `Backend.weights_layout`."""
        return self.device.backend.weights_layout

    @property
    def address(self) -> int:
        """The address of a buffer in the process's memory, for C kernels."""
        if self._address is None:
            try:
                self._address = ctypes.addressof(_Byte.from_buffer(self.buffer))
            except (TypeError, ValueError):  # read-only or empty: five times as slow to ask for
                self._address = self.buffer.__array_interface__["data"][0]
        return self._address

    def may_overlap(self, other: Storage) -> bool:
        """Whether this memory and `other`, both lent, may have bytes in common."""
        if self.device is not HOST or other.device is not HOST:
            return True
        begin, end = self.address, self.address + self.nbytes
        return begin < other.address + other.nbytes and other.address < end

    def __call__(self) -> Storage:
        """The storage itself: torch has `x.storage()`."""
        return self

    def data_ptr(self) -> int:
        """The address on cpu, elsewhere a number; equal for tensors of the same memory."""
        return self.address if self.device is HOST else id(self)

    def size(self) -> int:
        """RuntimeError: a storage does not know its elements; `x.untyped_storage()` its bytes."""
        raise RuntimeError(
            "storage().size() is not supported; supported: x.untyped_storage().nbytes(), x.numel()"
        )

    __len__ = size

    def __bool__(self) -> bool:
        return True

    @staticmethod
    def allocate(device: Device, nbytes: int, dtype: DType) -> Storage:
        """A storage of `nbytes` bytes, not initialised."""
        return Storage(device, device.backend.allocate(nbytes, dtype), nbytes, lent=False)


def check_requiring(storage: Storage, requires_grad: bool) -> None:
    """RuntimeError where a tensor of this memory cannot require a gradient."""
    if requires_grad and storage.inference and not inference.on:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed; "
            "clone() it first"
        )
