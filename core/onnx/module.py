"""OnnxModule: the graph of an ONNX file as a module, called by names of inputs or in order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.jit import capture
from rushlight.core.jit.function import jit
from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Buffer, Parameter
from rushlight.core.onnx.arguments import Inputs, described, elements, kind_of, signature
from rushlight.core.onnx.element_types import ElementType
from rushlight.core.onnx.interpreter import Interpreter, Scope, Value
from rushlight.core.onnx.late import Kinds, Rest, last_read
from rushlight.core.onnx.planning import (
    SMALL_INPUT,
    Constants,
    Plan,
    Slot,
    StaticInputs,
    Weight,
    as_value,
    constant_value,
    make_plan,
    names_read,
    run_steps,
    step_through,
    tensors_of,
    wanted_slots,
)
from rushlight.core.onnx.proto import Model, SparseRecord, TensorRecord, ValueInfo
from rushlight.core.onnx.repeats import Repeats
from rushlight.core.onnx.weights import records_in
from rushlight.core.ops import empty
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
_MOST_PLANS = 64
_PATIENCE = 4  # plans in a row that serve one call each, after which shapes must come twice
_MOST_KEYS = 32  # shapes that came once: older ones would come too late for a plan to last


class Results(tuple[Any, ...]):
    """The outputs of a graph in their order; `results["name"]` is one of them."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: tuple[str, ...], values: list[Any]) -> Results:
        """The values of these names."""
        made = cls(values)
        made.names = names
        return made

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise KeyError(f"there is no output {key!r}; there are {', '.join(self.names)}")
        return super().__getitem__(self.names.index(key))

    def keys(self) -> tuple[str, ...]:
        """The names, so that `dict(results)` has them."""
        return self.names

    def items(self) -> list[tuple[str, Any]]:
        """(name, value) of each output."""
        return list(zip(self.names, self, strict=True))


class _Scoped(Module):
    """A name scope of a file's tensors, such as "encoder" of "encoder.weight"."""


class _Prepared:
    """A plan with the function that runs its steps.

    model: what the plan is of. kinds: the element types of its inputs.
    """

    def __init__(
        self,
        model: Model,
        plan: Plan,
        kinds: Kinds,
        constants: Constants,
        weights: Mapping[str, Tensor],
    ) -> None:
        self.model, self.plan, self.kinds, self.constants = model, plan, kinds, constants
        self.names = list(plan.inputs)
        self.wanted = wanted_slots(plan)
        self.gone: list[list[str]] | None = None  # the names that each late node reads last
        self.rest = None if plan.alone is None or plan.is_whole else Rest(model, plan)

        def body(*inputs: Tensor) -> list[Tensor]:
            return run_steps(plan, dict(zip(self.names, inputs, strict=True)), weights, constants)

        self.eager, self.captured = body, jit(body)
        self.calls = 0
        self.key: Any = None

    def __call__(self, inputs: list[Tensor], learning: bool) -> list[Tensor]:
        """Run the steps: as they are at first, captured from the second call on."""
        self.calls += 1
        return self.eager(*inputs) if learning or self.calls == 1 else self.captured(*inputs)


