"""The graph that is being written: nodes, weights and names, made from the ops of a trace.

A narrow float is carried in float32 and rounded after each op by two Cast nodes, as the library
computes with it. Equal nodes are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType, as_dtype, float32
from rushlight.core.onnx.element_types import of_dtype
from rushlight.core.onnx.export import writing
from rushlight.core.onnx.export.integers import Combined, Dim, Int, Real
from rushlight.core.onnx.export.joining import Joined, Step
from rushlight.core.onnx.export.recording import ExportError, array_of
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
INT64, FLOAT, BOOL = 7, 1, 9
_SHARED = 1 << 12  # bytes up to which equal constants are one


@dataclass(slots=True, eq=False)
class NodeRecord:
    """A node before it is written; attributes are those of `writing.attribute`."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str
    name: str


Emit = Callable[["Graph", Step], str]


@dataclass(frozen=True, slots=True)
class Emitter:
    """What makes the nodes of an op; exact: its result needs no rounding to a narrow float."""

    emit: Emit
    exact: bool


EMITTERS: dict[str, Emitter] = {}


def emits(*names: str, exact: bool = False) -> Callable[[Emit], Emit]:
    """Enter a function as what makes the nodes of these ops. It returns the result's name."""

    def enter(fn: Emit) -> Emit:
        for name in names:
            EMITTERS[name] = Emitter(fn, exact)
        return fn

    return enter


def carried(dtype: DType) -> DType:
    """The dtype that values of `dtype` have in the graph."""
    narrow = dtype.kind == "q" or (dtype.kind == "f" and dtype.itemsize < 4)
    return float32 if narrow else dtype


def is_narrow(dtype: DType) -> bool:
    """Whether values are carried in a wider dtype."""
    return carried(dtype) is not dtype


