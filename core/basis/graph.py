"""A captured computation as a value: slots of memory, operands over them, and steps in order.

`core/jit` builds a `Graph` while a function runs; `Backend.compile` makes an Executable of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout

Kind = Literal["arg", "outer", "const", "temp"]

# The passes that a graph may ask for; a backend ignores those that it does not have.
PASSES = frozenset({"fold", "fuse", "merge", "reuse"})


class Memory(Protocol):
    """The memory that operands lie in: a tensor's storage."""

    buffer: Any
    nbytes: int
    moves: int
    version: int
    lent: bool


class Draws(Protocol):
    """The generator of a step's random numbers."""

    def reserve(self, words: int) -> tuple[int, int]:
        """Seed and offset for `words` 32-bit random words; no other call gets the same ones."""


class TensorView:
    """Elements in memory: an operand that is not a Tensor.

    storage: an object with a `buffer`: a Storage, a Slot of a graph, or a backend's buffer.
    """

    __slots__ = ("dtype", "layout", "storage")

    def __init__(self, storage: Any, layout: Layout, dtype: DType) -> None:
        self.storage, self.layout, self.dtype = storage, layout, dtype

    @property
    def buffer(self) -> Any:
        """The buffer that the storage has now."""
        return self.storage.buffer


class Slot:
    """A buffer of a graph. Kernels use it like a Storage.

    kind: "arg", bound in each call; "outer", the memory of a tensor from outside; "const", made in
    the function from Python values; "temp", written by a step. ref: a weak reference to the
    captured Storage. shift: the element that operand offsets count from. moves: `Storage.moves` at
    capture. writes: in-place writes in a run. fixed: the values are equal in every run.
    """

    __slots__ = ("address", "buffer", "fixed", "kind", "moves", "nbytes", "ref", "shift", "writes")

    def __init__(self, kind: Kind, storage: Memory, shift: int = 0) -> None:
        self.kind, self.nbytes, self.shift = kind, storage.nbytes, shift
        self.buffer: Any = storage.buffer
        self.address, self.writes, self.moves, self.fixed = 0, 0, storage.moves, False
        self.ref: weakref.ref[Any] = weakref.ref(storage)

    def view(self, layout: Layout, dtype: DType) -> GraphOperand:
        """An operand in this slot; `layout` is relative to the start of the Storage."""
        if self.shift:
            layout = Layout(layout.shape, layout.strides, layout.offset - self.shift)
        return GraphOperand(self, layout, dtype)


class GraphOperand(TensorView):
    """An operand of a step: elements in a slot."""

    __slots__ = ()
    storage: Slot


class Step(NamedTuple):
    """One op as it ran.

    draw: the generator and the number of words that the op draws; None for an op without random
    numbers. activation_precision: of products with quantized weights, see `rl.set_linear_mode`.
    """

    name: str
    inputs: tuple[GraphOperand | None, ...]
    out: GraphOperand
    attrs: Mapping[str, Any]
    draw: tuple[Draws, int] | None
    activation_precision: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Steps in the order they ran, and the slots they use.

    variable: the slots that get a new buffer in each run. results: the slots whose values are used
    after a run. passes: the members of `PASSES` that the backend may apply.
    """

    steps: tuple[Step, ...]
    slots: tuple[Slot, ...]
    variable: frozenset[Slot]
    results: frozenset[Slot]
    passes: frozenset[str] = PASSES
