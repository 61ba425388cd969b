"""The messages of onnx.proto as plain records, read from any Source without their weights.

Field numbers are those of onnx.proto (github.com/onnx/onnx). A tensor's bytes stay where they are:
its record says where. Graphs may lie within nodes, to a bounded depth.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import prod
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.io.protobuf import Parsing, Span, Window, signed
from rushlight.core.io.weights.source import Source
from rushlight.core.onnx.element_types import ElementType, element_type

_MOST_FIELDS = 16_000_000
_DEEPEST = 32  # graphs within graphs, and types within types
_MOST_DIMS = 64
_MOST_NUMBERS = 1 << 22  # numbers of an attribute
# AttributeProto.AttributeType: the field that holds the value, and whether it is a list.
_FIELDS = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11, 11: 22, 12: 23,
           13: 14, 14: 15}  # fmt: skip
_KINDS = {1: "float", 2: "int", 3: "string", 4: "tensor", 5: "graph", 6: "floats", 7: "ints",
          8: "strings", 9: "tensors", 10: "graphs", 11: "sparse tensor", 12: "sparse tensors",
          13: "type", 14: "types"}  # fmt: skip
_FLOAT = struct.Struct("<f")
_TYPES = {number: kind for kind, number in _FIELDS.items()}


@dataclass(slots=True)
class TensorRecord:
    """A tensor of a file: where its elements lie.

    raw: the bytes of its elements. numbers: fields that hold the elements one by one, with the
    number of the field. texts: strings. external: key and value of a file beside this one.
    array: the elements as they are carried, once they are read, if they are few or their values are
    known. weight: the name of the tensor that holds them, if it is a weight of the module.
    """

    name: str
    kind: ElementType
    shape: tuple[int, ...]
    raw: Span | None = None
    numbers: list[tuple[int, int | Span]] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    external: dict[str, str] | None = None
    array: Any = None
    weight: str = ""

    @property
    def count(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes its elements have where they are stored as they are."""
        return (self.count * self.kind.bits + 7) // 8


@dataclass(slots=True)
class SparseRecord:
    """A sparse tensor: its values, and where they stand among the elements of `shape`."""

    values: TensorRecord
    indices: TensorRecord
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value: "tensor", "sparse_tensor", "sequence", "optional" or "map".

    kind: a tensor's elements, a map's keys. shape: sizes; a name or None where a size is free; None
    as a whole where even the rank is. inner: what a sequence, an optional or a map holds.
    """

    form: str
    kind: ElementType | None = None
    shape: tuple[int | str | None, ...] | None = None
    inner: ValueType | None = None

    def __str__(self) -> str:
        if self.form not in ("tensor", "sparse_tensor"):
            return f"{self.form}({self.inner})"
        if self.shape is None:
            return f"{self.kind.name if self.kind else '?'}[...]"
        sizes = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.kind.name if self.kind else '?'}[{sizes}]"


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """The name and type of an input, an output or a value between."""

    name: str
    type: ValueType | None

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(slots=True)
class Attribute:
    """An attribute of a node. reference: the attribute of the function that gives its value."""

    name: str
    kind: str
    value: Any
    reference: str = ""


@dataclass(slots=True)
class Node:
    """A call of an operator. An empty name among its inputs is one that is left out.

    made: what its operator made of the attributes, once for all runs.
    """

    op: str
    domain: str = ""
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    overload: str = ""
    made: Any = field(default=None, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The operator with its domain, and the node's name, for messages."""
        op = f"{self.domain}:{self.op}" if self.domain else self.op
        return f"{op} ({brief(self.name)})" if self.name else f"{op} -> {self.outputs[:1]}"


@dataclass(slots=True)
class Graph:
    """Nodes in the order in which they run, and what goes in and comes out."""

    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    initializers: dict[str, TensorRecord | SparseRecord] = field(default_factory=dict)
    inputs: list[ValueInfo] = field(default_factory=list)
    outputs: list[ValueInfo] = field(default_factory=list)
    values: dict[str, ValueInfo] = field(default_factory=dict)


