"""Profiling: the events that backends report, and the minimal cost of an op."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.graph import Step

T = TypeVar("T")
now = time.perf_counter

# Operations per element of the result, for ops where an estimate of one is too low.
_PER_ELEMENT = {
    "layer_norm": 8,
    "log_softmax": 5,
    "rms_norm": 4,
    "rope": 3,
    "softmax": 5,
}
_REDUCE = frozenset({"all", "amax", "amin", "any", "argmax", "argmin", "cumsum", "sum"})
_MOVE = frozenset({
    "arange", "argsort", "assign", "cache_write", "cast", "cat", "copy", "embedding", "flip",
    "full", "gather", "index_select", "pad", "put", "ravel_index", "scatter", "slice_backward",
    "topk", "transfer", "unfold",
})  # fmt: skip
# Ops that read as many elements of their first input as they write.
_LOOK_UP = frozenset({"embedding", "gather", "index_select"})


@dataclass(slots=True)
class Event:
    """A span of time, in seconds since the profile began.

    name: the op, or the host's activity. track: "kernel", or for the host "record" (Python prepares
    an op), "submit" or "wait". nbytes: bytes of the op's operands, each once. operations:
    arithmetic operations. Both belong to the dispatch that does most of the op's work.
    """

    name: str
    kernel: str
    start: float
    seconds: float
    nbytes: int = 0
    operations: int = 0
    track: str = "kernel"


class Label(str):
    """The name of a dispatch's op, with the dispatch's figures for a profile."""

    kernel = ""
    groups = 0
    nbytes = 0
    operations = 0

    @classmethod
    def of(cls, op: str, kernel: str, groups: Sequence[int]) -> Label:
        """The label of one dispatch, without its cost."""
        label = cls(op)
        label.kernel, label.groups = kernel, math.prod(groups)
        return label

    @classmethod
    def joined(cls, ops: Sequence[str], kernel: str, groups: Sequence[int]) -> Label:
        """The label of a dispatch that replaces those of `ops`."""
        label = cls.of("+".join(dict.fromkeys(ops)), kernel, groups)
        label.nbytes = sum(op.nbytes for op in ops if isinstance(op, Label))
        label.operations = sum(op.operations for op in ops if isinstance(op, Label))
        return label


Steps = Generator[Any, Any, T]  # yields requests to read from a device


def drive(steps: Steps[T], read: Callable[[Any], Any]) -> T:
    """Answer the requests of `steps`; returns its result."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(read(asked))
    except StopIteration as end:
        value: T = end.value
        return value


async def drive_async(steps: Steps[T], read: Callable[[Any], Any]) -> T:
    """`drive` with awaited answers."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await read(asked))
    except StopIteration as end:
        value: T = end.value
        return value


class Probe(Protocol):
    """Records one backend's events during a profile."""

    timing: str  # the source of the kernels' times
    resolution: float  # times are multiples of this many seconds; 0 if they are exact
    events: list[Event]

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> None:
        """Stop recording. `events` lacks only the events that `collect` reads from the device."""

    def collect(self) -> Steps[None]:
        """Read the remaining timestamps and make events of them."""

    def read(self, asked: Any) -> Any:
        """The answer to a request of `collect` or `ceilings`; blocks."""

    def begin(self, asked: Any) -> Readback[Any]:
        """`read`, begun at once."""

    def ceilings(self) -> Steps[tuple[float, float]]:
        """Bytes that the device copies per second, and its float32 operations per second."""


# The probe of the cpu device, to which executables report their calls.
watching: list[Callable[[Sequence[Callable[[], None]], Sequence[Sequence[Step]]], None]] = []


def credit(ops: Sequence[str], cost: tuple[int, int]) -> None:
    """Add an op's cost to the largest of its dispatches, whose labels are among `ops`."""
    labels = [op for op in ops if isinstance(op, Label)]
    if labels:
        largest = max(labels, key=lambda label: label.groups)
        largest.nbytes += cost[0]
        largest.operations += cost[1]


def cost(
    name: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
) -> tuple[int, int]:
    """The least bytes that an op reads and writes, and its arithmetic operations.

    Bytes: the part of each operand that the op reads, once; a cache as a whole, since only the
    device knows its lengths. Operations: those of the definition, an elementwise function as one.
    """
    operands = [x for x in inputs if x is not None]
    written = _held(out)
    if name in _LOOK_UP:
        return 2 * written + _held(operands[-1]), 0
    if name == "cache_write":
        return 2 * sum(map(_held, operands[1:2])), 0
    return sum(map(_held, operands)) + written, _operations(name, operands, out, attrs)


def _held(x: Operand) -> int:
    """Bytes between an operand's first and last element, which are few for an expanded one."""
    first, last = x.layout.extent
    return int(x.dtype.nbytes(max(0, min(x.layout.numel, last - first))))


def _operations(
    name: str, inputs: Sequence[Operand], out: Operand, attrs: Mapping[str, Any]
) -> int:
    size = out.layout.numel
    fused = size * sum(len(getattr(value, "nodes", ())) for value in attrs.values())
    shapes = [x.layout.shape for x in inputs]
    if name in ("linear", "linear_experts"):
        return 2 * size * shapes[1][-1] + fused
    if name in ("linear_t", "linear_experts_t"):
        return 2 * size * shapes[1][-2] + fused
    if name in ("matmul", "byte_product"):
        return 2 * size * shapes[0][-1] + fused
    if name == "attention":  # scores, and values weighted by them
        keys = shapes[1][2]
        return keys * (2 * math.prod(shapes[0]) + 2 * size + 5 * math.prod(shapes[0][:3]))
    if name in ("conv2d", "byte_depthwise"):
        return 2 * size * math.prod(shapes[1][1:]) + fused
    if name == "conv2d_input":
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if name == "conv2d_weight":
        return 2 * math.prod(shapes[1]) * math.prod(out.layout.shape[1:])
    if name in _REDUCE:
        return math.prod(shapes[0])
    if name in _MOVE or name.startswith("bitwise"):
        return 0
    if name == "fused":
        return fused
    return size * _PER_ELEMENT.get(name, 1) + fused
