"""Operators that run graphs: If, Loop, Scan and SequenceMap.

A plan unrolls a loop whose number of turns is known and which is short; others run where values are
there, turn by turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.errors import RushlightError
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import BOOL, FLOAT, INT64, STRING
from rushlight.core.onnx.interpreter import MOST_CALLS, Interpreter, NeedsValue, Scope, Value
from rushlight.core.onnx.proto import Graph, SparseRecord, TensorRecord, ValueInfo
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.ops import empty
from rushlight.core.tensor.tensor import Tensor

_MOST_UNROLLED = 20_000  # nodes of a loop within a plan
Values = list[Value]
_KINDS: dict[Any, Any] = {np.float32: FLOAT, np.int64: INT64, np.object_: STRING}


@operator("Constant", raw=True)
def constant(call: Call) -> Any:
    """The value of the only attribute: a tensor, a sparse one, numbers or strings."""
    for name, dtype, read in (
        ("value_float", np.float32, call.float),
        ("value_floats", np.float32, call.floats),
        ("value_int", np.int64, call.int),
        ("value_ints", np.int64, call.ints),
        ("value_string", np.object_, call.text),
        ("value_strings", np.object_, call.texts),
    ):
        if call.has(name):
            return Value(np.array(read(name), dtype), _KINDS[dtype])
    name = "sparse_value" if call.has("sparse_value") else "value"
    if not call.has(name):
        raise call.fail("there is no value")
    record = call.attributes[name].value
    if not isinstance(record, TensorRecord | SparseRecord):
        raise call.fail(f"the attribute {name!r} is no tensor")
    return call.interpreter.value_of(record)


@operator("If", raw=True)
def run_if(call: Call, condition: Value) -> Any:
    """The outputs of `then_branch` or `else_branch`."""
    run = call.interpreter
    chosen = bool(run.host(condition, f"{call.title}: the condition").reshape(-1)[0])
    branches = call.graph("then_branch"), call.graph("else_branch")
    with run.deeper(call.title):
        return run.graph(branches[0 if chosen else 1], Scope(call.scope))


class _Turns:
    """Counts the turns of a loop. what: the loop, for messages."""

    def __init__(self, call: Call, body: Graph) -> None:
        self.run: Interpreter = call.interpreter
        self.what, self.body, self.begun = call.title, body, call.interpreter.calls

    def check(self, turns: int) -> None:
        """Refuse so many turns before the first of them."""
        nodes = turns * (len(self.body.nodes) + 1)
        if self.run.planning and nodes > _MOST_UNROLLED:
            raise NeedsValue(Value(None), f"{self.what}: {turns} turns are too many for a plan")
        if nodes > MOST_CALLS:
            raise self.run.too_many(self.what)

    def turn(self) -> None:
        """Count one turn."""
        self.run.count(self.what)
        if self.run.planning and self.run.calls - self.begun > _MOST_UNROLLED:
            raise NeedsValue(Value(None), f"{self.what}: its turns are too many for a plan")


def _truth(call: Call, value: Value | None, what: str) -> bool:
    if value is None or value.data is None:
        return True
    array = call.interpreter.host(value, f"{call.title}: {what}")
    if array.size != 1:
        raise call.fail(f"{what} has the shape {array.shape}; it must be one value")
    return bool(array.reshape(-1)[0])


def _goes_on(body: Graph) -> bool:
    """Whether a loop's body passes its condition on as it is."""
    inputs = [i.name for i in body.inputs if i.name not in body.initializers]
    if len(inputs) < 2 or not body.outputs:
        return False
    wanted = body.outputs[0].name
    for node in reversed(body.nodes):
        if wanted in node.outputs:
            if node.op != "Identity" or node.domain or len(node.inputs) != 1:
                return False
            wanted = node.inputs[0]
    return wanted == inputs[1]


@operator("Loop", raw=True)
def loop(call: Call, trips: Value | None = None, cond: Value | None = None, *state: Value) -> Any:
    """The body's state after the last turn, and what each turn gave, stacked."""
    run: Interpreter = call.interpreter
    body = call.graph("body")
    turns = _Turns(call, body)
    most: int | None = None
    if trips is not None and trips.data is not None:
        array = run.host(trips, f"{call.title}: the number of turns")
        if array.size != 1:
            raise call.fail(f"the number of turns has the shape {array.shape}")
        most = int(array.reshape(-1)[0])
    goes = _truth(call, cond, "the condition")
    held: Values = [Value(None) if v is None else v for v in state]
    count = len(body.outputs) - 1 - len(held)
    if count < 0:
        raise call.fail(f"the body has {len(body.outputs)} outputs for a state of {len(held)}")
    rows: list[Values] = [[] for _ in range(count)]
    if goes and _goes_on(body):
        turns.check(MOST_CALLS if most is None else most)
    turn = 0
    with run.deeper(call.title):
        while goes and (most is None or turn < most):
            turns.turn()
            number = Value(np.array(turn, np.int64), INT64)
            truth = Value(np.array(True), BOOL)
            results = run.graph(body, Scope(call.scope), [number, truth, *held])
            goes = _truth(call, results[0], "the condition of the body")
            held = results[1 : 1 + len(held)]
            for row, value in zip(rows, results[1 + len(held) :], strict=True):
                row.append(value)
            turn += 1
        if not turn and rows:
            start = [Value(np.array(0, np.int64), INT64), Value(np.array(True), BOOL), *held]
            shapes = _described(call, body, start)[1 + len(held) :]
            return [*held, *(_empty(shape, 0) for shape in shapes)]
    return [*held, *(_stacked(call, row, 0) for row in rows)]


