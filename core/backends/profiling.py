"""What a profile is told by backends: spans of time, and what an op costs at least."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rushlight.core.backends import Operand

T = TypeVar("T")
now = time.perf_counter

# Operations per element of the result, where one would be too far from the truth.
_PER_ELEMENT = {
    "layer_norm": 8, "log_softmax": 5, "rms_norm": 4, "rope": 3, "softmax": 5,
}  # fmt: skip
_REDUCE = frozenset({"all", "amax", "amin", "any", "argmax", "argmin", "cumsum", "sum"})
_MOVE = frozenset({
    "arange", "argsort", "assign", "cache_write", "cast", "cat", "copy", "embedding", "flip",
    "full", "gather", "index_select", "pad", "put", "ravel_index", "scatter", "slice_backward",
    "topk", "transfer", "unfold",
})  # fmt: skip
# Ops that read only as much of their first input as they write.
_LOOK_UP = frozenset({"embedding", "gather", "index_select"})


@dataclass(slots=True)
class Event:
    """A span of time, in seconds since the profile began.

    name: the op, or what the host did. track: "kernel", or of the host "record" (Python prepares an
    op), "submit" or "wait". nbytes: the op's operands, each once; operations: of arithmetic; both
    with the dispatch that does most of an op's work.
    """

    name: str
    kernel: str
    start: float
    seconds: float
    nbytes: int = 0
    operations: int = 0
    track: str = "kernel"


class Label(str):
    """The name of a dispatch's op, with what a profile says of the dispatch."""

    kernel = ""
    groups = 0
    nbytes = 0
    operations = 0

    @classmethod
    def of(cls, op: str, kernel: str, groups: Sequence[int]) -> Label:
        """The label of one dispatch, its cost not known yet."""
        made = cls(op)
        made.kernel, made.groups = kernel, math.prod(groups)
        return made

    @classmethod
    def joined(cls, ops: Sequence[str], kernel: str, groups: Sequence[int]) -> Label:
        """The label of a dispatch that does the work of those of `ops`."""
        made = cls.of("+".join(dict.fromkeys(ops)), kernel, groups)
        made.nbytes = sum(op.nbytes for op in ops if isinstance(op, Label))
        made.operations = sum(op.operations for op in ops if isinstance(op, Label))
        return made


Steps = Generator[Any, Any, T]  # asks for what is to be read from a device


def drive(steps: Steps[T], read: Callable[[Any], Any]) -> T:
    """Answer what `steps` asks for; gives its result."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(read(asked))
    except StopIteration as end:
        found: T = end.value
        return found


async def drive_async(steps: Steps[T], read: Callable[[Any], Any]) -> T:
    """`drive` for what is to be awaited."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await read(asked))
    except StopIteration as end:
        found: T = end.value
        return found


class Probe(Protocol):
    """Watches one backend while a profile goes on."""

    timing: str  # where the times of kernels come from
    resolution: float  # seconds that times are multiples of; 0 where they are exact
    events: list[Event]

    def start(self) -> None:
        """Begin to watch."""

    def stop(self) -> None:
        """Watch no longer; `events` has all but what is still to be read from the device."""

    def collect(self) -> Steps[None]:
        """Make events of what is still to be read."""

    def ceilings(self) -> Steps[tuple[float, float]]:
        """Bytes that the device copies in a second, and float32 operations that it does."""


# The probe of the cpu device: captured plans tell it of their calls.
watching: list[Callable[[Sequence[Callable[[], None]], Sequence[Any]], None]] = []


def credit(ops: Sequence[str], cost: tuple[int, int]) -> None:
    """Give what an op costs to the largest of its dispatches, whose labels are among `ops`."""
    labels = [op for op in ops if isinstance(op, Label)]
    if labels:
        largest = max(labels, key=lambda label: label.groups)
        largest.nbytes += cost[0]
        largest.operations += cost[1]


def cost(
    name: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
) -> tuple[int, int]:
    """Bytes that an op reads and writes at least, and its operations of arithmetic.

    Bytes: every operand once, as far as the op looks at it; a cache as a whole, since how full it
    is only the device knows. Operations: those of the textbook, a function of one element as one.
    """
    given = [x for x in inputs if x is not None]
    written = _held(out)
    if name in _LOOK_UP:
        return 2 * written + _held(given[-1]), 0
    if name == "cache_write":
        return 2 * sum(map(_held, given[1:2])), 0
    return sum(map(_held, given)) + written, _operations(name, given, out, attrs)


def _held(x: Operand) -> int:
    """Bytes of what an operand reaches: an expanded one reaches less than it has elements."""
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
    if name == "matmul":
        return 2 * size * shapes[0][-1] + fused
    if name == "attention":  # scores, and values weighted by them
        keys = shapes[1][2]
        return keys * (2 * math.prod(shapes[0]) + 2 * size + 5 * math.prod(shapes[0][:3]))
    if name == "conv2d":
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
