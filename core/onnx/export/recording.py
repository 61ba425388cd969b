"""A run of a function as a list of ops over values: no memory, no strides, no writes in place.

A view is an op of its base. A write through a view becomes an op that gives the new elements, and
one that puts them into the value of the memory's owner; other views are taken again when next used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType, int64
from rushlight.core.basis.layout import Layout
from rushlight.core.jit import capture
from rushlight.core.jit.capture import TraceHooks
from rushlight.core.jit.pytree import mapped
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.meta import Meta
from rushlight.core.tensor.op import REGISTRY
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]
Chain = tuple[tuple[str, Attributes], ...]
RANDOM = ("rand", "randn", "randint")


class ExportError(RuntimeError):
    """A function that cannot be written as an ONNX graph; names the op and where it is called."""


@dataclass(slots=True, eq=False)
class Value:
    """One value of a trace.

    step: the number of the step that makes it, -1 for an input of the graph, -2 for a tensor from
    outside. depends: whether its elements depend on the graph's inputs. tensor: of one that does
    not, the tensor itself.
    """

    number: int
    shape: tuple[int, ...]
    dtype: DType
    step: int
    depends: bool
    tensor: Tensor | None = None


@dataclass(slots=True, eq=False)
class Traced:
    """One op of a trace: its name, operands and result, and the caller's line that ran it."""

    name: str
    inputs: tuple[Value | None, ...]
    attrs: Attributes
    out: Value
    line: str


@dataclass(slots=True, eq=False)
class _Memory:
    """What a storage holds: the value of its owner, how often it was written to, its views."""

    storage: Any
    value: Value
    layout: Layout
    dtype: DType
    version: int
    seen: dict[Any, _Known]


@dataclass(slots=True, eq=False)
class _Known:
    """The value of a tensor, the view ops that lead to it, and the version of the memory then."""

    tensor: Tensor
    value: Value
    chain: Chain
    version: int


