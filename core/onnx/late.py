"""Late nodes: those after an operator whose shapes depend on values, planned once these are there.

A plan's steps end where a shape depends on values that only a run has. When they are there, the
nodes that are left are a graph of their own, whose inputs have shapes. The second time that such
shapes come, that graph gets a plan and is captured; it may leave late nodes in turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.core.onnx.element_types import ElementType
from rushlight.core.onnx.interpreter import Interpreter, Scope
from rushlight.core.onnx.planning import Plan, StaticInputs, Weight, make_plan, names_read
from rushlight.core.onnx.proto import Graph, Model, Node, SparseRecord, TensorRecord, ValueInfo
from rushlight.core.onnx.weights import records_of
from rushlight.core.ops import empty
from rushlight.core.tensor.tensor import Tensor

Kinds = Mapping[str, ElementType | None]
_MOST_PLANS = 32
_MOST_KEYS = 256  # shapes of which it is kept that they came
_MOST_BYTES = 4096  # of an array that tells calls apart


class Rest:
    """The late nodes of a plan, once those that no plan can hold have run.

    first: these. model: the others as a graph. fixed: names whose arrays are the plan's own.
    reads: the names of what goes in. plans: what was prepared for shapes that came before.
    """

    def __init__(self, model: Model, plan: Plan) -> None:
        graph = model.graph
        alone = plan.alone or set()
        self.first = [node for i, node in enumerate(plan.late) if i in alone]
        nodes = [node for i, node in enumerate(plan.late) if i not in alone]
        self.fixed = {
            name: place for name, (place, _) in plan.needed.items() if isinstance(place, np.ndarray)
        }
        made = {name for node in nodes for name in node.outputs}
        reads = set[str]().union(*map(names_read, nodes)) if nodes else set[str]()
        records = _records(model, plan.needed, reads)
        self.outputs = [
            info
            for info, (place, _) in zip(graph.outputs, plan.outputs, strict=True)
            if place is None and info.name in made
        ]
        self.reads = sorted(reads - made - set(records))
        inner = Graph(
            graph.name, nodes, records, [ValueInfo(n, None) for n in self.reads], self.outputs
        )
        self.model = replace(model, graph=inner)
        self.plans: OrderedDict[Any, Any] = OrderedDict()
        self.came: OrderedDict[Any, None] = OrderedDict()
        self.static: set[str] = set()

    def prepared(
        self, scope: Scope, prepare: Callable[[Model, Plan, Kinds], Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        """What runs the nodes on these values, with its inputs; None where they run one by one.

        prepare: makes what runs the plan of a model, for inputs of these types.
        """
        given: dict[str, Any] = {}
        kinds: dict[str, ElementType | None] = {}
        for name in self.reads:
            value = scope.find(name)
            if value is None or not isinstance(value.data, Tensor | np.ndarray):
                return None  # left out, or a sequence
            given[name], kinds[name] = value.data, value.kind
        while True:
            known = {
                name: data.detach().numpy() if isinstance(data, Tensor) else data
                for name, data in given.items()
                if name in self.static or isinstance(data, np.ndarray)
            }
            key = self._key(given, known)
            if key is None:
                return None
            if key in self.plans:
                self.plans.move_to_end(key)
                return self.plans[key], given | known
            if key not in self.came:
                self.came[key] = None
                if len(self.came) > _MOST_KEYS:
                    self.came.popitem(last=False)
                return None
            metas = {
                name: empty(data.shape, dtype=data.dtype, device="meta")
                for name, data in given.items()
                if isinstance(data, Tensor)
            }
            try:
                plan = make_plan(self.model, metas | known, kinds)
            except StaticInputs as need:
                if need.names <= self.static:
                    return None
                self.static |= need.names
                self.came.clear()
                self.came[self._key(given, known | self._read(given))] = None
                continue
            self.plans[key] = prepare(self.model, plan, kinds)
            if len(self.plans) > _MOST_PLANS:
                _, dropped = self.plans.popitem(last=False)
                dropped.constants.release(dropped.plan)
            return self.plans[key], given | known

    def _read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {n: given[n].detach().numpy() for n in self.static if isinstance(given[n], Tensor)}

    def _key(self, given: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
        """What of the values a plan depends on; None where that is much."""
        parts: list[Any] = []
        for name, data in given.items():
            if name not in known:
                parts.append((data.dtype.name, tuple(data.shape), data.requires_grad))
            elif name not in self.fixed:
                array = known[name]
                if array.nbytes > _MOST_BYTES or array.dtype.kind == "O":
                    return None
                parts.append((array.dtype.str, array.shape, array.tobytes()))
        return tuple(parts)

    def run_first(self, interpreter: Interpreter, scope: Scope) -> None:
        """Run the nodes that no plan can hold."""
        for node in self.first:
            interpreter.node(node, scope)


def last_read(nodes: list[Node], wanted: set[str]) -> list[list[str]]:
    """For each node the names that no later one reads, but for those that are wanted."""
    kept, out = set(wanted), []
    for node in reversed(nodes):
        done = names_read(node) | {name for name in node.outputs if name}
        out.append(sorted(done - kept))
        kept |= done
    return out[::-1]


def _records(
    model: Model, needed: Mapping[str, tuple[Any, ElementType | None]], reads: set[str]
) -> dict[str, TensorRecord | SparseRecord]:
    """The tensors of the file that nodes read, by the names under which they do."""
    of_weight = {r.weight: r for r in records_of(model) if isinstance(r, TensorRecord) and r.weight}
    records: dict[str, TensorRecord | SparseRecord] = {}
    for name, (place, kind) in needed.items():
        record = of_weight.get(place.name) if isinstance(place, Weight) else None
        if name in reads and record is not None and record.kind is kind:
            records[name] = record
    return records
