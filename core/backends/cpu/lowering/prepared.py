"""Messages of single ops, kept: the same op on the same layouts again needs addresses only."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.lowering import elementwise, movement, record
from rushlight.core.basis.element import DType
from rushlight.core.basis.graph import TensorView


class Prepared(NamedTuple):
    """A message without addresses, and the operand (the result is 0) of each of its buffers."""

    words: array[int]
    places: tuple[int, ...]


_KEPT = 4096  # the most messages of a library
# Their lowerings read dtypes, layouts and attributes, no storage.
_NAMES = frozenset(elementwise.LOWERINGS) | frozenset(movement.LOWERINGS)
# Values that are equal mean the same here; 0.0 and -0.0 are equal too, so floats are left out.
_ATTRS = frozenset({int, bool, str, tuple, type(None), DType})


def message(
    name: str, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]
) -> array[int] | None:
    """The message of an op that writes new memory; None where `record` has to decide.

    Raises what `record` raises.
    """
    library = simd.library
    if library is None or name not in _NAMES:
        return None
    key: list[Any] = [name, out.dtype, out.layout.shape]
    mine = out.storage
    for x in inputs:
        if x is None or x.storage is mine or x.dtype.kind == "q":
            return None
        layout = x.layout
        key += (x.dtype, layout.shape, layout.strides, layout.offset)
    for item in attrs.items():
        if type(item[1]) not in _ATTRS:
            return None
        key.append(item)
    kept: dict[Any, Prepared | None] = library.prepared
    known = tuple(key)
    try:
        found = kept[known]
    except KeyError:
        if len(kept) >= _KEPT:
            kept.clear()
        found = kept[known] = _prepare(library, name, inputs, out, attrs)
    except TypeError:  # an attribute holds something that is not hashable
        return None
    if found is None:
        return None
    words, i = found.words[:], 4
    for place in found.places:
        storage = inputs[place - 1].storage if place else mine
        words[i] = storage.address
        words[i + 1] = storage.buffer.nbytes
        i += 2
    return words


def _prepare(
    library: simd.Library, name: str, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]
) -> Prepared | None:
    # Each operand has a buffer of its own, as if no two shared their memory.
    places = [object() for _ in range(len(inputs) + 1)]
    first, *rest = (TensorView(p, x.layout, x.dtype)
                    for p, x in zip(places, (out, *inputs), strict=True))  # fmt: skip
    found = record(name, rest, first, attrs)
    if found is None:
        return None
    words, used = library.template([found])
    return Prepared(words, tuple(map(places.index, used)))
