"""The table of operators: how a node's operator is found, and what a function of it is told.

An operator is a function of a Call and of the node's inputs in order; one that is left out is None.
`operator` enters it. Inputs are tensors, but for those at the places `host`, whose values the
function must know: they are NumPy arrays. A result is a tensor or a NumPy array, or several in a
list, None for one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError, brief, nearest
from rushlight.core.onnx.element_types import ElementType
from rushlight.core.onnx.proto import Attribute, Graph, Node, SparseRecord, TensorRecord

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])
_REQUIRED: Any = object()
OPERATORS: dict[tuple[str, str], Operator] = {}
# The newest version of each operator set that the operators follow.
NEWEST = {"": 28, "ai.onnx.ml": 5, "com.microsoft": 1}


@dataclass(frozen=True, slots=True)
class Operator:
    """What `operator` says of one."""

    run: Callable[..., Any]
    host: Callable[[int], bool]
    stored: frozenset[int]
    raw: bool
    dynamic: bool
    random: bool
    known: frozenset[int] = frozenset()
    keeps_bytes: bool = False


def operator(
    *names: str,
    domain: str = "",
    host: Collection[int] = (),
    stored: Collection[int] = (),
    raw: bool = False,
    dynamic: bool = False,
    random: bool = False,
    known: Collection[int] = (),
    keeps_bytes: bool = False,
) -> Callable[[F], F]:
    """Enter a function as the operator `names` of a domain ("" is ai.onnx).

    host: the places of inputs whose values it must know; it gets NumPy arrays. stored: places at
    which it takes floats as narrow as the file stores them, when they are weights. raw: it gets
    Values as they are. dynamic: shapes of its results depend on values, so it runs only where those
    are there. random: it is never computed ahead. known: places at which it gets a NumPy array
    where the elements are known ahead, and a tensor elsewhere. keeps_bytes: it makes numbers of
    stored bytes, so a weight is not computed ahead: what reads the result may take the bytes.
    """

    def enter(fn: F) -> F:
        from_last = min((h for h in host if h < 0), default=0)

        def is_host(place: int) -> bool:
            return place in host or (from_last < 0 and place >= -from_last)

        for name in names:
            if (domain, name) in OPERATORS:
                raise ValueError(f"{domain}:{name} is already entered")
            OPERATORS[domain, name] = Operator(
                fn, is_host, frozenset(stored), raw, dynamic, random, frozenset(known), keeps_bytes
            )
        return fn

    return enter


def unsupported(node: Node) -> str:
    """Why a node's operator is not found, with those of like names."""
    known = [name for domain, name in OPERATORS if domain == node.domain]
    near = ", ".join(nearest(node.op, known))
    domain = node.domain or "ai.onnx"
    if not known:
        domains = ", ".join(sorted({d or "ai.onnx" for d, _ in OPERATORS}))
        return f"{node.title}: the domain {brief(domain)} is not supported; supported: {domains}"
    return f"{node.title} of domain {domain} is not supported" + (f"; near: {near}" if near else "")


@dataclass
class Call:
    """One node as its operator's function sees it: attributes, version, kinds of its inputs.

    opset: the version of the node's operator set. kinds: the element type of each input, None for
    one that is left out or no tensor. wanted: whether each output has a name. interpreter: what
    runs graphs within the node, over the names of `scope`. result_kinds: set by a function whose
    results have another element type than their dtype or the first input of that dtype says.
    device: where a function makes a tensor that no input says the device of. generator: what draws
    the random numbers of a node with a seed of its own.
    """

    node: Node
    opset: int
    kinds: list[ElementType | None]
    wanted: list[bool]
    interpreter: Any = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    scope: Any = None
    result_kinds: list[ElementType | None] | None = None
    device: Any = "cpu"
    generator: Any = None
    asked: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """The node, for messages."""
        return self.node.title

    def fail(self, message: str, hint: str | None = None) -> FormatError:
        """The error that says `message` of this node."""
        return FormatError(f"{self.title}: {message}", hint=hint)

    def has(self, name: str) -> bool:
        """Whether the node has an attribute."""
        self.asked.add(name)
        return name in self.attributes

    def _value(self, name: str, kind: str, default: Any) -> Any:
        self.asked.add(name)
        attribute = self.attributes.get(name)
        if attribute is None:
            if default is _REQUIRED:
                raise self.fail(f"the attribute {name!r} is missing")
            return default
        if attribute.kind != kind:
            raise self.fail(f"the attribute {name!r} is of kind {attribute.kind}, not {kind}")
        return attribute.value

    def int(self, name: str, default: Any = _REQUIRED) -> Any:
        """An integer."""
        return self._value(name, "int", default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that says yes or no."""
        return bool(self._value(name, "int", int(default)))

    def float(self, name: str, default: Any = _REQUIRED) -> Any:
        """A number."""
        return self._value(name, "float", default)

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """A string."""
        value = self._value(name, "string", default)
        return str(value, "utf-8", "replace") if isinstance(value, bytes) else value

    def ints(self, name: str, default: Any = _REQUIRED) -> Any:
        """A list of integers."""
        return self._value(name, "ints", default)

    def floats(self, name: str, default: Any = _REQUIRED) -> Any:
        """A list of numbers."""
        return self._value(name, "floats", default)

    def texts(self, name: str, default: Any = _REQUIRED) -> Any:
        """A list of strings."""
        value = self._value(name, "strings", default)
        return [str(v, "utf-8", "replace") for v in value] if value is not default else value

    def tensor(self, name: str, default: Any = _REQUIRED) -> Any:
        """A tensor, as a NumPy array."""
        value = self._value(name, "tensor", default)
        if not isinstance(value, TensorRecord | SparseRecord):
            return value
        return self.interpreter.array_of(value)

    def graph(self, name: str, default: Any = _REQUIRED) -> Graph:
        """A graph."""
        return self._value(name, "graph", default)  # type: ignore[no-any-return]

    def choice(self, name: str, default: str, *choices: str) -> str:
        """A string that is one of `choices`; FormatError for another."""
        value: str = self.text(name, default)
        if value not in choices:
            raise self.fail(f"{name}={brief(value)} is not supported; supported: {choices}")
        return value

    def ignore(self, *names: str) -> None:
        """Say that these attributes change no number here."""
        self.asked.update(names)

    def check_asked(self) -> None:
        """FormatError for an attribute that the function did not look at."""
        for name in self.attributes:
            if name not in self.asked:
                raise self.fail(f"the attribute {name!r} is not supported here")


def as_ints(array: Array | None) -> list[int] | None:
    """The Python integers of a 0-d or 1-d array."""
    return None if array is None else [int(n) for n in np.asarray(array).reshape(-1)]
