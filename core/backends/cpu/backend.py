"""The backend of the cpu device: C and NumPy kernels over byte buffers."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.cpu import lowering, memory, simd
from rushlight.core.backends.cpu.lowering import prepared
from rushlight.core.backends.cpu.lowering.blocks import KERNELS as BLOCK_KERNELS
from rushlight.core.backends.cpu.reference import (
    blocks,
    conv_kernels,
    integers,
    linalg,
    nn_kernels,
    numpy_kernels,
    recurrence,
    window_kernels,
)
from rushlight.core.backends.cpu.reference.blocks import Rows, Stack
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.memo import Memo
from rushlight.core.backends.passes.reusing import SharedBuffers
from rushlight.core.backends.protocol import Bytes, Executable, Operand
from rushlight.core.backends.readback import CompletedReadback, Readback
from rushlight.core.basis import codec
from rushlight.core.basis.dtype import DType, float16, float32
from rushlight.core.basis.errors import DeviceMemoryError, SizeError
from rushlight.core.basis.graph import Graph
from rushlight.core.basis.layout import count_elements

if TYPE_CHECKING:
    from rushlight.core.backends.profiling import Probe

Array = npt.NDArray[Any]

KERNELS: dict[str, Callable[..., None]] = {
    **numpy_kernels.KERNELS,
    **nn_kernels.KERNELS,
    **recurrence.KERNELS,
    **conv_kernels.KERNELS,
    **window_kernels.KERNELS,
    **linalg.KERNELS,
    **integers.KERNELS,
}
# Ops that copy bits without arithmetic: they run on the stored form of any dtype.
MOVES = numpy_kernels.MOVES
# Ops whose second input is a weight that is converted a few rows at a time.
BY_ROWS = frozenset({"linear", "linear_t", "linear_experts", "linear_experts_t"})


def view(x: Operand) -> Array:
    """The elements as stored, as a strided NumPy view of the buffer."""
    return codec.stored_view(x.dtype, x.layout, x.buffer)


def compute_dtype(dtype: DType) -> DType:
    """The dtype that arithmetic runs in: float32 for the narrower floats."""
    return float32 if dtype.encoded or dtype is float16 or dtype.kind == "q" else dtype


def widen(dtype: DType, stored: Array) -> Array:
    """Stored elements in the dtype that arithmetic runs in."""
    if dtype.kind == "q":
        return blocks.dequantize(dtype, stored)
    if dtype.encoded:
        return codec.decode(dtype, stored)
    return stored.astype(np.float32) if dtype is float16 else stored


def values(x: Operand) -> Array:
    """The elements in the dtype that arithmetic runs in; a view if that is the stored one."""
    return widen(x.dtype, view(x))


class CpuBackend:
    """Runs every op at once; buffers are one-dimensional arrays of bytes."""

    asynchronous = False
    min_element_width = 1
    weights_layout: Literal["gguf", "planes"] = "gguf"

    def linear_as(self, mode: str, dtype: DType) -> str:
        """The modes that round are "fast" here, for types with C kernels."""
        rounds = mode != "exact" and simd.library is not None and dtype in BLOCK_KERNELS
        return "fast" if rounds else "exact"

    def allocate(self, nbytes: int, dtype: DType) -> Bytes:
        """Memory for `nbytes` bytes, not initialised."""
        try:
            return np.empty(nbytes, np.uint8) if nbytes < memory.LEAST else memory.allocate(nbytes)
        except (MemoryError, ValueError, OverflowError):
            raise DeviceMemoryError(f"cpu: no memory for a tensor of {nbytes} bytes") from None

    def upload(self, data: Bytes, dtype: DType) -> Bytes:
        """`data` itself: the buffer and the caller's array share memory."""
        return data

    def write(self, buffer: Bytes, data: Bytes) -> None:
        """Write `data` over the beginning of a buffer."""
        buffer[: data.size] = data

    def download(self, buffer: Bytes, start: int, stop: int, dtype: DType) -> Bytes:
        """A view of the bytes from start to stop."""
        return buffer[start:stop]

    async def download_async(self, buffer: Bytes, start: int, stop: int, dtype: DType) -> Bytes:
        """`download`, as cpu never has pending work."""
        return self.download(buffer, start, stop, dtype)

    def begin(self, buffer: Bytes, start: int, stop: int, dtype: DType) -> Readback[Bytes]:
        """`download` of a copy: the values as they are now."""
        return CompletedReadback(buffer[start:stop].copy())

    def supports(self, name: str) -> bool:
        """Whether the op `name` has a kernel."""
        return name in KERNELS or name in ELEMENTWISE or name == "cast"

    def run(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
        memo: Memo | None = None,
    ) -> None:
        """Run the op `name` into `out`, which may be the first input."""
        if simd.library is not None:
            try:
                if memo is not None and prepared.run(memo, name, inputs, out, attrs):
                    return
                record = lowering.record(name, inputs, out, attrs)
                if record is not None:
                    simd.run([record], [name])
                    return
            except (IndexError, SizeError, simd.Refused):
                pass  # `bind` names shape and index, and takes other operands
        try:
            with np.errstate(all="ignore"):
                self.bind(name, inputs, out, attrs)()
        except MemoryError as error:
            shapes = [x.layout.shape for x in inputs if x is not None]
            raise DeviceMemoryError(f"{name}: cpu: operands {shapes}: {error}") from None

    def bind(
        self, name: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
    ) -> Callable[[], None]:
        """A function that runs the op by NumPy's kernel on the same buffers, repeatedly.

        The caller switches NumPy's warnings off. Raises SizeError for an operand of more elements
        than NumPy and the C kernels count.
        """
        for x in (*inputs, out):
            if x is not None and count_elements(x.layout.shape) > simd.MOST_ELEMENTS:
                raise SizeError(
                    f"{name}: an operand of shape {x.layout.shape} has too many elements; at most "
                    "2**48 are supported, a size of 0 counted as 1"
                )
        if name == "embedding" and _is_blocks(inputs[0]):
            return partial(_embed_blocks, out, *inputs)
        if name in MOVES:
            stored = [None if x is None else view(x) for x in inputs]
            return partial(KERNELS[name], view(out), *stored, **_stored_attrs(out.dtype, attrs))
        rows = 1 if name in BY_ROWS else -1
        if _is_narrow(out) or any(_is_narrow(x) for i, x in enumerate(inputs) if i != rows):
            return partial(_run_wide, name, rows, inputs, out, attrs)
        return partial(_compute, name, view(out), _arrays(rows, inputs), attrs)

    def compile(self, graph: Graph, pool: SharedBuffers) -> Executable:
        """The graph as messages to the C kernels and calls of NumPy kernels."""
        from rushlight.core.backends.cpu.executable import CpuExecutable

        return CpuExecutable(self, graph, pool)

    def probe(self, began: float) -> Probe:
        """A probe that times each kernel by the host's clock."""
        from rushlight.core.backends.cpu.probe import Probe

        return Probe(self, began)

    def tuner(self) -> None:
        """None: each op has one kernel."""

    def weight_stream(self) -> None:
        """None: weights are loaded into the heap and stay there."""

    def synchronize(self) -> None:
        """Do nothing: every op is complete when it returns."""

    async def synchronize_async(self) -> None:
        """Do nothing: every op is complete when it returns."""

    def info(self) -> Mapping[str, Any]:
        """The CPU's name, if Python knows it, the kernels in use and their threads.

        kernels: "C, AVX-512" and the like, or "NumPy" with the reason in brackets.
        """
        name = platform.processor() or platform.machine()
        linear = "exact" if simd.library is None else "fast"  # the fastest supported mode
        return {
            "device": name,
            "kernels": simd.in_use(),
            "threads": simd.threads[0],
            "linear": linear,
        }

    def memory_left(self) -> int | None:
        """None: there is no bound."""
        return None

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Raise ValueError: memory on cpu is the process's memory."""
        raise ValueError("set_memory_budget: cpu is not supported; supported: webgpu")

    def trim(self) -> None:
        """Do nothing: no memory is kept for reuse."""

    def close(self) -> None:
        """Do nothing: the buffers belong to NumPy."""