@operator("Scan", raw=True)
def scan(call: Call, *values: Value) -> Any:
    """The body's state after the last slice, and what each slice gave, stacked."""
    if call.opset < 9:
        return _scan_batches(call, *values)
    axes = call.ints("scan_input_axes", None)
    backward = call.ints("scan_input_directions", None)
    out_axes = call.ints("scan_output_axes", None)
    out_backward = call.ints("scan_output_directions", None)
    return _scan(call, list(values), axes, backward, out_axes, out_backward)


def _scan(
    call: Call,
    values: Values,
    axes: list[int] | None,
    backward: list[int] | None,
    out_axes: list[int] | None,
    out_backward: list[int] | None,
    length: int | None = None,
) -> Values:
    """One scan. length: the slices that it takes, None for all of them."""
    run: Interpreter = call.interpreter
    body = call.graph("body")
    turns = _Turns(call, body)
    scanned = call.int("num_scan_inputs")
    if not 0 < scanned <= len(values) or len(values) - scanned > len(body.outputs):
        raise call.fail(f"num_scan_inputs={scanned} of {len(values)} inputs")
    held, inputs = values[: len(values) - scanned], values[len(values) - scanned :]
    count = len(body.outputs) - len(held)
    axes = _per(call, "scan_input_axes", axes, scanned)
    backward = _per(call, "scan_input_directions", backward, scanned)
    out_axes = _per(call, "scan_output_axes", out_axes, count)
    out_backward = _per(call, "scan_output_directions", out_backward, count)
    sizes = {_size(call, v, axis) for v, axis in zip(inputs, axes, strict=True)}
    if len(sizes) != 1:
        raise call.fail(f"the scanned inputs have {sorted(sizes)} slices")
    total = sizes.pop()
    wanted = total if length is None else length
    turns.check(wanted)
    slices = [_slices(call, v, a) for v, a in zip(inputs, axes, strict=True)] if wanted else []
    rows: list[Values] = [[] for _ in range(count)]
    with run.deeper(call.title):
        for turn in range(wanted):
            turns.turn()
            chosen = [
                s[wanted - 1 - turn if back else turn]
                for s, back in zip(slices, backward, strict=True)
            ]
            results = run.graph(body, Scope(call.scope), [*held, *chosen])
            held = results[: len(held)]
            for row, value in zip(rows, results[len(held) :], strict=True):
                row.append(value)
        if not wanted:
            start = [*held, *(_slice_shape(v, a) for v, a in zip(inputs, axes, strict=True))]
            shapes = _described(call, body, start)[len(held) :]
            return [*held, *(_empty(s, a) for s, a in zip(shapes, out_axes, strict=True))]
    made = zip(rows, out_axes, out_backward, strict=True)
    return [*held, *(_stacked(call, r[::-1] if back else r, axis) for r, axis, back in made)]


def _scan_batches(call: Call, lengths: Value | None = None, *values: Value) -> Any:
    """Scan of opset 8: the first dim is a batch, of which each item has a length of its own."""
    directions = call.ints("directions", None)
    scanned = call.int("num_scan_inputs")
    if not 0 < scanned <= len(values):
        raise call.fail(f"num_scan_inputs={scanned} of {len(values)} inputs")
    batch, longest = _size(call, values[0], 0), _size(call, values[-1], 1)
    known: list[int] = [longest] * batch
    if lengths is not None and lengths.data is not None:
        array = call.interpreter.host(lengths, f"{call.title}: the lengths")
        known = [int(n) for n in array.reshape(-1)]
    if len(known) != batch or not all(0 <= n <= longest for n in known):
        raise call.fail(f"the lengths do not fit {batch} items of at most {longest} slices")
    items = [_slices(call, v, 0) for v in values]
    if not batch or {len(item) for item in items} != {batch}:
        raise call.fail(f"the batches of its inputs are {[len(i) for i in items]}")
    outcomes = []
    states = len(values) - scanned
    for i, length in enumerate(known):
        results = _scan(call, [item[i] for item in items], None, directions, None, None, length)
        rows = [_padded(call, v, longest) if length < longest else v for v in results[states:]]
        outcomes.append([*results[:states], *rows])
    return [_stacked(call, list(row), 0) for row in zip(*outcomes, strict=True)]


