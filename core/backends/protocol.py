"""The protocol that every backend implements: memory, ops, compiled graphs, properties.

A backend sees buffers, layouts and dtypes, never a Tensor's history. The rooms above use this
protocol only; none of them names a backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.memo import Memo
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.graph import Graph, Slot
from rushlight.core.basis.layout import Layout

if TYPE_CHECKING:
    from rushlight.core.backends.autotuning import Tuner
    from rushlight.core.backends.passes.reusing import SharedBuffers
    from rushlight.core.backends.profiling import Probe

Bytes = npt.NDArray[np.uint8]


class Operand(Protocol):
    """A kernel's view of a tensor: a buffer, the layout of the elements in it, their dtype."""

    @property
    def storage(self) -> Any:
        """The holder of the buffer: one object for all views of the memory."""

    @property
    def buffer(self) -> Any:
        """The backend's own buffer object."""

    @property
    def layout(self) -> Layout:
        """Shape, strides and offset, in elements."""

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""


class Executable(Protocol):
    """A compiled graph: it runs any number of times, on one thread at a time.

    nbytes: bytes of the buffers that it does not share. shared: the buffers that it shares with
    other executables, by number. in_order: steps run in the graph's order, so two slots may be
    bound to the same memory.
    """

    nbytes: int
    shared: dict[int, Any]
    in_order: bool

    @property
    def alive(self) -> bool:
        """Whether the executable can still run."""

    def bind(self, slot: Slot, argument: Operand) -> None:
        """Bind an argument's slot to a tensor's memory for the next run."""

    def fresh(self, slot: Slot) -> Any:
        """A new buffer for a result of the next run."""

    def run(self) -> None:
        """Run all steps once."""

    def vacate(self) -> None:
        """Release the buffers that were bound for a run."""


class WeightStream(Protocol):
    """Writes a checkpoint's bytes to a device's memory during a download in a tab.

    port: the JavaScript object that writes to the device's buffers.
    """

    port: Any

    def check_room(self, nbytes: int, largest: int) -> None:
        """Raise DeviceMemoryError if a model of `nbytes` bytes exceeds the memory budget, or its
        largest tensor exceeds the largest buffer."""

    def buffer(self, nbytes: int, dtype: DType) -> tuple[Any, int]:
        """A new buffer of plain elements, and its number for the port."""

    def begin_blocks(self, numel: int, dtype: DType) -> tuple[Any, int, int]:
        """Begin with a tensor of quantized blocks: its new buffer, the number of the staging
        buffer that takes the next bytes, and how many bytes that takes at once."""

    def commit_blocks(self, nbytes: int) -> None:
        """Repack the bytes in the staging buffer, which is free again afterwards."""


class Backend(Protocol):
    """The backend of one device.

    asynchronous: ops continue after `run` returns, and a read waits for them. min_element_width:
    bytes of a word; several narrower elements share a word, and operands of a compiled graph begin
    at a word. weights_layout: the layout of quantized blocks in a buffer: "gguf" as in the file, or
    "planes" with scales and packed words apart.
    """

    asynchronous: bool
    min_element_width: int
    weights_layout: Literal["gguf", "planes"]

    def linear_as(self, mode: str, dtype: DType) -> str:
        """The mode that products with `dtype` run in if `mode` is asked for; `rl.set_linear_mode`
        lists them."""

    def allocate(self, nbytes: int, dtype: DType) -> Any:
        """A new buffer for `nbytes` bytes of elements, not initialised."""

    def upload(self, data: Bytes, dtype: DType) -> Any:
        """A buffer with `data`, elements of `dtype`; it may be `data` itself."""

    def write(self, buffer: Any, data: Bytes) -> None:
        """Write `data`, stored elements, to the start of a buffer, after all pending work."""

    def download(self, buffer: Any, start: int, stop: int, dtype: DType) -> Bytes:
        """Bytes start to stop of a buffer, after all pending work; may share memory with it."""

    async def download_async(self, buffer: Any, start: int, stop: int, dtype: DType) -> Bytes:
        """`download` without blocking."""

    def begin(self, buffer: Any, start: int, stop: int, dtype: DType) -> Readback[Bytes]:
        """Begin to read bytes start to stop of plain elements, as they are after pending work."""

    def supports(self, name: str) -> bool:
        """Whether the op `name` has a kernel."""

    def run(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
        memo: Memo | None = None,
    ) -> None:
        """Run the op `name` into `out`, which may be the first input (an in-place form).

        memo: of this call and equal ones, where `out` is new memory; the backend may keep in it
        what it made of dtypes, layouts and attributes.
        """

    def compile(self, graph: Graph, pool: SharedBuffers) -> Executable:
        """Compile the graph; with the pass "reuse" it shares the buffers of `pool`."""

    def synchronize(self) -> None:
        """Wait for all pending work and raise its errors."""

    async def synchronize_async(self) -> None:
        """`synchronize` without blocking."""

    def info(self) -> Mapping[str, Any]:
        """The device's name, and its limits and features if they are known."""

    def probe(self, began: float) -> Probe:
        """A probe that times the device for a profile that `began` at this `profiling.now`."""

    def tuner(self) -> Tuner | None:
        """The device's choices among several kernels for an op, or None."""

    def weight_stream(self) -> WeightStream | None:
        """A stream of downloaded bytes to the device; None if weights stay in the heap."""

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Refuse allocations beyond `nbytes` bytes in total; None: no bound."""

    def memory_left(self) -> int | None:
        """Bytes up to the bound of `set_memory_budget`; None without one."""

    def trim(self) -> None:
        """Free the memory that is kept for reuse."""

    def close(self) -> None:
        """Free the device's memory; its tensors are lost."""
