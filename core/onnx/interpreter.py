"""Runs graphs node by node, on tensors of a device or, to learn shapes, of the meta device.

A Value is what a name of a graph stands for: a tensor, an array whose elements are known, a list of
Values (a sequence), a dict (a map), or None (an optional without a value). What depends on known
values alone is computed at once, with the kernels of `cpu`, and is known again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import ops
from rushlight.core.basis.dtype import as_dtype
from rushlight.core.basis.errors import (
    DeviceMemoryError,
    FormatError,
    RushlightError,
    SizeError,
    brief,
)
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.onnx import element_types
from rushlight.core.onnx.element_types import STRING, ElementType
from rushlight.core.onnx.proto import (
    Attribute,
    Function,
    Graph,
    Model,
    Node,
    SparseRecord,
    TensorRecord,
)
from rushlight.core.onnx.registry import OPERATORS, Call, Operator, unsupported
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
_MOST_KNOWN = 1 << 20  # elements of a result that is computed ahead
MOST_CALLS = 1_000_000  # nodes that one run may execute, those of loops counted each time
_MOST_PLANNED = 100_000  # of them in a plan
_MOST_TEXTS = 1 << 24  # strings of a result
# What a function raises of operands that do not fit.
_FAULTS = (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError,
           AttributeError, NotImplementedError, RuntimeError, AssertionError)  # fmt: skip
_FEW = 64  # elements of a known value whose results are kept
# Operators whose results are no larger than their inputs, or than these broadcast together.
_NO_LARGER = frozenset(
    """Add And Cast Concat Div Equal Gather Greater GreaterOrEqual Identity Less LessOrEqual Log Max
    Min Mod Mul Neg Not Or Reshape Shape Slice Sqrt Squeeze Sub Transpose Unsqueeze Where""".split()
)
_MOST_FOLDED = 1 << 15  # results that are kept
_DEEPEST = 64  # graphs and functions within one another, while they run


class NeedsValue(Exception):
    """The elements of a value are needed where only its shape is known.

    always: whether the operator cannot be planned even where they are known.
    """

    def __init__(self, value: Value, why: str, always: bool = False) -> None:
        super().__init__(why)
        self.value, self.why, self.always = value, why, always


@dataclass(slots=True, eq=False)
class Value:
    """What a name stands for.

    data: a Tensor, a NumPy array (known), a list, a dict or None. kind: the element type. known:
    the elements of a small weight, beside the tensor. inputs: the small inputs of the graph that
    alone decide its elements, None where others do.
    """

    data: Any
    kind: ElementType | None = None
    known: Array | None = None
    inputs: frozenset[str] | None = None

    @property
    def is_known(self) -> bool:
        """Whether the elements are known."""
        return isinstance(self.data, np.ndarray)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a tensor or an array."""
        return tuple(self.data.shape)