@operator("SequenceMap", raw=True)
def sequence_map(call: Call, sequence: Value, *others: Value) -> Any:
    """For each output of the body a sequence of what it gives for each item."""
    run: Interpreter = call.interpreter
    body = call.graph("body")
    if not isinstance(sequence.data, list):
        raise call.fail("the first input is no sequence")
    count = len(sequence.data)
    turns = _Turns(call, body)
    turns.check(count)
    for value in others:
        if isinstance(value.data, list) and len(value.data) != count:
            raise call.fail(f"sequences of {count} and {len(value.data)} items")
    columns: list[Values] = [[] for _ in body.outputs]
    with run.deeper(call.title):
        for i in range(count):
            turns.turn()
            items = [v.data[i] if isinstance(v.data, list) else v for v in (sequence, *others)]
            for column, value in zip(
                columns, run.graph(body, Scope(call.scope), items), strict=True
            ):
                column.append(value)
    kinds = [i.type.kind if i.type is not None else None for i in body.outputs]
    return [
        Value(column, column[0].kind if column else kind)
        for column, kind in zip(columns, kinds, strict=True)
    ]


def _per(call: Call, name: str, numbers: list[int] | None, count: int) -> list[int]:
    numbers = [0] * count if numbers is None else numbers
    if len(numbers) != count:
        raise call.fail(f"{name} has {len(numbers)} numbers for {count}")
    return numbers


def _shape_of(call: Call, value: Value) -> tuple[int, ...]:
    if not isinstance(value.data, Tensor | np.ndarray):
        raise call.fail(f"an input is no tensor but a {type(value.data).__name__}")
    return value.shape


def _axis(call: Call, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise call.fail(f"dim {axis} is out of range for {ndim} dims")
    return axis % ndim


def _size(call: Call, value: Value, axis: int) -> int:
    shape = _shape_of(call, value)
    return shape[_axis(call, axis, len(shape))]


def _slices(call: Call, value: Value, axis: int) -> Values:
    """The slices of a tensor along a dim, without it."""

    def unbind(inner: Call, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return [np.asarray(piece) for piece in np.moveaxis(x, axis, 0)]
        return list(rl.unbind(x, axis))

    if not _size(call, value, axis):
        return []
    return [v for v in call.interpreter.apply(call, unbind, [value]) if v is not None]


def _stacked(call: Call, row: Values, axis: int) -> Value:
    """The values of the turns along a new dim."""

    def stack(inner: Call, *pieces: Any) -> Any:
        if isinstance(pieces[0], np.ndarray):
            return np.stack(pieces, axis)
        return rl.stack(list(pieces), axis)

    return call.interpreter.apply(call, stack, list(row))[0]  # type: ignore[no-any-return]


def _padded(call: Call, value: Value, longest: int) -> Value:
    """A value of fewer rows with zeros up to `longest`."""

    def pad(inner: Call, x: Any) -> Any:
        rest = rl.zeros((longest - x.shape[0], *x.shape[1:]), dtype=x.dtype, device=x.device)
        return rl.cat([x, rest], 0)

    return call.interpreter.apply(call, pad, [value])[0]  # type: ignore[no-any-return]


# Shapes of what no turn has made.


class _Shapes(Scope):
    """A scope whose tensors are those of another, without memory."""

    def find(self, name: str) -> Value | None:
        """What a name stands for, None for an unknown one."""
        if name in self.names:
            return self.names[name]
        value = self.outer.find(name) if self.outer is not None else None
        return None if value is None else _shape_only(value)


def _shape_only(value: Value) -> Value:
    if isinstance(value.data, list):
        return Value([_shape_only(v) for v in value.data], value.kind)
    if not isinstance(value.data, Tensor):
        return value
    return Value(empty(value.shape, dtype=value.data.dtype, device="meta"), value.kind, value.known)


def _slice_shape(value: Value, axis: int) -> Value:
    shape = list(value.shape)
    del shape[axis]
    if isinstance(value.data, Tensor):
        return Value(empty(tuple(shape), dtype=value.data.dtype, device="meta"), value.kind)
    return Value(np.zeros(shape, value.data.dtype), value.kind)


def _described(call: Call, body: Graph, inputs: Values) -> Values:
    """What the outputs of a body are like, without a run: by its shapes, else as it declares."""
    run: Interpreter = call.interpreter
    shapes = Interpreter(run.model, lambda record: _shape_only(run.constant(record)), "meta")
    shapes.opsets, shapes.given, shapes.depth = run.opsets, run.given, run.depth
    try:
        return shapes.graph(body, _Shapes(call.scope), [_shape_only(v) for v in inputs])
    except (NeedsValue, RushlightError):
        return [_declared(call, info) for info in body.outputs]


def _declared(call: Call, info: ValueInfo) -> Value:
    kind = info.type
    if kind is None or kind.form != "tensor" or kind.kind is None:
        raise call.fail(f"no turn runs, and {info.name!r} of the body has no declared type")
    shape = [n if isinstance(n, int) else 0 for n in kind.shape or ()]
    if kind.kind is STRING:
        return Value(np.zeros([0, *shape], np.object_)[:0].reshape(0, *shape), STRING)
    return Value(empty(tuple(shape), dtype=kind.kind.carried, device="meta"), kind.kind)


def _empty(value: Value, axis: int) -> Value:
    """The stack of no values of this shape."""
    shape = list(value.shape)
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    name = value.data.dtype if isinstance(value.data, np.ndarray) else value.data.dtype.name
    return Value(np.zeros(shape, name), value.kind)
