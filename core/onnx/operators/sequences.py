"""Sequences and optionals: values that hold tensors, known in number when a plan is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import BOOL, FLOAT, INT64, element_type
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.proto import ValueType
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.tensor.tensor import Tensor

_MOST_ITEMS = 1 << 16  # of a sequence


def _items(call: Call, sequence: Value | None) -> list[Value]:
    if sequence is None or not isinstance(sequence.data, list):
        raise call.fail("its input is no sequence")
    return sequence.data


def _made(call: Call, items: list[Value], kind: Any) -> Value:
    if len(items) > _MOST_ITEMS:
        raise call.fail(f"a sequence of {len(items)} items; at most {_MOST_ITEMS}")
    return Value(items, kind)


def _place(call: Call, position: Value, count: int, last: int) -> int:
    """The place that a position says, from the end if it is negative; at most `last`."""
    array = call.interpreter.host(position, f"{call.title}: the position")
    if array.size != 1:
        raise call.fail(f"the position has the shape {array.shape}")
    place = int(array.reshape(-1)[0])
    if not -count <= place <= last:
        raise call.fail(f"the position {place} is out of range for {count} items")
    return place + count if place < 0 else place


@operator("SequenceConstruct", raw=True)
def sequence_construct(call: Call, *items: Value) -> Any:
    """A sequence of the inputs."""
    if any(v is None or not isinstance(v.data, Tensor | np.ndarray) for v in items):
        raise call.fail("a sequence is made of tensors")
    return _made(call, list(items), items[0].kind if items else None)


@operator("SequenceEmpty", raw=True)
def sequence_empty(call: Call) -> Any:
    """A sequence without items, of tensors of a dtype."""
    return Value([], element_type(call.int("dtype", FLOAT.number), call.title))


@operator("SequenceInsert", raw=True)
def sequence_insert(call: Call, sequence: Value, item: Value, position: Any = None) -> Any:
    """The sequence with a tensor at a position, at the end without one."""
    items = list(_items(call, sequence))
    if not isinstance(item.data, Tensor | np.ndarray):
        raise call.fail("what is inserted is no tensor")
    place = len(items)
    if position is not None and position.data is not None:
        place = _place(call, position, len(items), len(items))
    items.insert(place, item)
    return _made(call, items, sequence.kind or item.kind)


@operator("SequenceErase", raw=True)
def sequence_erase(call: Call, sequence: Value, position: Value | None = None) -> Any:
    """The sequence without the item at a position, without the last if there is none."""
    items = list(_items(call, sequence))
    if not items:
        raise call.fail("the sequence is empty")
    place = len(items) - 1
    if position is not None and position.data is not None:
        place = _place(call, position, len(items), len(items) - 1)
    del items[place]
    return _made(call, items, sequence.kind)


@operator("SequenceAt", raw=True)
def sequence_at(call: Call, sequence: Value, position: Value) -> Any:
    """The item at a position."""
    items = _items(call, sequence)
    return items[_place(call, position, len(items), len(items) - 1)]


@operator("SequenceLength", raw=True)
def sequence_length(call: Call, sequence: Value) -> Any:
    """How many items there are."""
    return Value(np.array(len(_items(call, sequence)), np.int64), INT64)


@operator("ConcatFromSequence", raw=True)
def concat_from_sequence(call: Call, sequence: Value) -> Any:
    """The items along a dim, or along a new one."""
    items = _items(call, sequence)
    axis, new = call.int("axis"), call.flag("new_axis")
    if not items:
        raise call.fail("the sequence is empty")

    def join(inner: Call, *tensors: Any) -> Any:
        if isinstance(tensors[0], np.ndarray):
            return np.stack(tensors, axis) if new else np.concatenate(tensors, axis)
        return rl.stack(list(tensors), axis) if new else rl.cat(list(tensors), axis)

    return call.interpreter.apply(call, join, list(items))


@operator("SplitToSequence", raw=True)
def split_to_sequence(call: Call, x: Value, split: Value | None = None) -> Any:
    """The pieces of a tensor along a dim: of given sizes, or slices of one."""
    if not isinstance(x.data, Tensor | np.ndarray):
        raise call.fail("its input is no tensor")
    ndim, axis = len(x.shape), call.int("axis", 0)
    if not -ndim <= axis < ndim:
        raise call.fail(f"axis={axis} is out of range for {ndim} dims")
    size, axis = x.shape[axis], axis % ndim
    whole = split is None or split.data is None
    squeezed = not call.flag("keepdims", True) and whole
    sizes: list[int] = []
    width = 1
    if split is not None and split.data is not None:
        array = call.interpreter.host(split, f"{call.title}: the sizes")
        if array.ndim:
            sizes = [int(n) for n in array.reshape(-1)]
            if sum(sizes) != size or min(sizes, default=0) < 0:
                raise call.fail(f"the sizes {sizes[:8]} do not make {size}")
        else:
            width = int(array)
    if width < 1 or size > _MOST_ITEMS * width:
        raise call.fail(f"{size} in pieces of {width}; at most {_MOST_ITEMS} pieces")
    if not sizes:
        sizes = [min(width, size - start) for start in range(0, size, width)]

    def cut(inner: Call, tensor: Any) -> Any:
        if isinstance(tensor, np.ndarray):
            pieces = np.split(tensor, np.cumsum(sizes)[:-1], axis)
            return [p.squeeze(axis) if squeezed else p for p in pieces]
        pieces, start = [], 0
        for n in sizes:
            pieces.append(tensor.narrow(axis, start, n))
            start += n
        return [p.squeeze(axis) if squeezed else p for p in pieces]

    pieces = call.interpreter.apply(call, cut, [x]) if sizes else []
    return _made(call, pieces, x.kind)


@operator("Optional", raw=True)
def optional(call: Call, value: Value | None = None) -> Any:
    """The input as an optional; without one, an optional of a type that has no value."""
    if value is not None:
        call.ignore("type")
        return value
    kind = call.attributes["type"].value if call.has("type") else None
    while isinstance(kind, ValueType) and kind.form in ("optional", "sequence"):
        kind = kind.inner
    return Value(None, kind.kind if isinstance(kind, ValueType) else None)


@operator("OptionalGetElement", raw=True)
def optional_get_element(call: Call, value: Value | None = None) -> Any:
    """What an optional holds."""
    if value is None or value.data is None:
        raise call.fail(
            "the optional has no value", hint="OptionalHasElement tells whether there is one"
        )
    return value


@operator("OptionalHasElement", raw=True)
def optional_has_element(call: Call, value: Value | None = None) -> Any:
    """Whether an optional has a value."""
    return Value(np.array(value is not None and value.data is not None), BOOL)