class Scope:
    """The names of a graph, over those of the graph around it."""

    __slots__ = ("names", "outer")

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: dict[str, Value] = {}
        self.outer = outer

    def find(self, name: str) -> Value | None:
        """What a name stands for, None for an unknown one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


class Interpreter:
    """Runs graphs of one model.

    constant: gives the Value of an initializer or of a tensor in an attribute. device: where
    tensors are made; "meta" plans only. on_leaf: told of every operator that ran on tensors: the
    operator, its Call, the values that went in and came out.
    """

    def __init__(
        self,
        model: Model,
        constant: Callable[[TensorRecord | SparseRecord], Value],
        device: Any,
        on_leaf: Callable[[Operator, Call, list[Value | None], list[Value | None]], None]
        | None = None,
    ) -> None:
        self.model, self.constant, self.device, self.on_leaf = model, constant, device, on_leaf
        self.planning = getattr(device, "type", device) == "meta"
        # Results of operators on known values, by the node and the values: see `_known`.
        self.folded: dict[Any, list[tuple[Any, ElementType | None] | None]] = {}
        self.calls = 0
        self.depth = 0
        self.opsets: Mapping[str, int] = model.opsets
        # The attributes of the function that runs, which nodes and graphs within it refer to.
        self.given: Mapping[str, Attribute] | None = None

    # Graphs.

    def graph(
        self, graph: Graph, scope: Scope, inputs: Iterable[Value] | None = None
    ) -> list[Value]:
        """Run a graph whose names are new in `scope`; the values of its outputs.

        inputs: the values of its inputs in order, those of a body of Loop, Scan or SequenceMap.
        """
        if inputs is not None:
            given = list(inputs)
            free = [i for i in graph.inputs if i.name not in graph.initializers]
            if len(given) > len(free):
                raise FormatError(
                    f"graph {brief(graph.name)} takes {len(free)} inputs; {len(given)} are given"
                )
            for info, value in zip(free, given, strict=False):
                scope.names[info.name] = value
        for name, record in graph.initializers.items():
            scope.names.setdefault(name, self.constant(record))
        for node in graph.nodes:
            self.node(node, scope)
        return [
            self.output(info.name, scope, f"graph {brief(graph.name)}") for info in graph.outputs
        ]

    def output(self, name: str, scope: Scope, what: str) -> Value:
        """The value of an output. FormatError if nothing computes it."""
        value = scope.find(name)
        if value is None:
            raise FormatError(f"{what}: no node computes the output {brief(name)}")
        return value

    def count(self, what: str, calls: int = 1) -> None:
        """Count nodes that run. FormatError, which begins with `what`, for too many."""
        self.calls += calls
        if self.calls > (_MOST_PLANNED if self.planning else MOST_CALLS):
            raise self.too_many(what)

    def too_many(self, what: str) -> FormatError:
        """The error for more nodes than one call may run."""
        most = _MOST_PLANNED if self.planning else MOST_CALLS
        return FormatError(f"{what}: more than {most} nodes run in one call")

    def node(self, node: Node, scope: Scope) -> None:
        """Run a node; its outputs are new names of `scope`."""
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise self.too_many(node.title)
        values: list[Value | None] = []
        for name in node.inputs:
            value = scope.find(name) if name else None
            if name and value is None:
                raise FormatError(
                    f"{node.title}: no input, initializer or node before it gives {brief(name)}"
                )
            values.append(value)
        attributes = _attributes(node, self.given)
        function = self.model.functions.get((node.domain, node.op, node.overload))
        if function is not None:
            outputs = self._function(node, function, values, attributes)
        else:
            outputs = self._operator(node, values, attributes, scope)
        for name, result in zip(node.outputs, outputs, strict=False):
            if name and result is not None:
                scope.names[name] = result

    def _function(
        self,
        node: Node,
        function: Function,
        values: list[Value | None],
        attributes: Mapping[str, Attribute],
    ) -> list[Value | None]:
        if len(values) > len(function.inputs):
            raise FormatError(
                f"{node.title} has {len(values)} inputs; the function takes {len(function.inputs)}"
            )
        scope = Scope()
        for name, value in zip(function.inputs, values, strict=False):
            if value is not None:
                scope.names[name] = value
        for name in function.inputs:
            scope.names.setdefault(name, Value(None))
        with self.deeper(node.title):
            before = self.opsets, self.given
            self.opsets = {**self.model.opsets, **function.opsets}
            self.given = {**function.defaults, **attributes}
            try:
                for inner in function.nodes:
                    self.node(inner, scope)
            finally:
                self.opsets, self.given = before
        return [scope.find(name) for name in function.outputs]

    def deeper(self, what: str) -> _Deeper:
        """A context one level deeper; FormatError below 64."""
        return _Deeper(self, what)

    # Operators.

    def _operator(
        self,
        node: Node,
        values: list[Value | None],
        attributes: Mapping[str, Attribute],
        scope: Scope,
    ) -> list[Value | None]:
        operator = OPERATORS.get((node.domain, node.op))
        if operator is None:
            raise FormatError(unsupported(node))
        # An optional without a value is an input that is left out, but for raw operators.
        if not operator.raw:
            values = [None if v is not None and v.data is None else v for v in values]
        call = Call(
            node,
            self.opsets.get(node.domain, 1),
            [None if v is None else v.kind for v in values],
            [bool(name) for name in node.outputs],
            self,
            attributes,
            scope,
        )
        least, most = _arity(operator.run)
        if not least <= len(values) <= most:
            told = str(least) if least == most else f"{least} to {most}"
            raise call.fail(f"it has {len(values)} inputs; the operator takes {told}")
        try:
            outputs = (
                operator.run(call, *values) if operator.raw else self._leaf(operator, call, values)
            )
        except (FormatError, NeedsValue, SizeError):
            raise
        except RushlightError as error:
            raise error.during(node.title) from None
        except MemoryError as error:
            raise DeviceMemoryError(f"{node.title}: no memory for its result: {error}") from None
        except _FAULTS as error:
            shapes = ", ".join(_told(v) for v in values)
            raise FormatError(f"{node.title} on ({shapes}): {error}") from error
        call.check_asked()
        if operator.raw:
            return list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        return outputs

    def apply(
        self,
        call: Call,
        fn: Callable[..., Any],
        values: list[Value | None],
        host: tuple[int, ...] = (),
    ) -> list[Value | None]:
        """Run a function on tensors within a raw operator, as an operator of its own.

        fn: takes a Call and the tensors of `values`, arrays at the places `host`.
        """
        kinds = [None if v is None else v.kind for v in values]
        inner = Call(call.node, call.opset, kinds, [True], self, {}, call.scope)
        return self._leaf(
            Operator(fn, host.__contains__, frozenset(), False, False, False), inner, values
        )

    def _leaf(
        self, operator: Operator, call: Call, values: list[Value | None]
    ) -> list[Value | None]:
        """Run an operator on tensors; ahead of time where all that goes in is known."""
        for place, value in enumerate(values):
            if value is not None and not isinstance(value.data, np.ndarray | Tensor):
                raise call.fail(f"input {place} is no tensor but a {type(value.data).__name__}")
        known = all(v is None or v.is_known for v in values) and not operator.random
        first = values[0] if values and operator.keeps_bytes else None
        stays = self.planning and first is not None and len(first.shape) > 1
        if known and not stays:
            results = self._known(operator, call, values)
            if results is not None:
                return results
        if operator.dynamic and self.planning:
            value = next((v for v in values if v is not None), Value(None))
            why = f"{call.title}: the shape of its result depends on values"
            raise NeedsValue(value, why, always=True)
        call.device = self.device
        arguments = [
            None
            if v is None
            else (v.data if v.is_known else self.host(v, f"{call.title}: input {i}"))
            if operator.host(i) or (i in operator.known and v.is_known)
            else self.tensor(v, i in operator.stored)
            for i, v in enumerate(values)
        ]
        results = self._results(call, operator.run(call, *arguments))
        inputs = frozenset[str]()
        small: frozenset[str] | None = inputs
        for v in values:
            if v is not None and not v.is_known and v.known is None:
                small = None if small is None or v.inputs is None else small | v.inputs
        for result in results:
            if result is not None and not result.is_known and not operator.random:
                result.inputs = small
        if self.on_leaf is not None:
            self.on_leaf(operator, call, values, results)
        return results

    def _known(
        self, operator: Operator, call: Call, values: list[Value | None]
    ) -> list[Value | None] | None:
        """The results on known values; None where they would be large.

        Few and small values come again with the next call, so results are kept in `folded`.
        """
        arrays = [None if v is None else v.data for v in values]
        key = _few_values(call, arrays)
        if key is not None and key in self.folded:
            call.asked.update(call.attributes)
            return [None if r is None else Value(*r) for r in self.folded[key]]
        strings = any(a is not None and a.dtype.kind == "O" for a in arrays)
        plain = key is not None and not call.node.domain and call.node.op in _NO_LARGER
        if not operator.dynamic and not strings and not plain:
            # Shapes first: a file may ask for 2**62 zeros.
            shapes = [
                None if a is None else a if operator.host(i) or i in operator.known else meta_of(a)
                for i, a in enumerate(arrays)
            ]
            asked, kinds = set(call.asked), call.result_kinds
            call.device = "meta"
            outcome = operator.run(call, *shapes)
            call.asked, call.result_kinds = asked, kinds
            for result in outcome if isinstance(outcome, list | tuple) else [outcome]:
                if isinstance(result, Tensor) and result.numel() > _MOST_KNOWN:
                    return None
        arguments = [
            a
            if a is None or operator.host(i) or i in operator.known or a.dtype.kind == "O"
            else from_numpy(np.asarray(a, order="C"))
            for i, a in enumerate(arrays)
        ]
        call.device = "cpu"
        results = self._results(call, operator.run(call, *arguments))
        for result in results:
            if result is not None and isinstance(result.data, Tensor):
                result.data = result.data.detach().numpy()
        if key is not None:
            if len(self.folded) >= _MOST_FOLDED:
                self.folded.clear()
            self.folded[key] = [None if r is None else (r.data, r.kind) for r in results]
        return results

    def _results(self, call: Call, outcome: Any) -> list[Value | None]:
        """The Values of what an operator gave, with their element types."""
        results = list(outcome) if isinstance(outcome, list | tuple) else [outcome]
        out: list[Value | None] = []
        for place, data in enumerate(results):
            kind = call.result_kinds[place] if call.result_kinds else None
            if isinstance(data, bool | int | float | np.generic):
                data = np.asarray(data)
            if isinstance(data, np.ndarray) and data.dtype.kind == "O" and data.size > _MOST_TEXTS:
                raise call.fail(f"a result of {data.size} strings; at most {_MOST_TEXTS}")
            out.append(None if data is None else Value(data, kind or _kind(call, data)))
        return out

    # Values.

    def host(self, value: Value, what: str) -> Array:
        """The elements of a value. NeedsValue where only the shape is known."""
        if isinstance(value.data, np.ndarray):
            return value.data
        if value.known is not None:
            return value.known
        if not isinstance(value.data, Tensor):
            raise FormatError(f"{what} is no tensor")
        if value.data.device.type == "meta":
            raise NeedsValue(value, f"{what} must be known")
        return value.data.detach().numpy()

    def tensor(self, value: Value, stored: bool = False) -> Tensor:
        """The tensor of a value on this interpreter's device, in the dtype that carries it."""
        data = value.data
        if isinstance(data, np.ndarray):
            if data.dtype.kind == "O":
                return data  # type: ignore[return-value]  # strings have no device
            if self.planning:
                return meta_of(data)
            return from_numpy(np.asarray(data, order="C")).to(device=self.device)
        assert isinstance(data, Tensor)
        return data if stored else carried(data, value.kind)

    def value_of(self, record: TensorRecord | SparseRecord) -> Value:
        """The value of an initializer, or of a tensor that is an attribute."""
        return self.constant(record)

    def array_of(self, record: TensorRecord | SparseRecord) -> Array:
        """The elements of a tensor that is an attribute."""
        value = self.constant(record)
        return self.host(value, f"tensor {brief(getattr(record, 'name', ''))}")


