"""Streaming downloaded weights into GPU buffers in a tab: JavaScript writes the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import DeviceLimitError, DeviceMemoryError

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend
    from rushlight.core.backends.webgpu.codegen.blocks import BlockWriter
    from rushlight.core.backends.webgpu.runtime.pool import Buffer


class WebGpuStream:
    """The device's side of web/loading/places.js; see `WeightStream` of the protocol."""

    def __init__(self, backend: WebGpuBackend) -> None:
        self.backend = backend
        port: Any = backend.port
        self.port = port.js
        self._writer: BlockWriter | None = None

    def check_room(self, nbytes: int, largest: int) -> None:
        """Refuse a model that the device cannot hold, before it is downloaded."""
        limits = self.backend.port.limits
        most = min(limits["maxBufferSize"], limits["maxStorageBufferBindingSize"])
        if largest > most:
            raise DeviceLimitError(
                f"webgpu: the largest tensor has {largest} bytes, a buffer of the adapter at most "
                f"{most}",
                hint="Use the CPU, or a file with fewer bits per weight.",
            )
        pool = self.backend.pool
        if pool.budget is not None and pool.used + nbytes > pool.budget:
            raise DeviceMemoryError(
                f"webgpu: the model's {nbytes} bytes exceed the memory budget of {pool.budget}"
            )

    def buffer(self, nbytes: int, dtype: DType) -> tuple[Buffer, int]:
        """A new buffer of plain elements, and its number for the port."""
        buffer = self.backend.allocate(nbytes, dtype, write=True)
        return buffer, buffer.handle

    def begin_blocks(self, numel: int, dtype: DType) -> tuple[Buffer, int, int]:
        """Begin with a tensor of blocks: its buffer, the staging buffer and how much that holds."""
        self._writer = writer = self.backend.block_writer(numel, dtype)
        return writer.buffer, writer.staging.handle, writer.capacity

    def commit_blocks(self, nbytes: int) -> None:
        """Repack the bytes in the staging buffer, which is free again afterwards."""
        writer = self._writer
        assert writer is not None
        with self.backend.lock:
            writer.commit(nbytes)
            self.backend.recorder.flush()
        if not writer.missing:
            self._writer = None
