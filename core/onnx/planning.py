"""Plans: a model's graph for inputs of certain shapes, as a list of operators to run.

A plan is made by running the graph on the meta device: shapes become known, and so does all that
shapes and constants decide. What is left are steps over slots, without branches or loops, which
`jit` captures. Where an operator needs values that only a run has, it and what depends on it stay
nodes (`late`), which run after the steps, one by one. Small integer inputs whose values decide
shapes or branches are a part of the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError
from rushlight.core.onnx.element_types import ElementType
from rushlight.core.onnx.interpreter import Interpreter, NeedsValue, Scope, Value, carried
from rushlight.core.onnx.packing import meta_blocks
from rushlight.core.onnx.proto import Graph, Model, Node, SparseRecord, TensorRecord
from rushlight.core.onnx.registry import Call, Operator
from rushlight.core.onnx.rewriting_integers import join_integers
from rushlight.core.onnx.weights import dense, stored_kind
from rushlight.core.ops import empty
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
SMALL_INPUT = 64  # elements of an integer input whose values may decide shapes
_MOST_STEPS = 500_000


class StaticInputs(Exception):
    """These inputs decide shapes: the plan must be made with their values."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a tensor among those of a run."""

    index: int


@dataclass(slots=True)
class Step:
    """One operator of a plan.

    inputs: where each is: a Slot, an array, a Weight or None. outputs: the slot of each result.
    kinds: the element type of each input. shapes: of each result.
    """

    operator: Operator
    call: Call
    inputs: list[Any]
    outputs: list[int | None]
    kinds: list[ElementType | None]
    shapes: list[tuple[int, ...] | None] = field(default_factory=list)
    done: list[int] = field(default_factory=list)  # slots that nothing later reads


@dataclass(slots=True)
class Weight:
    """A tensor of the module, by name."""

    name: str


@dataclass(slots=True)
class Plan:
    """Steps and what is left to run node by node.

    inputs: slot of each input of the graph that the steps read. outputs: for each output of the
    graph an array, a slot, a Weight, or None where a late node computes it. late: nodes that run
    after the steps; needed: what they and the outputs read, by name. alone: places among the late
    nodes of those that no plan can hold, whatever is known, and that wait for none of the others;
    None where the late nodes are not to be planned.
    """

    inputs: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: list[tuple[Any, ElementType | None]] = field(default_factory=list)
    late: list[Node] = field(default_factory=list)
    needed: dict[str, tuple[Any, ElementType | None]] = field(default_factory=dict)
    alone: set[int] | None = None
    slots: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the steps are all there is to run."""
        return not self.late


def constant_value(record: TensorRecord | SparseRecord, weight: Any) -> Value:
    """The value of a tensor of the file: its elements, or what `weight` gives for its name."""
    if isinstance(record, SparseRecord):
        return Value(dense(record), record.values.kind)
    if record.weight:
        return Value(weight(record), record.kind, known=record.array)
    return Value(record.array, record.kind)


def make_plan(
    model: Model,
    shapes: Mapping[str, Array | Tensor | None | list[Any]],
    kinds: Mapping[str, ElementType | None],
    values: dict[str, Value] | None = None,
) -> Plan:
    """The plan for these inputs.

    shapes: for each input an array (its values are a part of the plan), a tensor of the meta
    device, or None for an optional one that is left out. values: gets what each name of the graph
    stands for in it. Raises StaticInputs for inputs whose values the plan needs, and what operators
    raise for shapes that do not fit.
    """
    planner = _Planner(model, shapes, kinds)
    try:
        return planner.plan()
    finally:
        if values is not None:
            values |= planner.scope.names


def as_value(data: Any, kind: ElementType | None) -> Value:
    """The Value of an input: a tensor, an array, a dict, None, or a list of such."""
    if isinstance(data, list):
        return Value([as_value(item, kind) for item in data], kind)
    return Value(data, kind)


def tensors_of(inputs: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of inputs by name; those of a sequence by its name and their place."""
    out: dict[str, Tensor] = {}
    for name, data in inputs.items():
        if isinstance(data, Tensor):
            out[name] = data
        elif isinstance(data, list):
            out |= tensors_of({f"{name}\0{i}": item for i, item in enumerate(data)})
    return out