@lru_cache(None)
def _arity(run: Callable[..., Any]) -> tuple[int, int]:
    """The fewest and the most inputs that an operator's function takes."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    least = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return least, 1 << 30 if many else len(parameters)


class _Deeper:
    def __init__(self, interpreter: Interpreter, what: str) -> None:
        self.interpreter, self.what = interpreter, what

    def __enter__(self) -> None:
        self.interpreter.depth += 1
        if self.interpreter.depth > _DEEPEST:
            self.interpreter.depth -= 1
            raise FormatError(f"{self.what}: graphs run deeper than {_DEEPEST} within one another")

    def __exit__(self, *exception: object) -> None:
        self.interpreter.depth -= 1


def carried(data: Tensor, kind: ElementType | None) -> Tensor:
    """A tensor in the dtype that carries its element type: float16 in float32, and so on."""
    if kind is None or kind.carried is None or data.dtype is kind.carried or data.dtype.kind == "q":
        return data
    return data.to(kind.carried) if data.dtype.kind == "f" else data


def _few_values(call: Call, arrays: list[Array | None]) -> Any:
    """What tells apart calls of a node on small arrays; None for large ones and texts."""
    if any(a is not None and (a.size > _FEW or a.dtype.kind == "O") for a in arrays):
        return None
    # The node is held by the model; attributes are the function's that it is in.
    held = (id(a.value) for a in call.attributes.values())
    each = (None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in arrays)
    kinds = (None if kind is None else kind.number for kind in call.kinds)
    return id(call.node), tuple(held), tuple(kinds), tuple(each)


def _attributes(node: Node, given: Mapping[str, Attribute] | None) -> dict[str, Attribute]:
    """A node's attributes; those that refer to a function's are the caller's."""
    out: dict[str, Attribute] = {}
    for name, attribute in node.attributes.items():
        if not attribute.reference:
            out[name] = attribute
        elif given is None:
            raise FormatError(
                f"{node.title}: the attribute {name!r} refers to a function's, outside of one"
            )
        elif attribute.reference in given:
            value = given[attribute.reference]
            out[name] = Attribute(name, value.kind, value.value)
    return out


def meta_of(array: Array) -> Tensor:
    """A tensor of an array's shape and dtype without memory."""
    if count_elements(array.shape) > MOST_ELEMENTS:
        raise SizeError(f"the shape {array.shape} has too many elements")
    return ops.empty(array.shape, dtype=as_dtype(array.dtype), device="meta")


def _kind(call: Call, data: Any) -> ElementType | None:
    """The element type of a result: that of the first input which its dtype carries, or its own."""
    if isinstance(data, np.ndarray):
        if data.dtype.kind in "OUS":
            return STRING
        dtype = as_dtype(data.dtype)
    elif isinstance(data, Tensor):
        dtype = data.dtype
    else:
        return None
    for kind in call.kinds:
        if kind is not None and kind.carried is dtype:
            return kind
    return element_types.of_dtype(dtype)


def _told(value: Value | None) -> str:
    if value is None:
        return "-"
    if isinstance(value.data, Tensor | np.ndarray):
        kind = value.kind.name if value.kind else value.data.dtype
        return f"{kind}{list(value.data.shape)}"
    return type(value.data).__name__
