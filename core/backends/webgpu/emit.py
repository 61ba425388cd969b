"""The Emitter: a lowering's interface for temporaries, bindings and dispatches."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.runtime.pool import Pool
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Recorder, Slice
from rushlight.core.backends.webgpu.runtime.status import Status
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import DeviceError, DeviceMemoryError
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout, Shape
from rushlight.wgsl_kernels import compose

# The arguments of every lowering: operands, None for an omitted one, and the op's attributes.
Inputs = Sequence[Operand | None]
Attrs = Mapping[str, Any]

ALIGN = 256
_AXIS = 65535
# Rounds that the loops of an invocation may go on a CPU: llvmpipe ends them after 65535, without a
# word.
ROUNDS = 1 << 15
MOST_DIMS = 8  # the most dims whose sizes and strides a kernel's parameters hold


def view(x: Operand, layout: Layout, dtype: DType | None = None) -> TensorView:
    """The memory of `x` under another layout."""
    return TensorView(x.buffer, layout, dtype or x.dtype)


def bits(value: float) -> int:
    """The bits of a float32 parameter."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def word(value: int) -> int:
    """A parameter that may be negative, as 32 bits."""
    return value & 0xFFFFFFFF


def fill(parameters: list[int], first: int, *values: Sequence[int]) -> None:
    """Put `values` among the parameters: the first from number `first` on, each next 8 further."""
    for row in values:
        parameters[first : first + len(row)] = map(word, row)
        first += MOST_DIMS


def grid(groups: int) -> tuple[int, int, int]:
    """Workgroups over two axes; `group_number` in the kernel puts them together again."""
    if groups <= _AXIS:
        return groups, 1, 1
    rows = -(-groups // _AXIS)
    return -(-groups // rows), rows, 1


class Emitter:
    """Records the dispatches of one op."""

    def __init__(self, op: str, recorder: Recorder, pool: Pool, status: Status) -> None:
        self.op, self.recorder, self.pool = op, recorder, pool
        self.status = status
        self.blamed = op  # what the error of an index out of range names
        self.noted = "index"  # the kind of that error
        self.limits = recorder.port.limits
        self.features = recorder.port.features

    @property
    def on_cpu(self) -> bool:
        """Whether the adapter is software: its barriers and reads of a buffer are slow."""
        return self.recorder.port.info["type"] == "CPU"

    @property
    def at_once(self) -> int:
        """Invocations that a software adapter runs at once: SwiftShader four, llvmpipe eight."""
        return 4 if "swiftshader" in self.recorder.port.info["device"].lower() else 8

    def few_lanes(self, length: int) -> bool:
        """Whether few invocations should share work of this length.

        So it is on a CPU, which waits long for many, as far as their loops may go.
        """
        return self.on_cpu and 2 * length <= ROUNDS

    @property
    def binding_limit(self) -> int:
        """The most bytes of one binding."""
        return self.limits["maxStorageBufferBindingSize"]

    def pick(self, guess: str, *key: str | int) -> str:
        """The choice among several kernels for a class of operands; see autotune.py."""
        return self.recorder.choices.pick(key, guess)

    def temporary(self, shape: Sequence[int], dtype: DType) -> TensorView:
        """A contiguous temporary with any content, freed when it has no references."""
        layout = Layout.contiguous(shape)
        nbytes = -(-layout.numel * access.width(dtype) // 4) * 4
        try:
            return TensorView(self.pool.take(max(nbytes, 4)), layout, dtype)
        except DeviceMemoryError as error:
            raise error.during(self.op) from None

    def bind(self, x: Operand, layout: Layout | None = None) -> tuple[Slice, int]:
        """The slice to bind for `x`, and the position of the first element in it, in elements.

        The slice is the whole buffer if it fits, so that bind groups are reused, else the extent of
        the layout. DeviceError with op and size if that exceeds the limit too.
        """
        layout, buffer = layout or x.layout, x.buffer
        if buffer.nbytes <= self.binding_limit:
            return Slice(buffer, 0, buffer.nbytes), layout.offset
        size = access.width(x.dtype)
        first, last = layout.extent
        start = first * size // ALIGN * ALIGN
        stop = min(-(-last * size // 4) * 4, buffer.nbytes)
        if stop - start > self.binding_limit:
            raise DeviceError(
                f"{self.op}: an operand of shape {x.layout.shape} ({x.dtype.name}) spans "
                f"{stop - start} bytes, the adapter binds {self.binding_limit} at once",
                hint="split the tensor along a dim, or compute on cpu",
            )
        return Slice(buffer, start, max(stop - start, 4)), layout.offset - start // size

    def fits(self, x: Operand, layout: Layout) -> bool:
        """Whether `bind` would accept this part of `x`."""
        if x.buffer.nbytes <= self.binding_limit:
            return True
        size = access.width(x.dtype)
        first, last = layout.extent
        return -(-last * size // 4) * 4 - first * size // ALIGN * ALIGN <= self.binding_limit

    def walk(self, shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
        """Sizes, and strides per operand, of a walk over few dims: `collapse`, for a kernel.

        Raises ValueError beyond eight dims, which is what parameters hold.
        """
        sizes, steps = collapse(shape, strides)
        if len(sizes) > MOST_DIMS:
            raise ValueError(
                f"{self.op}: {len(sizes)} dims that lie apart in memory, webgpu walks up to "
                f"{MOST_DIMS}; compute on cpu"
            )
        return sizes, steps

    def kernel(self, file: str, access_: str, *lines: str) -> Kernel:
        """The kernel of wgsl_kernels/FILE.wgsl with `lines` in front."""
        return Kernel(compose(file, *lines), access_, file)

    def dispatch(
        self,
        kernel: Kernel,
        bindings: Sequence[Slice],
        parameters: Sequence[int],
        groups: tuple[int, int, int],
    ) -> None:
        """Append one dispatch; parameters are up to 63 words of 32 bits (the last stays zero)."""
        self.recorder.dispatch(self.op, kernel, bindings, parameters, groups)


def collapse(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """The same walk over several operands with as few dims as can be; at least one."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d in range(len(shape)):
        if shape[d] == 1:
            continue
        joins = bool(sizes) and all(
            s[-1] == st[d] * shape[d] for s, st in zip(steps, strides, strict=True)
        )
        if joins:
            sizes[-1] *= shape[d]
            for s, st in zip(steps, strides, strict=True):
                s[-1] = st[d]
        else:
            sizes.append(shape[d])
            for s, st in zip(steps, strides, strict=True):
                s.append(st[d])
    if not sizes:
        return (1,), [(0,) for _ in strides]
    return tuple(sizes), [tuple(s) for s in steps]