@dataclass
class Graph:
    """The nodes and weights so far.

    given: the names of parameters and buffers by the tensor's id. names: of the values that are
    there, by number. expanded: values that are another one expanded, for which no node was made.
    cells: the states that recurrent cells give, by what of a cell's result they are.
    """

    joined: Joined
    opset: int
    given: Mapping[int, str]
    nodes: list[NodeRecord] = field(default_factory=list)
    weights: dict[str, writing.Weight] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    expanded: dict[int, int] = field(default_factory=dict)
    domains: set[str] = field(default_factory=set)
    steps_of: dict[int, Step] = field(default_factory=dict)
    requantized: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    cells: dict[int, dict[tuple[int, ...], str]] = field(default_factory=dict)
    prefix: str = ""
    _equal: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    # Names and nodes.

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        while True:
            n = self._counts[stem] = self._counts.get(stem, -1) + 1
            name = f"{stem}_{n}" if n or stem in self.taken else stem
            if name not in self.taken:
                self.taken.add(name)
                return name

    def op(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """The result of a node of one output."""
        return self.several(op, inputs, 1, domain, **attributes)[0]

    def several(
        self, op: str, inputs: Sequence[str], count: int, domain: str = "", **attributes: Any
    ) -> tuple[str, ...]:
        """The results of a node; those of an equal one that is there. None for no attribute."""
        attributes = {k: v for k, v in attributes.items() if v is not None}
        key = (op, tuple(inputs), count, domain, repr(sorted(attributes.items())))
        if key not in self._equal:
            name = self.fresh(f"{self.prefix}{op}")
            outputs = tuple(self.fresh(f"{name}_output_{i}") for i in range(count))
            self.nodes.append(NodeRecord(op, tuple(inputs), outputs, attributes, domain, name))
            self.domains.add(domain)
            self._equal[key] = outputs
        return self._equal[key]

    # Constants.

    def constant(self, array: Any, dtype: DType | None = None, stem: str = "constant") -> str:
        """An initializer of these elements."""
        values = np.array(array, order="C")
        if dtype is not None:
            values = values.astype(carried(dtype).numpy)
        number = _number(values.dtype)
        key = ("constant", number, values.shape, values.tobytes())
        if values.nbytes <= _SHARED and key in self._equal:
            return self._equal[key][0]
        name = self.fresh(stem)
        self.weight(name, number, values.shape, values.nbytes, values.tobytes)
        if values.nbytes <= _SHARED:
            self._equal[key] = (name,)
        return name

    def weight(
        self, name: str, number: int, dims: Sequence[int], nbytes: int, read: Callable[[], bytes]
    ) -> None:
        """Enter an initializer; its bytes are read when the file is written."""
        self.taken.add(name)
        self.weights[name] = writing.Weight(name, number, tuple(dims), nbytes, read)

    def _of_tensor(self, value: int, tensor: Tensor) -> str:
        name = self.given.get(id(tensor))
        name = self.fresh("constant") if name is None else name
        if name not in self.weights:
            kind = of_dtype(tensor.dtype)
            count = tensor.numel() * tensor.dtype.itemsize
            self.weight(name, kind.number, tensor.shape, count, tensor.detach().raw_bytes)
        return self.op("Cast", name, to=FLOAT) if is_narrow(tensor.dtype) else name

    # Values.

    def dtype(self, value: int) -> DType:
        """The dtype of a value in the trace."""
        return self.joined.values[value].dtype

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape in the first trace."""
        return self.joined.shapes[value][0]

    def rank(self, value: int) -> int:
        """The number of dims."""
        return len(self.shape(value))

    def get(self, value: int | None) -> str:
        """The name of a value, made now if it is a constant or an expansion; "" for None."""
        if value is None:
            return ""
        if value not in self.names:
            tensor = self.joined.values[value].tensor
            if value in self.joined.varying:
                self.names[value] = self._varying(value)
            elif value in self.expanded:
                step, below = self.steps_of[value], self.expanded[value]
                name = self.get(below)
                if self.joined.shapes[below] != self.joined.shapes[value]:
                    name = self.op("Expand", name, self.ints(step.attrs["shape"]))
                self.names[value] = name
            elif tensor is not None and tensor.dtype.kind == "q":
                from rushlight.core.onnx.export.nodes.quantized import dequantized

                self.names[value] = dequantized(self, value, tensor)
            elif tensor is not None:
                self.names[value] = self._of_tensor(value, tensor)
            elif value in self.cells:
                raise self.fail(
                    self.steps_of[value], "gives gates and states of which only states are there"
                )
            else:
                raise AssertionError(f"value {value} is not there yet")
        return self.names[value]

    def array(self, value: int | None) -> Array | None:
        """The elements of a value that depends on no input and no size, else None."""
        if value is None or value in self.joined.varying or not self.joined.is_fixed(value):
            return None
        held = self.joined.values[value]
        if held.depends or held.tensor is None or held.dtype.kind == "q":
            return None
        return array_of(held.tensor)

    def _varying(self, value: int) -> str:
        told, dtype = self.joined.varying[value], self.dtype(value)
        if isinstance(told, ExportError):
            raise told
        if isinstance(told, Real):
            return self.reshape(self.real(told, dtype), self.shape(value))
        if isinstance(told, tuple):
            _, start, step, count = told
            result = self.range(start, step, count)
        else:
            result = self.op("Reshape", self.ints(told), self.ints(self.shape(value)))
        return self.cast(result, INT64, of_dtype(dtype).number)

    def range(self, start: Int, step: Int, count: Int) -> str:
        """start, start + step, ...: `count` integers, int64."""
        zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
        places = self.op("Range", zero, self.number(count, scalar=True), one)
        if step != 1:
            places = self.op("Mul", places, self.number(step, scalar=True))
        return places if start == 0 else self.op("Add", places, self.number(start, scalar=True))

    def real(self, told: Real, dtype: DType) -> str:
        """A power of an integer, of shape (1,)."""
        name = self.op("Cast", self.number(told.base), to=of_dtype(carried(dtype)).number)
        name = self.op("Sqrt", name) if abs(told.power) == 0.5 else name
        return self.op("Reciprocal", name) if told.power < 0 else name

    def cast(self, name: str, have: int, want: int) -> str:
        """`name` as the element type `want`."""
        return name if have == want else self.op("Cast", name, to=want)

    def loose(self, out: int, *values: int) -> list[str]:
        """The operands of an elementwise op, without expansions that broadcasting does."""
        plain = [self.expanded.get(v, v) for v in values]
        while any(v in self.expanded for v in plain):
            plain = [self.expanded.get(v, v) for v in plain]
        for i, want in enumerate(self.joined.shapes[out]):
            shapes = [self.joined.shapes[v][i] for v in plain]
            try:
                fits = np.broadcast_shapes(*shapes) == want
            except ValueError:
                fits = False
            if not fits:
                return [self.get(v) for v in values]
        return [self.get(v) for v in plain]

    # Integers.

    def number(self, e: Int, scalar: bool = False) -> str:
        """An integer as int64 of shape (1,), or () if `scalar`."""
        if isinstance(e, int):
            return self.constant(np.int64(e) if scalar else np.array([e], np.int64))
        if scalar:
            return self.op("Squeeze", self.number(e), self.constant(np.array([0], np.int64)))
        if isinstance(e, Dim):
            source = e.value
            while source in self.expanded and source not in self.names:
                below = self.expanded[source]
                lead = self.rank(source) - self.rank(below)
                axis = e.axis - lead
                told = self.steps_of[source].attrs["shape"][e.axis]
                if axis < 0 or self.shape(below)[axis] != self.shape(source)[e.axis]:
                    return self.number(told) if told != e else self._size(source, e.axis)
                source, e = below, Dim(below, axis)
            return self._size(source, e.axis)
        assert isinstance(e, Combined)
        return self.op(e.op, self.number(e.a), self.number(e.b))

    def _size(self, value: int, axis: int) -> str:
        name = self.get(value)
        if self.opset >= 15:
            return self.op("Shape", name, start=axis, end=axis + 1)
        at = self.constant(np.array([axis], np.int64))
        return self.op("Gather", self.op("Shape", name), at, axis=0)

    def ints(self, values: Sequence[Int]) -> str:
        """Integers as a list, int64 of shape (n,)."""
        if all(isinstance(v, int) for v in values):
            return self.constant(np.array(values, np.int64).reshape(len(values)))
        parts: list[str] = []
        run: list[int] = []
        for v in values:
            if isinstance(v, int):
                run.append(v)
                continue
            if run:
                parts.append(self.constant(np.array(run, np.int64)))
                run = []
            parts.append(self.number(v))
        if run:
            parts.append(self.constant(np.array(run, np.int64)))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    # Shapes of what is made here.

    def reshape(self, name: str, shape: Sequence[Int]) -> str:
        """Reshape; 0 copies a dim, one -1 is what remains."""
        return self.op("Reshape", name, self.ints(shape))

    def axes(self, op: str, name: str, *axes: int) -> str:
        """Squeeze or Unsqueeze."""
        return self.op(op, name, self.constant(np.array(axes, np.int64)))

    def slice(self, name: str, dim: int, start: Int, stop: Int, step: int = 1) -> str:
        """Elements [start, stop) of a dim."""
        places = [self.ints([start]), self.ints([stop]), self.constant(np.array([dim], np.int64))]
        if step != 1:
            places.append(self.constant(np.array([step], np.int64)))
        return self.op("Slice", name, *places)

    # Running.

    def run(self, step: Step) -> None:
        """Make the nodes of an op."""
        if step.problem is not None:
            raise step.problem
        emitter = EMITTERS.get(step.name)
        if emitter is None:
            raise ExportError(
                f"onnx.export: {step.title} has no operators of ONNX; leave it out of the exported "
                "function, or compute it by other ops"
            )
        dtypes = [self.dtype(v) for v in (*step.inputs, step.out) if v is not None]
        if any(d.kind == "c" for d in dtypes):
            raise ExportError(
                f"onnx.export: {step.title} is of complex numbers, which operators of ONNX do not "
                "take; compute with real and imaginary parts"
            )
        made = emitter.emit(self, step)
        if not made:  # an expansion, made where it is needed
            return
        dtype = self.dtype(step.out)
        if is_narrow(dtype) and not emitter.exact:
            made = self.rounded(made, dtype)
        self.names[step.out] = made

    def rounded(self, name: str, dtype: DType) -> str:
        """float32 rounded to a narrow float."""
        return self.op("Cast", self.op("Cast", name, to=of_dtype(dtype).number), to=FLOAT)

    def fail(self, step: Step, why: str) -> ExportError:
        """The error that says `why` of an op."""
        return ExportError(f"onnx.export: {step.title} {why}")


def _number(dtype: Any) -> int:
    return of_dtype(as_dtype(dtype)).number