class Recorder(TraceHooks):
    """The hooks of one traced run; `steps` and `values` are its record."""

    whole = True

    def __init__(self) -> None:
        self._reason: str | None = None
        super().__init__()
        self.values: list[Value] = []
        self.steps: list[Traced] = []  # type: ignore[assignment]
        self.outer: list[Value] = []
        self._known_of: dict[int, _Known] = {}
        self._memories: dict[int, _Memory] = {}
        self._kept: list[tuple[Tensor, Tensor]] = []

    # The reason why a capture ends is an error here.

    @property
    def why(self) -> str | None:
        """None: there is no run without a record."""
        return self._reason

    @why.setter
    def why(self, reason: str | None) -> None:
        if reason is not None:
            raise ExportError(f"onnx.export: the function cannot be written: {reason}")

    # Values.

    def value(self, shape: Sequence[int], dtype: DType, step: int, depends: bool) -> Value:
        """A new value."""
        made = Value(len(self.values), tuple(shape), dtype, step, depends)
        self.values.append(made)
        return made

    def enter(self, tensor: Tensor, depends: bool) -> Value:
        """A value for a tensor that no op of the run made: an input, or one from outside."""
        made = self.value(tensor.shape, tensor.dtype, -1 if depends else -2, depends)
        if not depends:
            made.tensor = tensor
            self.outer.append(made)
        self._own(tensor, made)
        return made

    def _own(self, tensor: Tensor, value: Value) -> None:
        memory = self._memories.get(id(tensor.storage))
        if memory is None:
            memory = _Memory(tensor.storage, value, tensor.layout, tensor.dtype, 0, {})
            self._memories[id(tensor.storage)] = memory
        self._note(memory, tensor, value, ())

    def _note(self, memory: _Memory, tensor: Tensor, value: Value, chain: Chain) -> None:
        known = _Known(tensor, value, chain, memory.version)
        self._known_of[id(tensor)] = known
        memory.seen.setdefault((tensor.layout, tensor.dtype), known)

    def of(self, tensor: Tensor) -> Value:
        """The value that a tensor has now."""
        memory = self._memories.get(id(tensor.storage))
        if memory is None or memory.storage is not tensor.storage:
            return self.enter(tensor, False)
        known = self._known_of.get(id(tensor))
        if known is None or known.tensor is not tensor:
            known = memory.seen.get((tensor.layout, tensor.dtype))
            if known is None:
                return self._beside(memory, tensor)
            self._known_of[id(tensor)] = known = _Known(
                tensor, known.value, known.chain, known.version
            )
        if known.version != memory.version:
            value = memory.value
            for name, attrs in known.chain:
                value = self._view(name, attrs, value)
            known.value, known.version = value, memory.version
        return known.value

    def _beside(self, memory: _Memory, tensor: Tensor) -> Value:
        """The value of an alias whose view ops are not known."""
        if memory.value.step == -2 and not memory.version:
            return self.enter(tensor, False)
        if not memory.layout.is_contiguous or memory.dtype is not tensor.dtype:
            raise ExportError(
                f"onnx.export: a tensor of shape {tensor.shape} shares memory with another in a "
                "way that is not known; clone() it first"
            )
        layout = tensor.layout
        offset = layout.offset - memory.layout.offset
        attrs = {"shape": layout.shape, "strides": layout.strides, "offset": offset}
        value = self._view("as_strided", attrs, memory.value)
        self._note(memory, tensor, value, (("as_strided", attrs),))
        return value

    def _step(
        self,
        name: str,
        inputs: Sequence[Value | None],
        attrs: Attributes,
        shape: Sequence[int],
        dtype: DType,
    ) -> Value:
        depends = any(v is not None and v.depends for v in inputs)
        out = self.value(shape, dtype, len(self.steps), depends)
        self.steps.append(Traced(name, tuple(inputs), dict(attrs), out, capture.line()))
        return out

    def _view(self, name: str, attrs: Attributes, base: Value) -> Value:
        """A view op over a value, by its shape alone."""
        like = Meta(base.dtype, Layout.contiguous(base.shape))
        shape = REGISTRY[name].infer(like, **attrs).shape
        return self._step(name, [base], attrs, shape, base.dtype)

    # What the ops report.

    def view_taken(self, base: Tensor, view: Tensor, name: str, attrs: Attributes) -> None:
        """A view op ran, or an alias was made."""
        value = self.of(base)
        memory = self._memories[id(base.storage)]
        known = self._known_of[id(base)]
        if not name:
            self._note(memory, view, value, known.chain)
            return
        value = self._step(name, [value], attrs, view.shape, view.dtype)
        if not value.depends:
            value.tensor = view
        self._note(memory, view, value, (*known.chain, (name, dict(attrs))))

    def op_runs(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        out: Tensor,
        attrs: Attributes,
        inplace: bool,
        recorded: bool,
    ) -> None:
        """An op is about to run."""
        if name in RANDOM:
            raise ExportError(
                f"onnx.export: the op {name} at {capture.line()} draws random numbers, which a "
                "file cannot repeat; call .eval() on the module, or draw outside and pass them"
            )
        if not inplace:
            values = [None if t is None else self.of(t) for t in inputs]
            value = self._step(name, values, attrs, out.shape, out.dtype)
            if not value.depends:
                value.tensor = out
            self._own(out, value)
            return
        values = [None if t is None else self.of(t) for t in inputs]
        memory = self._memories[id(out.storage)]
        if memory.value.step == -2 and not memory.version:
            with capture.tracing(None):
                self._kept.append((out, out.detach().clone()))
        known = self._known_of[id(out)]
        value = self._step(name, values, attrs, out.shape, out.dtype)
        memory.version += 1
        if not known.chain:
            memory.value = value
        else:
            places = self._step("positions", [memory.value], {}, memory.value.shape, int64)
            for view, options in known.chain:
                places = self._view(view, options, places)
            whole = memory.value
            operands = [whole, places, value]
            memory.value = self._step("put", operands, {}, whole.shape, whole.dtype)
        known.value, known.version = value, memory.version
        memory.seen[out.layout, out.dtype] = known

    def may_read(self, tensor: Tensor) -> bool:
        """Values that do not depend on the inputs may be read."""
        if not self.of(tensor).depends:
            return True
        raise ExportError(
            f"onnx.export: {capture.line()} reads the values of a tensor of shape {tensor.shape} "
            "that depends on the inputs; what follows from them would be the same for all inputs. "
            "Remove the code that prints, compares or indexes by values (item, tolist, nonzero, a "
            "mask as index)"
        )

    def restore(self) -> None:
        """Undo the writes to tensors from outside."""
        with no_grad():
            for tensor, before in reversed(self._kept):
                tensor.detach().copy_(before)
        self._kept.clear()


@dataclass(slots=True, eq=False)
class Trace:
    """A record: the inputs' values in order, the steps, the values, the result as a tree of values.

    outer: the tensors from outside, in the order of their first use.
    """

    inputs: list[Value]
    steps: list[Traced]
    values: list[Value]
    outer: list[Value]
    result: Any
    tensors: Any


def record(fn: Callable[..., Any], args: Any, kwargs: Any) -> Trace:
    """Run fn(*args, **kwargs) and return its record; every tensor of the arguments is an input.

    ExportError for what cannot be written; what fn raises.
    """
    recorder = Recorder()
    inputs: list[Value] = []
    known: dict[int, Tensor] = {}

    def proxy(tensor: Tensor) -> Tensor:
        if id(tensor) not in known:
            known[id(tensor)] = new = tensor.detach().clone()
            inputs.append(recorder.enter(new, True))
        return known[id(tensor)]

    with no_grad():
        positional, named = mapped(args, proxy), mapped(kwargs, proxy)
        try:
            with capture.tracing(recorder):
                result = fn(*positional, **named)
                values = mapped(result, recorder.of)
        finally:
            recorder.restore()
    tensors = mapped(result, lambda t: t)
    return Trace(inputs, recorder.steps, recorder.values, recorder.outer, values, tensors)


def is_in_onnx_export() -> bool:
    """Whether `rl.onnx.export` is tracing the caller."""
    return isinstance(capture.current(), Recorder)


def array_of(tensor: Tensor) -> Array:
    """A copy of a tensor's elements; of narrow floats as float32."""
    return np.array(tensor.detach().host_values(), order="C")