class _Planner:
    def __init__(
        self,
        model: Model,
        shapes: Mapping[str, Any],
        kinds: Mapping[str, ElementType | None],
    ) -> None:
        self.model, self.result = model, Plan()
        self.slot_of: dict[int, int] = {}  # id of a meta tensor -> its slot
        self.kept: list[Tensor] = []  # so that ids stay theirs
        self.weight_of: dict[int, str] = {}
        self.metas: dict[str, Tensor] = {}
        self.interpreter = Interpreter(model, self.constant, "meta", self.leaf)
        self.scope = Scope()
        for name, data in shapes.items():
            value = as_value(data, kinds.get(name))
            if isinstance(data, Tensor) and data.dtype.kind in "iub":
                if data.numel() <= SMALL_INPUT:
                    value.inputs = frozenset({name})
            self.scope.names[name] = value
        for name, tensor in tensors_of(shapes).items():
            self.result.inputs[name] = self.slot(tensor)

    def constant(self, record: TensorRecord | SparseRecord) -> Value:
        return constant_value(record, self.weight)

    def weight(self, record: TensorRecord) -> Tensor:
        if record.weight not in self.metas:
            kind = stored_kind(record.kind)
            blocks = kind.kind == "q"
            meta = (
                meta_blocks(kind, record.shape)
                if blocks
                else empty(record.shape, dtype=kind, device="meta")
            )
            self.metas[record.weight] = meta
            self.weight_of[id(meta)] = record.weight
        return self.metas[record.weight]

    def slot(self, tensor: Tensor) -> int:
        if id(tensor) not in self.slot_of:
            self.slot_of[id(tensor)] = self.result.slots
            self.kept.append(tensor)
            self.result.slots += 1
        return self.slot_of[id(tensor)]

    def place(self, value: Value | None) -> Any:
        """Where a value is during a run: an array, a Weight, a Slot, or None."""
        if value is None or value.data is None:
            return None
        if not isinstance(value.data, Tensor):
            return value.data
        if id(value.data) in self.weight_of:
            return Weight(self.weight_of[id(value.data)])
        return Slot(self.slot(value.data))

    def leaf(
        self,
        operator: Operator,
        call: Call,
        values: list[Value | None],
        results: list[Value | None],
    ) -> None:
        for result in results:
            # An operator may give an input back: its result is a value of its own.
            if result is not None and isinstance(result.data, Tensor):
                seen = id(result.data) in self.slot_of or id(result.data) in self.weight_of
                result.data = result.data.view_as(result.data) if seen else result.data
                if id(result.data) in self.slot_of:
                    result.data = result.data.clone()
        places = [
            v.known if v is not None and operator.host(i) and v.known is not None else self.place(v)
            for i, v in enumerate(values)
        ]
        outputs = [
            self.slot(r.data) if r is not None and isinstance(r.data, Tensor) else None
            for r in results
        ]
        if not any(o is not None for o in outputs):
            return  # all of it is known from shapes
        shapes = [None if r is None or not hasattr(r.data, "shape") else r.shape for r in results]
        self.result.steps.append(Step(operator, call, places, outputs, list(call.kinds), shapes))
        if len(self.result.steps) > _MOST_STEPS:
            raise FormatError(f"{call.title}: more than {_MOST_STEPS} operators run in one call")

    def plan(self) -> Plan:
        graph, result = self.model.graph, self.result
        for name, record in graph.initializers.items():
            self.scope.names.setdefault(name, self.constant(record))
        late: set[str] = set()
        reads: set[str] = set()
        result.alone = set()
        for node in graph.nodes:
            names = names_read(node)
            if names & late:
                self.postpone(node, late, reads, names)
                continue
            before = len(result.steps), self.interpreter.calls, self.interpreter.depth
            try:
                self.interpreter.node(node, self.scope)
            except NeedsValue as need:
                if need.value.inputs:
                    raise StaticInputs(need.value.inputs) from None
                del result.steps[before[0] :]
                self.interpreter.depth = before[2]
                if need.always or not self.comes_later(need.value, node):
                    result.alone.add(len(result.late))
                self.postpone(node, late, reads, names)
        for info in graph.outputs:
            if info.name in late:
                result.outputs.append((None, info.type.kind if info.type else None))
                continue
            value = self.interpreter.output(info.name, self.scope, "the graph")
            result.outputs.append((self.outcome(value), _declared(info, value)))
        for name in reads - late:
            held = self.scope.find(name)
            if held is not None:
                result.needed[name] = (self.outcome(held), held.kind)
        self.join()
        self.prune()
        return result

    def join(self) -> None:
        """Join the steps of quantized operators."""
        outcomes = [p for p, _ in (*self.result.outputs, *self.result.needed.values())]
        self.result.steps = join_integers(
            self.result.steps,
            set(_slots_of(outcomes)),
            lambda place: place.index if isinstance(place, Slot) else None,
            self.sizes,
        )

    def sizes(self, place: Any) -> tuple[int, ...]:
        """The sizes of what is at a place."""
        if isinstance(place, Slot):
            return tuple(self.kept[place.index].shape)
        return tuple((self.metas[place.name] if isinstance(place, Weight) else place).shape)

    def outcome(self, value: Value) -> Any:
        """`place` of a value that leaves the steps; sequences of them keep their form."""
        if isinstance(value.data, list):
            return [self.outcome(v) for v in value.data]
        if isinstance(value.data, dict):
            return {k: self.outcome(v) for k, v in value.data.items()}
        return self.place(value)

    def comes_later(self, value: Value, node: Node) -> bool:
        """Whether a later plan can have the elements of a value that a node needs."""
        data = value.data
        small = (
            isinstance(data, Tensor) and data.dtype.kind in "iub" and data.numel() <= SMALL_INPUT
        )
        return small and any(self.scope.find(name) is value for name in names_read(node))

    def postpone(self, node: Node, late: set[str], reads: set[str], names: set[str]) -> None:
        self.result.late.append(node)
        late.update(name for name in node.outputs if name)
        reads.update(names)

    def prune(self) -> None:
        """Drop steps whose results nothing reads, and note where each slot is read last."""
        steps = self.result.steps
        outcomes = [place for place, _ in (*self.result.outputs, *self.result.needed.values())]
        read = set(_slots_of(outcomes))
        kept: list[Step] = []
        for step in reversed(steps):
            if not any(o in read for o in step.outputs if o is not None):
                continue
            inputs = {p.index for p in step.inputs if isinstance(p, Slot)}
            outputs = {o for o in step.outputs if o is not None}
            step.done = [i for i in (inputs | outputs) if i not in read]
            read |= inputs
            kept.append(step)
        self.result.steps = kept[::-1]