class OnnxModule(Module):
    """The graph of an ONNX file: its `model`, and its `weights` by name. It raises nothing.

    inputs and outputs: names, element types and sizes, where a name or None stands for a free size.
    metadata: the texts that the file carries. opsets: the version of each operator set. Weights are
    parameters, which require no gradient until `requires_grad_()`, integers are buffers. The
    second call with like shapes is captured, and later ones replay it.
    """

    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    device_anchor: Tensor

    def __init__(self, model: Model, weights: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.model, self.name = model, name
        self.inputs = [i for i in model.graph.inputs if i.name not in model.graph.initializers]
        self.optional_inputs = [i for i in model.graph.inputs if i.name in model.graph.initializers]
        self.outputs = model.graph.outputs
        self.metadata, self.opsets = dict(model.metadata), dict(model.opsets)
        self.weights = dict(weights)
        for title, held in self.weights.items():
            self._hold(title, held)
        # What has no weight has a device too.
        self.register_buffer("device_anchor", empty((1,)), persistent=False)
        self._plans: OrderedDict[Any, _Prepared] = OrderedDict()
        self._static: set[str] = set()
        self._folded: dict[Any, Any] = {}
        self._constants: dict[Any, Constants] = {}
        self._arguments = Inputs(name, self.inputs, self.optional_inputs)
        self._kinds = {i.name: kind_of(i) for i in (*self.inputs, *self.optional_inputs)}
        self._repeats = Repeats(self.inputs)
        self._plain: _Prepared | None = None
        self._came: OrderedDict[Any, None] = OrderedDict()
        self._looked_at: Any = None  # when it was found whether a weight needs a gradient
        self._is_learning = False

    def _hold(self, title: str, held: Tensor) -> None:
        """Register a tensor under its name in the file, as far as it can be a path of names."""
        owner: Any = self
        *scopes, leaf = title.split(".") if title else ["tensor"]
        for scope in scopes:
            below = owner.__dict__.get(scope)
            if below is None and scope and not hasattr(owner, scope):
                below = _Scoped()
                setattr(owner, scope, below)
            if not isinstance(below, _Scoped):
                owner, leaf = self, title.replace(".", "_")
                break
            owner = below
        while not leaf or hasattr(owner, leaf):
            leaf += "_"
        if isinstance(held, Parameter):
            owner.register_parameter(leaf, held)
        else:
            owner.register_buffer(leaf, held)

    @property
    def device(self) -> Any:
        """Where the weights are, and where calls compute."""
        return self.device_anchor.device

    def extra_repr(self) -> str:
        """The name of the file, what goes in and what comes out."""
        told = ", ".join(f"{i.name}: {i.type}" for i in self.inputs)
        return f"{self.name}, ({told}) -> ({', '.join(o.name for o in self.outputs)})"

    # Calls.

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on inputs in order or by name.

        Inputs are tensors, NumPy arrays or numbers in lists; whole and ordinary numbers take the
        dtype that the file declares, within its range. A graph of one output gives it, one of
        several gives them in order, by name too (`Results`). An input of another rank or size, of
        another dtype, that is missing or that the graph has not, is a ValueError or TypeError.
        """
        device, repeats = self.device, self._repeats
        key = repeats.key(device, args, kwargs, self._static)
        prepared = None if key is None else repeats.prepared.get(key)
        if prepared is not None:
            names = prepared.names if prepared.plan.is_whole else None
            given = repeats.bound(device, args, kwargs, names)
            self._plans.move_to_end(prepared.key)
        else:
            given = self._arguments.bound(args, kwargs, self.device)
            # Nodes that run by themselves may read values, which a device may take long to give.
            may_wait = not device.backend.asynchronous and not capture.active
            prepared = self._prepared(given, None, may_wait)
            key = repeats.key(device, args, kwargs, self._static)
            if key is not None and prepared is not self._plain:
                repeats.remember(key, prepared)
        results = self._run_steps(prepared, given)
        return self._outcome(prepared, given, results, device)

    def carried(self, inputs: Mapping[str, Any], *, captured: bool = True) -> dict[str, Any]:
        """The outputs by name, in the dtypes that values have within the graph.

        Floats of 16 bits stay float32, so that what one call keeps for the next loses nothing.
        inputs: by name, see `forward`; small ones that are no tensors are known where the graph is
        planned, so that a captured function may ask. captured: whether calls of like shapes are
        planned and captured; without it the nodes run one by one, for shapes that do not come
        again.
        """
        given = self._arguments.bound((), inputs, self.device)
        known = {n: np.asarray(v) for n, v in inputs.items() if not isinstance(v, Tensor)}
        if captured:
            prepared = self._prepared(given, known)
            results = self._run_steps(prepared, given)
        else:
            given |= {n: elements(given[n], v) for n, v in known.items()}
            prepared, results = self._one_by_one(), []
        values = self._values(prepared, given, results, self.device, self.weights)
        return {
            info.name: _result(value, None, self.device)
            for info, (value, _) in zip(self.outputs, values, strict=True)
        }

    async def call_async(self, *args: Any, **kwargs: Any) -> Any:
        """`forward` without blocking, for a page.

        Operators whose shapes depend on values run on `cpu`, after their inputs are read.
        """
        given, prepared = await self._prepared_async(args, kwargs)
        results = self._run_steps(prepared, given)
        return await self._outcome_async(prepared, given, results)

    async def _prepared_async(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], _Prepared]:
        """The inputs by name, and the plan for their shapes."""
        given = self._arguments.bound(args, kwargs, self.device)
        named = {i.name: v for i, v in zip(self.inputs, args, strict=False)} | kwargs
        known = {}
        for name, value in named.items():
            if not isinstance(value, Tensor):
                known[name] = np.asarray(value, np.object_ if value is None else None)
            elif value.dtype.kind in "iub" and value.numel() <= SMALL_INPUT:
                known[name] = np.array(await value.detach().host_values_async())
        return given, self._prepared(given, known)

    async def _outcome_async(
        self, prepared: _Prepared, given: dict[str, Any], results: list[Tensor]
    ) -> Any:
        if prepared.plan.is_whole:
            return self._outcome(prepared, given, results, self.device)
        read = [from_numpy(np.array(await r.host_values_async())) for r in results]
        host = {k: await _on_host(v) for k, v in given.items()}
        weights = dict(self.weights)
        for name in self._late_weights(prepared.plan):
            weights[name] = await _on_host(weights[name])
        return self._outcome(prepared, host, read, "cpu", weights)

    def _late_weights(self, plan: Plan) -> set[str]:
        """The weights that nodes read which are left to run one by one."""
        records = list(records_in(plan.late))
        initializers = self.model.graph.initializers
        for node in plan.late:
            records += [initializers[n] for n in names_read(node) if n in initializers]
        for function in self.model.functions.values():
            records += records_in(function.nodes)
        return {r.weight for r in records if isinstance(r, TensorRecord) and r.weight}

    def run_watched(
        self, after: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """`forward` without capture, which tells `after` of every operator; see `timed`.

        after: told its number from 1, of how many, the step and its results. args and kwargs are
        the inputs, as a call takes them, and what a call raises is raised.
        """
        given = self._arguments.bound(args, kwargs, self.device)
        prepared = self._prepared(given)
        stepping, number = self._stepping(prepared, given), 0
        while True:
            try:
                step, results = next(stepping)
            except StopIteration as end:
                return self._outcome(prepared, given, end.value, self.device)
            after(number := number + 1, len(prepared.plan.steps), step, results)

    async def run_watched_async(
        self,
        after: Callable[..., Awaitable[None]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """`run_watched` without blocking; `after`, `args`, `kwargs` and what is raised are its."""
        given, prepared = await self._prepared_async(args, kwargs)
        stepping, number = self._stepping(prepared, given), 0
        while True:
            try:
                with autograd.no_grad():
                    step, results = next(stepping)
            except StopIteration as end:
                return await self._outcome_async(prepared, given, end.value)
            await after(number := number + 1, len(prepared.plan.steps), step, results)

    def _stepping(self, prepared: _Prepared, given: dict[str, Any]) -> Any:
        tensors = tensors_of(given)
        inputs = {name: tensors[name] for name in prepared.names}
        return step_through(prepared.plan, inputs, self.weights, prepared.constants)

    def _prepared(
        self,
        given: dict[str, Any],
        known: Mapping[str, Array] | None = None,
        may_wait: bool = False,
    ) -> _Prepared:
        """The plan for the shapes of these inputs, made at the first call with them.

        known: the elements of some of them. may_wait: whether shapes that no call had before get no
        plan yet, if they change with each call.
        """
        while True:
            values = dict(given)
            for name in self._static:
                if isinstance(value := given.get(name), Tensor):
                    values[name] = elements(value, known.get(name) if known else None)
            device = self.device
            key = (device, *(signature(name, value) for name, value in values.items()))
            if key in self._plans:
                self._plans.move_to_end(key)
                return self._plans[key]
            if may_wait and key not in self._came and self._is_restless():
                self._came[key] = None
                if len(self._came) > _MOST_KEYS:
                    self._came.popitem(last=False)
                return self._one_by_one()
            try:
                # What is computed ahead is no part of what a captured function does.
                with capture.tracing(None), autograd.no_grad():
                    metas = {name: described(value) for name, value in values.items()}
                    plan = make_plan(self.model, metas, self._kinds)
            except StaticInputs as need:
                if need.names <= self._static:
                    raise FormatError(f"the inputs {need} decide shapes of themselves") from None
                self._static |= need.names
                continue
            self._plans[key] = made = self._prepare(self.model, plan, self._kinds)
            made.key = key
            if len(self._plans) > _MOST_PLANS:
                self._repeats.prepared.clear()
                _, dropped = self._plans.popitem(last=False)
                dropped.constants.release(dropped.plan)
            return made

    def _one_by_one(self) -> _Prepared:
        """What runs every node by itself."""
        if self._plain is None:
            outputs = [(None, o.type.kind if o.type else None) for o in self.outputs]
            plan = Plan(outputs=list(outputs), late=self.model.graph.nodes)
            constants = Constants(self.device)
            self._plain = _Prepared(self.model, plan, self._kinds, constants, self.weights)
        return self._plain

    def _is_restless(self) -> bool:
        """Whether shapes change with each call, so that plans are made in vain."""
        latest = list(islice(reversed(self._plans.values()), _PATIENCE))
        return len(latest) == _PATIENCE and all(prepared.calls == 1 for prepared in latest)

    def _prepare(self, model: Model, plan: Plan, kinds: Kinds) -> _Prepared:
        device = self.device
        constants = self._constants.setdefault(device, Constants(device))
        with capture.tracing(None):
            constants.prepare(plan)
        return _Prepared(model, plan, kinds, constants, self.weights)

    def _run_steps(self, prepared: _Prepared, given: dict[str, Any]) -> list[Tensor]:
        if not prepared.plan.steps and not prepared.wanted:
            return []
        tensors = tensors_of(given)
        inputs = [tensors[name] for name in prepared.names]
        if not autograd.is_grad_enabled():
            return prepared(inputs, False)
        learning = any([t.requires_grad for t in inputs]) or self._learns()
        if learning or capture.active:
            return prepared(inputs, learning)
        with autograd.no_grad():  # the executable has no need to look at each of them again
            return prepared(inputs, False)

    def _learns(self) -> bool:
        """Whether a weight needs a gradient."""
        now = capture.gradient_generation, capture.storage_generation
        if now != self._looked_at:
            weights = self.weights.values()
            self._is_learning = any(t.requires_grad for t in weights)
            # The history of a view has to be asked for.
            self._looked_at = None if any(t.is_view for t in weights) else now
        return self._is_learning

    def _outcome(
        self,
        prepared: _Prepared,
        given: dict[str, Any],
        results: list[Tensor],
        device: Any,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Any:
        weights = self.weights if weights is None else weights
        values = self._values(prepared, given, results, device, weights)
        outputs = [_result(value, kind or value.kind, device) for value, kind in values]
        if len(outputs) == 1:
            return outputs[0]
        return Results.of(tuple(o.name for o in self.outputs), outputs)

    def _values(
        self,
        prepared: _Prepared,
        given: dict[str, Any],
        results: list[Tensor],
        device: Any,
        weights: Mapping[str, Tensor],
    ) -> list[tuple[Value, ElementType | None]]:
        """The outputs, of the steps' results and of the nodes that are left, with their types."""
        plan = prepared.plan
        found = dict(zip(prepared.wanted, results, strict=True))
        scope = Scope()
        if plan.late:
            for name, value in given.items():
                scope.names[name] = as_value(value, prepared.kinds.get(name))
            for name, (place, kind) in plan.needed.items():
                scope.names[name] = _placed(place, kind, found, weights)

            def weight(record: TensorRecord) -> Tensor:
                return weights[record.weight]

            def constant(record: TensorRecord | SparseRecord) -> Value:
                return constant_value(record, weight)

            read = set().union(*(names_read(node) for node in plan.late))
            for name, record in prepared.model.graph.initializers.items():
                if name in read:
                    scope.names.setdefault(name, constant(record))
            interpreter = Interpreter(self.model, constant, device)
            interpreter.folded = self._folded
            rest = prepared.rest if weights is self.weights else None
            if rest is not None and not capture.active:
                self._run_rest(rest, interpreter, scope)
            else:
                if prepared.gone is None:
                    wanted = {info.name for info in prepared.model.graph.outputs}
                    prepared.gone = last_read(plan.late, wanted)
                for node, gone in zip(plan.late, prepared.gone, strict=True):
                    interpreter.node(node, scope)
                    for name in gone:
                        scope.names.pop(name, None)
        values = []
        for info, (place, kind) in zip(prepared.model.graph.outputs, plan.outputs, strict=True):
            late = place is None and scope.find(info.name) is not None
            value = scope.find(info.name) if late else _placed(place, kind, found, weights)
            assert value is not None
            values.append((value, kind))
        return values

    def _run_rest(self, rest: Rest, interpreter: Interpreter, scope: Scope) -> None:
        """Run the late nodes of a plan: by a plan of their own if these shapes came before."""
        rest.run_first(interpreter, scope)
        outcome = rest.prepared(scope, self._prepare)
        if outcome is None:
            for node in rest.model.graph.nodes:
                interpreter.node(node, scope)
            return
        following, given = outcome
        following.calls = max(following.calls, 1)  # the nodes ran once, so this run is captured
        results = self._run_steps(following, given)
        values = self._values(following, given, results, self.device, self.weights)
        for info, (value, kind) in zip(rest.outputs, values, strict=True):
            scope.names[info.name] = Value(value.data, value.kind or kind)


def _placed(
    place: Any, kind: ElementType | None, found: Mapping[int, Tensor], weights: Mapping[str, Tensor]
) -> Value:
    """The value that a plan's place has in a run."""
    if isinstance(place, list):
        return Value([_placed(p, kind, found, weights) for p in place], kind)
    if isinstance(place, dict):
        return Value({k: _placed(p, kind, found, weights) for k, p in place.items()}, kind)
    if isinstance(place, Slot):
        return Value(found[place.index], kind)
    if isinstance(place, Weight):
        return Value(weights[place.name], kind)
    return Value(place, kind)


def _result(value: Value, kind: ElementType | None, device: Any) -> Any:
    """What a caller gets: a tensor in its declared dtype, an array of strings, a list, a dict."""
    data = value.data
    if isinstance(data, list):
        return [_result(v, v.kind, device) if isinstance(v, Value) else v for v in data]
    if isinstance(data, dict):
        return {
            k: _result(v, v.kind, device) if isinstance(v, Value) else v for k, v in data.items()
        }
    if data is None:
        return None
    if isinstance(data, np.ndarray):
        if data.dtype.kind in "OUS":
            return data
        data = from_numpy(np.array(data, order="C")).to(device=device)
    declared = kind.declared if kind is not None else None
    if declared is not None and data.dtype is not declared:
        data = data.to(declared)
    return data


async def _on_host(value: Any) -> Any:
    if isinstance(value, Tensor):
        if not value.device.backend.asynchronous:
            return value  # a read of it does not wait
        return from_numpy(np.array(await value.detach().host_values_async()))
    if isinstance(value, list):
        return [await _on_host(v) for v in value]
    return value


def registered(name: str, held: Tensor) -> Tensor:
    """A weight as a module holds it: floats as a parameter without gradient, others as a buffer."""
    if held.dtype.kind == "f" and not held.dtype.encoded or held.dtype.name == "bfloat16":
        return Parameter(held, requires_grad=False)
    return Buffer(held)
