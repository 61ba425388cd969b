"""What an ONNX file holds and what running it costs, told before anything runs."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core.basis.errors import RushlightError
from rushlight.core.onnx.element_types import ElementType
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.loading import nodes_of, open_model, unsupported_nodes
from rushlight.core.onnx.planning import Plan, Slot, StaticInputs, Step, Weight, make_plan
from rushlight.core.onnx.proto import Model, Node, TensorRecord, ValueInfo
from rushlight.core.onnx.weights import is_weight, plain, small_arrays
from rushlight.core.ops import empty, zeros
from rushlight.core.tensor.tensor import Tensor

_FREE = 16  # the size that is taken for a free one, but for the first, which is taken as 1
_PRODUCTS = frozenset(
    ("MatMul", "Gemm", "FusedMatMul", "MatMulInteger", "MatMulNBits", "QLinearMatMul", "Attention",
     "FusedGemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")
)  # fmt: skip
_CONVOLUTIONS = frozenset(
    ("Conv", "ConvTranspose", "QLinearConv", "ConvInteger", "FusedConv", "DeformConv")
)


@dataclass
class NodeCost:
    """One operator of a run: its title, sizes of its first result, operations, bytes of results.

    node: the node of the file that it runs for.
    """

    title: str
    op: str
    shape: tuple[int, ...]
    operations: int
    nbytes: int
    node: Node | None = field(default=None, repr=False, compare=False)


@dataclass
class Summary:
    """What `inspect` tells of a file. It raises nothing.

    name, producer, ir_version, opsets, metadata, inputs, outputs: the file's. operators: how often
    each occurs, by domain and name. refused: what would be refused, with node and domain. weights:
    bytes by element type. sizes: what was taken for each free size. costs: one per operator that a
    run of these sizes executes. peak: the most bytes of values between operators at a time. late:
    operators whose shapes depend on values. failure: why costs are not known. shapes: of each value
    with these sizes, and whether its elements are known before a run.
    """

    name: str
    producer: str
    ir_version: int
    opsets: dict[str, int]
    metadata: dict[str, str]
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    operators: dict[str, int]
    refused: list[str]
    weights: dict[str, int]
    sizes: dict[str, int] = field(default_factory=dict)
    costs: list[NodeCost] = field(default_factory=list)
    peak: int = 0
    late: list[str] = field(default_factory=list)
    failure: str = ""
    shapes: dict[str, tuple[tuple[int, ...], bool]] = field(default_factory=dict, repr=False)

    @property
    def operations(self) -> int:
        """Additions and multiplications of a run."""
        return sum(cost.operations for cost in self.costs)


def inspect(file: Any, sizes: Mapping[str, int] | None = None) -> Summary:
    """Tell of an ONNX file: operators, opsets, what would be refused, memory, the cost per node.

    file: as `load` takes it. sizes: of free dims by their names, or "input.dim" such as
    "pixel_values.2" for those without one; others are taken as 1 where they come first, else 16.
    Nothing is run and no weight is read. FormatError for what is no ONNX model; ValueError for a
    size that is not positive.
    """
    source, close, model = open_model(file)
    try:
        with contextlib.suppress(RushlightError):  # which is told with the costs
            small_arrays(plain(model), source)
        return summarize(model, source.name, sizes)
    finally:
        if close:
            source.close()


def summarize(model: Model, name: str, sizes: Mapping[str, int] | None = None) -> Summary:
    """`inspect` of a model whose small tensors are read. ValueError for a size below 1."""
    for title, size in (sizes or {}).items():
        if size < 1:
            raise ValueError(f"the size {title}={size} must be positive")
    summary = _described(model, name, plain(model))
    if not summary.refused:
        try:
            _add_costs(summary, model, dict(sizes or {}))
        except (RushlightError, ValueError, TypeError) as error:
            summary.failure = str(error)
    return summary


def _described(model: Model, name: str, records: list[TensorRecord]) -> Summary:
    graph = model.graph
    operators = Counter(
        f"{node.domain}:{node.op}" if node.domain else node.op for node in nodes_of(model)
    )
    weights: Counter[str] = Counter()
    for record in records:
        weights[record.kind.name] += record.nbytes
    return Summary(
        name=name,
        producer=model.producer,
        ir_version=model.ir_version,
        opsets=dict(model.opsets),
        metadata=dict(model.metadata),
        inputs=[i for i in graph.inputs if i.name not in graph.initializers],
        outputs=graph.outputs,
        operators=dict(operators.most_common()),
        refused=list(dict.fromkeys(unsupported_nodes(model))),
        weights=dict(weights.most_common()),
    )


def _add_costs(summary: Summary, model: Model, sizes: dict[str, int]) -> None:
    static: frozenset[str] = frozenset()
    shapes = {info.name: _shape(info, sizes, summary.sizes) for info in summary.inputs}
    for record in plain(model):
        record.weight = record.name if is_weight(record) else ""
    while True:
        values: dict[str, Any] = {}
        kinds: dict[str, ElementType | None] = {}
        for info in summary.inputs:
            kind = info.type.kind if info.type is not None else None
            dtype = kind.carried if kind is not None else None
            if dtype is None or info.type is None or info.type.form != "tensor":
                raise ValueError(f"input {info.name!r} is {info.type}; its cost is not known")
            made = zeros if info.name in static else empty
            device = "cpu" if info.name in static else "meta"
            tensor = made(shapes[info.name], dtype=dtype, device=device)
            values[info.name] = tensor.numpy() if info.name in static else tensor
            kinds[info.name] = kind
        try:
            known: dict[str, Value] = {}
            try:
                plan = make_plan(model, values, kinds, known)
            finally:
                summary.shapes = {
                    name: (tuple(value.data.shape), value.is_known)
                    for name, value in known.items()
                    if isinstance(value.data, Tensor | np.ndarray)
                }
            break
        except StaticInputs as need:
            if need.names <= static:
                raise ValueError(f"the inputs {sorted(need.names)} decide shapes") from None
            static |= need.names
    summary.late = [node.title for node in plan.late]
    by_name = {name: value.shape for name, value in values.items() if isinstance(value, Tensor)}
    _walk(summary, model, plan, by_name)


def _shape(info: ValueInfo, sizes: Mapping[str, int], chosen: dict[str, int]) -> tuple[int, ...]:
    declared = info.type.shape if info.type is not None else None
    out = []
    for place, size in enumerate(declared or ()):
        if isinstance(size, int):
            out.append(size)
            continue
        name = size or f"{info.name}.{place}"
        usual = 1 if place == 0 or "batch" in name else _FREE
        chosen.setdefault(name, sizes.get(name, sizes.get(f"{info.name}.{place}", usual)))
        out.append(chosen[name])
    return tuple(out)


def _walk(summary: Summary, model: Model, plan: Plan, inputs: Mapping[str, Any]) -> None:
    """Cost of each step, and the most bytes that are alive between two."""
    shapes: dict[int, tuple[int, ...]] = {plan.inputs[n]: tuple(s) for n, s in inputs.items()}
    weights = {r.weight: r.shape for r in plain(model) if r.weight}
    live: dict[int, int] = {}
    for step in plan.steps:
        sizes = [_place_shape(place, shapes, weights) for place in step.inputs]
        total = 0
        for slot, shape in zip(step.outputs, step.shapes, strict=False):
            if slot is not None and shape is not None:
                shapes[slot], live[slot] = shape, 4 * math.prod(shape)
                total += live[slot]
        summary.peak = max(summary.peak, sum(live.values()))
        for slot in step.done:
            live.pop(slot, None)
        first = next((s for s in step.shapes if s is not None), ())
        count = _operations(step, sizes, first)
        summary.costs.append(
            NodeCost(step.call.title, step.call.node.op, first, count, total, step.call.node)
        )


def _place_shape(
    place: Any, shapes: Mapping[int, tuple[int, ...]], weights: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...] | None:
    if isinstance(place, Slot):
        return shapes.get(place.index)
    if isinstance(place, Weight):
        return weights.get(place.name)
    return None if place is None else tuple(place.shape)


def _operations(step: Step, sizes: list[tuple[int, ...] | None], result: tuple[int, ...]) -> int:
    """Additions and multiplications of a step, as a rule of thumb: of products, else one each."""
    op, count = step.call.node.op, math.prod(result)
    first = sizes[0] if sizes else None
    if op in _PRODUCTS and first:
        return 2 * count * first[-1]
    second = sizes[1] if len(sizes) > 1 else None
    if op in _CONVOLUTIONS and second:
        if op == "ConvTranspose" and first:
            return 2 * math.prod(first) * math.prod(second[1:])
        return 2 * count * math.prod(second[1:])
    return max([count, *(math.prod(s) for s in sizes if s is not None)])