@dataclass(slots=True)
class Function:
    """A function of a model: nodes over named inputs, with attributes that its callers give."""

    name: str
    domain: str
    overload: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    defaults: dict[str, Attribute] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Model:
    """A file's graph with the versions of the operator sets that it is written in."""

    ir_version: int = 0
    producer: str = ""
    opsets: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    functions: dict[tuple[str, str, str], Function] = field(default_factory=dict)


def parse_model(source: Source) -> Parsing[Model]:
    """The model that a file describes.

    FormatError where the bytes are not one: lengths past the file, more than 16 million fields,
    graphs deeper than 32 within one another, types and sizes that do not exist.
    """
    reader = _Reader(source)
    model = Model()
    functions: list[Function] = []
    found = False
    for number, value in (yield from reader.window.fields(Span(0, source.size))):
        if isinstance(value, int):
            model.ir_version = value if number == 1 else model.ir_version
        elif number == 2:
            model.producer = yield from reader.window.text(value)
        elif number == 7:
            model.graph = yield from reader.graph(value, 0)
            found = True
        elif number == 8:
            domain, version = yield from reader.opset(value)
            model.opsets[domain] = version
        elif number == 14:
            key, text = yield from reader.entry(value)
            model.metadata[key] = text
        elif number == 25:
            functions.append((yield from reader.function(value)))
    if not found or not model.opsets:
        missing = "no graph" if not found else "no opset"
        raise FormatError(f"{source.name} has {missing}: it is not an ONNX model")
    model.functions = {(f.domain, f.name, f.overload): f for f in functions}
    return model