def _is_narrow(x: Operand | None) -> bool:
    return x is not None and compute_dtype(x.dtype) is not x.dtype


def _arrays(rows: int, inputs: Sequence[Operand | None]) -> list[Any]:
    """The inputs in arithmetic form; input `rows` is a weight."""
    return [
        None if x is None else rows_of(x) if i == rows else values(x) for i, x in enumerate(inputs)
    ]


def _run_wide(
    name: str, rows: int, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
) -> None:
    """Run an op whose operands are widened first or whose result is narrowed after."""
    arrays = _arrays(rows, inputs)
    if not _is_narrow(out):
        _compute(name, view(out), arrays, attrs)
        return
    wide = np.empty(out.layout.shape, np.float32)
    _compute(name, wide, arrays, attrs)
    _store(out, wide)


def _is_blocks(x: Operand | None) -> bool:
    return x is not None and x.dtype.kind == "q"


def _embed_blocks(out: Operand, weight: Operand | None, index: Operand | None) -> None:
    assert weight is not None and index is not None
    stored = view(weight)
    rows = stored[numpy_kernels.within("embedding", view(index), stored.shape[0])]
    np.copyto(view(out), blocks.dequantize(weight.dtype, rows))


def rows_of(weight: Operand) -> Array | Rows | Stack:
    """Matrices for a product: as stored if NumPy can multiply them, else pieces of rows."""
    if compute_dtype(weight.dtype) is weight.dtype:
        return view(weight)
    stored, columns = view(weight), weight.layout.shape[-1]
    if stored.ndim == 3:
        return Stack(weight.dtype, stored, columns, widen)
    return Rows(weight.dtype, stored, columns, widen)


def _stored_attrs(dtype: DType, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes with a fill value in its stored form."""
    if "value" in attrs and dtype.encoded:
        bits = codec.encode(dtype, np.asarray(attrs["value"], np.float32))
        return {**attrs, "value": bits[()]}
    return attrs


def _compute(name: str, out: Array, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> None:
    if name == "cast":
        _cast(out, arrays[0])
    elif name in ELEMENTWISE:
        ELEMENTWISE[name].numpy(*arrays, out=out)
    else:
        KERNELS[name](out, *arrays, **attrs)


def _cast(out: Array, x: Array) -> None:
    if x.dtype.kind == "c" and out.dtype.kind not in "cb":
        x = x.real
    if out.dtype.kind not in "iu" or x.dtype.kind != "f":
        np.copyto(out, x, casting="unsafe")
        return
    # C, and so NumPy, leaves floats out of range undefined: here the nearest integer, nan as 0.
    info = np.iinfo(out.dtype)
    over, under = x >= 2.0 ** (info.bits - (out.dtype.kind == "i")), x <= float(info.min) - 1
    if np.any(over | under | np.isnan(x)):
        np.copyto(out, np.where(over | under | np.isnan(x), 0, x), casting="unsafe")
        np.copyto(out, info.max, where=over)
        np.copyto(out, info.min, where=under)
    else:
        np.copyto(out, x, casting="unsafe")


def _store(out: Operand, wide: Array) -> None:
    target = view(out)
    if out.dtype.encoded:
        target[...] = codec.encode(out.dtype, wide)
    else:
        np.copyto(target, wide, casting="unsafe")
