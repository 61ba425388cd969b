"""The meta device: shapes and dtypes only. It allocates nothing and computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rushlight.core.backends.protocol import Bytes, Executable, Operand
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.graph import Graph

if TYPE_CHECKING:
    from rushlight.core.backends.passes.reusing import SharedBuffers
    from rushlight.core.backends.profiling import Probe


class MetaBackend:
    """Implements the protocol without values: reading them raises RuntimeError."""

    asynchronous = False
    min_element_width = 1
    weights_layout: Literal["gguf", "planes"] = "gguf"

    def linear_as(self, mode: str, dtype: DType) -> str:
        """ "exact": nothing is computed."""
        return "exact"

    def allocate(self, nbytes: int, dtype: DType) -> None:
        """No buffer: there are no values."""

    def upload(self, data: Bytes, dtype: DType) -> None:
        """No buffer: there are no values."""

    def write(self, buffer: None, data: Bytes) -> None:
        """Do nothing."""

    def download(self, buffer: None, start: int, stop: int, dtype: DType) -> Bytes:
        """RuntimeError: there are no values."""
        raise RuntimeError(
            "a tensor on the meta device has no values; call .init_() on its module or load "
            "weights into it, or make it on a device that computes"
        )

    async def download_async(self, buffer: None, start: int, stop: int, dtype: DType) -> Bytes:
        """RuntimeError: there are no values."""
        return self.download(buffer, start, stop, dtype)

    def begin(self, buffer: None, start: int, stop: int, dtype: DType) -> Readback[Bytes]:
        """RuntimeError: there are no values."""
        self.download(buffer, start, stop, dtype)
        raise AssertionError

    def supports(self, name: str) -> bool:
        """True: every op has a shape rule."""
        return True

    def run(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
        memo: Any = None,
    ) -> None:
        """Nothing is computed."""

    def compile(self, graph: Graph, pool: SharedBuffers) -> Executable:
        """RuntimeError: there is nothing to run."""
        raise RuntimeError("meta: compiling a graph is not supported; the device has no values")

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    async def synchronize_async(self) -> None:
        """There is nothing to wait for."""

    def info(self) -> Mapping[str, Any]:
        """That there are no values."""
        return {"device": "shapes and dtypes without values"}

    def probe(self, began: float) -> Probe:
        """RuntimeError: there is nothing to time."""
        raise RuntimeError("meta: profiling is not supported; the device computes nothing")

    def tuner(self) -> None:
        """None: there are no kernels to choose among."""

    def weight_stream(self) -> None:
        """None: there is no memory to fill."""

    def memory_left(self) -> int | None:
        """None: there is no bound."""
        return None

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Do nothing: every budget is kept."""

    def trim(self) -> None:
        """There is no memory."""

    def close(self) -> None:
        """There is nothing to close."""