class _Reader:
    """Reads messages within one window and one bound of fields."""

    def __init__(self, source: Source) -> None:
        self.window = Window(source, _MOST_FIELDS)
        self.name = source.name

    def _floats(self, span: Span) -> Parsing[list[float]]:
        if span.nbytes > 4 * _MOST_NUMBERS or span.nbytes % 4:
            raise FormatError(f"{self.name}: {span.nbytes} bytes of floats in an attribute")
        view = yield from self.window.load(*span)
        return [number for (number,) in struct.iter_unpack("<f", view)]

    def _text(self, value: int | Span) -> Parsing[str]:
        if isinstance(value, int):
            raise FormatError(f"{self.name}: the number {value} stands where a text belongs")
        return (yield from self.window.text(value))

    def _span(self, value: int | Span) -> Span:
        if isinstance(value, int):
            raise FormatError(f"{self.name}: the number {value} stands where a message belongs")
        return value

    def opset(self, span: Span) -> Parsing[tuple[str, int]]:
        domain, version = "", 0
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                domain = yield from self._text(value)
            elif number == 2 and isinstance(value, int):
                version = value
        return ("" if domain == "ai.onnx" else domain), version

    def entry(self, span: Span) -> Parsing[tuple[str, str]]:
        key = text = ""
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                key = yield from self._text(value)
            elif number == 2:
                text = yield from self._text(value)
        return key, text

    def _numbers(self, value: int | Span, most: int) -> Parsing[list[int]]:
        if isinstance(value, int):
            return [signed(value)]
        return [signed(n) for n in (yield from self.window.numbers(value, most))]

    def tensor(self, span: Span) -> Parsing[TensorRecord]:
        dims: list[int] = []
        number_of_type, name = 0, ""
        raw: Span | None = None
        numbers: list[tuple[int, int | Span]] = []
        texts: list[bytes] = []
        external: dict[str, str] = {}
        outside = False
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                dims += yield from self._numbers(value, _MOST_DIMS)
            elif number == 2 and isinstance(value, int):
                number_of_type = value
            elif number == 8:
                name = yield from self._text(value)
            elif number == 9:
                raw = self._span(value)
            elif number in (4, 5, 7, 10, 11):
                numbers.append((number, value))
            elif number == 6:
                texts.append(bytes((yield from self.window.load(*self._span(value)))))
            elif number == 13:
                key, text = yield from self.entry(self._span(value))
                external[key] = text
            elif number == 14:
                outside = value == 1
        what = f"{self.name}: tensor {brief(name)}"
        kind = element_type(number_of_type, what)
        self._check_shape(dims, what)
        return TensorRecord(
            name, kind, tuple(dims), raw, numbers, texts, external if outside else None
        )

    def _check_shape(self, dims: list[int], what: str) -> None:
        fits = len(dims) <= _MOST_DIMS and all(n >= 0 for n in dims)
        if not fits or count_elements(tuple(dims)) > MOST_ELEMENTS:
            raise FormatError(f"{what} has the shape {brief(dims)}")

    def sparse(self, span: Span) -> Parsing[SparseRecord]:
        values = indices = None
        dims: list[int] = []
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                values = yield from self.tensor(self._span(value))
            elif number == 2:
                indices = yield from self.tensor(self._span(value))
            elif number == 3:
                dims += yield from self._numbers(value, _MOST_DIMS)
        if values is None or indices is None:
            raise FormatError(f"{self.name}: a sparse tensor has no values or no indices")
        self._check_shape(dims, f"{self.name}: sparse tensor {brief(values.name)}")
        return SparseRecord(values, indices, tuple(dims))

    def type(self, span: Span, depth: int) -> Parsing[ValueType | None]:
        if depth > _DEEPEST:
            raise FormatError(f"{self.name}: types lie deeper than {_DEEPEST} within one another")
        for number, value in (yield from self.window.fields(span)):
            if number in (1, 8):
                form = "tensor" if number == 1 else "sparse_tensor"
                return (yield from self._tensor_type(self._span(value), form))
            if number in (4, 9):
                inner = yield from self._inner(self._span(value), 1, depth)
                return ValueType("sequence" if number == 4 else "optional", inner=inner)
            if number == 5:
                span_of_map = self._span(value)
                inner = yield from self._inner(span_of_map, 2, depth)
                key = 0
                for n, v in (yield from self.window.fields(span_of_map)):
                    key = v if n == 1 and isinstance(v, int) else key
                kind = element_type(key, f"{self.name}: the keys of a map")
                return ValueType("map", kind, inner=inner)
        return None

    def _inner(self, span: Span, wanted: int, depth: int) -> Parsing[ValueType | None]:
        for number, value in (yield from self.window.fields(span)):
            if number == wanted:
                return (yield from self.type(self._span(value), depth + 1))
        return None

    def _tensor_type(self, span: Span, form: str) -> Parsing[ValueType]:
        kind: ElementType | None = None
        shape: tuple[int | str | None, ...] | None = None
        for number, value in (yield from self.window.fields(span)):
            if number == 1 and isinstance(value, int) and value:
                kind = element_type(value, f"{self.name}: a value")
            elif number == 2:
                sizes: list[int | str | None] = []
                for n, dim in (yield from self.window.fields(self._span(value))):
                    if n == 1:
                        sizes.append((yield from self._dim(self._span(dim))))
                shape = tuple(sizes)
        return ValueType(form, kind, shape)

    def _dim(self, span: Span) -> Parsing[int | str | None]:
        size: int | str | None = None
        for number, value in (yield from self.window.fields(span)):
            if number == 1 and isinstance(value, int):
                size = signed(value)
                if size < 0:
                    size = None
            elif number == 2:
                size = yield from self._text(value)
                size = None if size in ("", "?", "-1") else size  # no name of a size
        return size

    def value(self, span: Span) -> Parsing[ValueInfo]:
        name, kind = "", None
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                name = yield from self._text(value)
            elif number == 2:
                kind = yield from self.type(self._span(value), 0)
        return ValueInfo(name, kind)

    def graph(self, span: Span, depth: int) -> Parsing[Graph]:
        if depth > _DEEPEST:
            raise FormatError(f"{self.name}: graphs lie deeper than {_DEEPEST} within one another")
        graph = Graph()
        for number, value in (yield from self.window.fields(span)):
            if number == 2:
                graph.name = yield from self._text(value)
            if isinstance(value, int):
                continue
            if number == 1:
                graph.nodes.append((yield from self.node(value, depth)))
            elif number == 5:
                tensor = yield from self.tensor(value)
                graph.initializers[tensor.name] = tensor
            elif number == 11:
                graph.inputs.append((yield from self.value(value)))
            elif number == 12:
                graph.outputs.append((yield from self.value(value)))
            elif number == 13:
                info = yield from self.value(value)
                graph.values[info.name] = info
            elif number == 15:
                sparse = yield from self.sparse(value)
                graph.initializers[sparse.values.name] = sparse
        return graph

    def node(self, span: Span, depth: int) -> Parsing[Node]:
        node = Node("")
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                node.inputs.append((yield from self._text(value)))
            elif number == 2:
                node.outputs.append((yield from self._text(value)))
            elif number == 3:
                node.name = yield from self._text(value)
            elif number == 4:
                node.op = yield from self._text(value)
            elif number == 5:
                attribute = yield from self.attribute(self._span(value), depth)
                node.attributes[attribute.name] = attribute
            elif number == 7:
                domain = yield from self._text(value)
                node.domain = "" if domain == "ai.onnx" else domain
            elif number == 8:
                node.overload = yield from self._text(value)
        return node

    def attribute(self, span: Span, depth: int) -> Parsing[Attribute]:
        name = reference = ""
        kind = 0
        parts = yield from self.window.fields(span)
        for number, value in parts:
            if number == 1:
                name = yield from self._text(value)
            elif number == 20 and isinstance(value, int):
                kind = value
            elif number == 21:
                reference = yield from self._text(value)
        # Files of IR version 1 do not state the kind.
        kind = kind or next((_TYPES[n] for n, _ in parts if n in _TYPES), 0)
        what = f"{self.name}: attribute {brief(name)}"
        if kind not in _FIELDS:
            raise FormatError(f"{what} is of kind {kind}; the kinds are 1 to {max(_FIELDS)}")
        values: list[Any] = []
        for number, value in parts:
            if number != _FIELDS[kind]:
                continue
            # Numbers one by one, by the million in files of trees, are taken as they are.
            if number == 8 and isinstance(value, int):
                values.append(signed(value))
            elif number == 7 and isinstance(value, Span) and value.nbytes == 4:
                piece = self.window.held(value)
                piece = piece if piece is not None else (yield from self.window.load(*value))
                values.append(_FLOAT.unpack(piece)[0])
            elif number == 9 and isinstance(value, Span):
                piece = self.window.held(value)
                values.append(
                    bytes(piece if piece is not None else (yield from self.window.load(*value)))
                )
            else:
                values += yield from self._attribute_values(number, value, depth)
        if kind >= 6 and kind not in (11, 13):
            return Attribute(name, _KINDS[kind], values, reference)
        if not values and not reference:
            values = [{1: 0.0, 2: 0, 3: b""}.get(kind)]
            if values == [None]:
                raise FormatError(f"{what} has no {_KINDS[kind]}")
        return Attribute(name, _KINDS[kind], values[-1] if values else None, reference)

    def _attribute_values(self, number: int, value: int | Span, depth: int) -> Parsing[list[Any]]:
        if number in (3, 8):
            return (yield from self._numbers(value, _MOST_NUMBERS))
        span = self._span(value)
        if number in (2, 7):
            return (yield from self._floats(span))
        if number in (4, 9):
            return [bytes((yield from self.window.load(*span)))]
        if number in (5, 10):
            return [(yield from self.tensor(span))]
        if number in (6, 11):
            return [(yield from self.graph(span, depth + 1))]
        if number in (22, 23):
            return [(yield from self.sparse(span))]
        return [(yield from self.type(span, 0))]

    def function(self, span: Span) -> Parsing[Function]:
        function = Function("", "")
        for number, value in (yield from self.window.fields(span)):
            if number == 1:
                function.name = yield from self._text(value)
            elif number == 4:
                function.inputs.append((yield from self._text(value)))
            elif number == 5:
                function.outputs.append((yield from self._text(value)))
            elif number == 6:
                function.attributes.append((yield from self._text(value)))
            elif number == 7:
                function.nodes.append((yield from self.node(self._span(value), 1)))
            elif number == 9:
                domain, version = yield from self.opset(self._span(value))
                function.opsets[domain] = version
            elif number == 10:
                domain = yield from self._text(value)
                function.domain = "" if domain == "ai.onnx" else domain
            elif number == 11:
                attribute = yield from self.attribute(self._span(value), 1)
                function.defaults[attribute.name] = attribute
            elif number == 13:
                function.overload = yield from self._text(value)
        return function
