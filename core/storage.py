"""Storage: the memory that a tensor and its views share."""

from __future__ import annotations

from typing import Any

from rushlight.core import capture
from rushlight.core.backends import Device
from rushlight.core.dtype import DType


class Storage:
    """A buffer on a device, shared by every view of it.

    version counts in-place writes: a gradient rule that saved a value compares it.
    history counts in-place writes that autograd recorded: views taken before are out of date.
    moves counts the times that a tensor over it went elsewhere: captured plans compare it.
    packing says how quantized blocks lie in the buffer: "gguf" as in the file, "planes" with
    scales and packed words apart.
    """

    __slots__ = (
        "_address",
        "buffer",
        "device",
        "history",
        "moves",
        "nbytes",
        "packing",
        "version",
        "__weakref__",
    )

    def __init__(self, device: Device, buffer: Any, nbytes: int) -> None:
        self.device = device
        self.buffer = buffer
        self.nbytes = nbytes
        self.packing = "planes" if device.type == "webgpu" else "gguf"
        self.version = 0
        self.history = 0
        self.moves = 0
        self._address: int | None = None
        if capture.active:
            capture.born(self)

    @property
    def address(self) -> int:
        """Where the bytes of a buffer of `cpu` begin, for its C kernels."""
        if self._address is None:  # slow to ask for, and it never moves
            self._address = self.buffer.__array_interface__["data"][0]
        return self._address

    @staticmethod
    def allocate(device: Device, nbytes: int, dtype: DType) -> Storage:
        """Memory for `nbytes` bytes of elements, not initialised."""
        return Storage(device, device.backend.allocate(nbytes, dtype), nbytes)