def _slots_of(places: Any) -> list[int]:
    out: list[int] = []
    todo = [places]
    while todo:
        place = todo.pop()
        if isinstance(place, Slot):
            out.append(place.index)
        elif isinstance(place, list):
            todo += place
        elif isinstance(place, dict):
            todo += place.values()
    return out


def _declared(info: Any, value: Value) -> ElementType | None:
    if info.type is not None and info.type.kind is not None and info.type.form == "tensor":
        return info.type.kind  # type: ignore[no-any-return]
    return value.kind


def names_read(node: Node) -> set[str]:
    """The names that a node reads, those of graphs within it too."""
    names = {name for name in node.inputs if name}
    for attribute in node.attributes.values():
        graphs = attribute.value if isinstance(attribute.value, list) else [attribute.value]
        for graph in graphs:
            if isinstance(graph, Graph):
                inner: set[str] = {info.name for info in graph.outputs}
                made = set(graph.initializers) | {info.name for info in graph.inputs}
                for inside in graph.nodes:
                    inner |= names_read(inside)
                    made |= set(inside.outputs)
                names |= inner - made
    return names


def run_steps(
    plan: Plan,
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    constants: Constants,
) -> list[Tensor]:
    """Run the steps on the device of the inputs: the tensors of `wanted_slots(plan)`, in order."""
    stepping = step_through(plan, inputs, weights, constants)
    while True:
        try:
            next(stepping)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def step_through(
    plan: Plan,
    inputs: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    constants: Constants,
) -> Generator[tuple[Step, list[Any]], None, list[Tensor]]:
    """`run_steps`, which gives each step after it ran, with its results."""
    env: dict[int, Tensor] = {plan.inputs[name]: tensor for name, tensor in inputs.items()}
    for step in plan.steps:
        arguments: list[Any] = []
        for i, place in enumerate(step.inputs):
            if isinstance(place, Slot | Weight):
                tensor = env[place.index] if isinstance(place, Slot) else weights[place.name]
                kept = i in step.operator.stored
                arguments.append(tensor if kept else carried(tensor, step.kinds[i]))
            elif place is None or is_array(step.operator, i, place):
                arguments.append(place)
            else:
                arguments.append(constants.tensor(place))
        step.call.device = constants.device
        outcome = step.operator.run(step.call, *arguments)
        results = outcome if isinstance(outcome, list | tuple) else [outcome]
        for slot, result in zip(step.outputs, results, strict=False):
            if slot is not None:
                env[slot] = result
        yield step, list(results)
        for slot in step.done:
            env.pop(slot, None)
    return [env[slot] for slot in wanted_slots(plan)]


def is_array(operator: Operator, place: int, array: Array) -> bool:
    """Whether an operator gets a known input as an array, not as a tensor."""
    return operator.host(place) or place in operator.known or array.dtype.kind == "O"


def wanted_slots(plan: Plan) -> list[int]:
    """The slots that leave the steps, each once."""
    places = [place for place, _ in (*plan.outputs, *plan.needed.values())]
    return sorted(set(_slots_of(places)))


class Constants:
    """Tensors of the arrays that a plan's steps read, on one device; each is made once.

    They are kept while a plan that was prepared, and not released, reads them.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.held: dict[int, tuple[Array, Tensor]] = {}
        self.uses: Counter[int] = Counter()

    def tensor(self, array: Array) -> Tensor:
        """The tensor of an array, which must not change."""
        if id(array) not in self.held:
            made = from_numpy(np.array(array, order="C")).to(device=self.device)
            self.held[id(array)] = (array, made)
        return self.held[id(array)][1]

    def prepare(self, plan: Plan) -> None:
        """Make those of a plan before its steps are captured."""
        for array in _arrays(plan):
            self.tensor(array)
            self.uses[id(array)] += 1

    def release(self, plan: Plan) -> None:
        """Drop those of a plan that no other one reads."""
        for array in _arrays(plan):
            self.uses[id(array)] -= 1
            if self.uses[id(array)] <= 0:
                del self.uses[id(array)]
                self.held.pop(id(array), None)


def _arrays(plan: Plan) -> Iterator[Array]:
    """The arrays that the steps of a plan read as tensors."""
    for step in plan.steps:
        for i, place in enumerate(step.inputs):
            if isinstance(place, np.ndarray) and not step.operator.host(i):
                if place.dtype.kind != "O":
                    yield place
