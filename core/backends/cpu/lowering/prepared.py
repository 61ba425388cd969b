"""Messages of single ops, kept: the same op on the same layouts again needs addresses only."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.lowering import elementwise, movement, record
from rushlight.core.backends.memo import Memo
from rushlight.core.basis.graph import TensorView


class Prepared(NamedTuple):
    """A message without addresses, and the operand (the result is 0) of each of its buffers."""

    library: simd.Library
    words: array[int]
    places: tuple[int, ...]
    names: tuple[str]


class _Place:
    """The memory of an operand that no other operand shares."""

    address = nbytes = 0


# Their lowerings read dtypes, layouts and attributes, no storage.
_NAMES = (
    frozenset(elementwise.LOWERINGS)
    | frozenset(movement.LOWERINGS)
    | frozenset("softmax log_softmax layer_norm rms_norm rope window_argmax window_max".split())
)


def run(memo: Memo, name: str, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> bool:
    """Run the op by the message that `memo` keeps; False where `record` has to decide.

    `out` is new memory, or the first input. Raises what `record` and the run raise.
    """
    if inputs and inputs[0] is out and not out.storage.buffer.flags.writeable:
        return False
    prepared: Prepared | bool | None = memo.kept
    if prepared is None:
        prepared = memo.kept = _prepare(name, inputs, out, attrs) or False
    if not prepared or prepared.library is not simd.library:  # type: ignore[union-attr]
        return False
    library, message, places, names = prepared  # type: ignore[misc]
    words, i = message[:], 4
    for p in places:
        storage = inputs[p - 1].storage if p else out.storage
        words[i] = storage.address
        words[i + 1] = storage.buffer.nbytes
        i += 2
    if library.observer is not None:
        library.run(words, names)
    elif code := library.send(words.buffer_info()[0], len(words)):
        library.refuse(code, names)
    return True


def _prepare(
    name: str, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]
) -> Prepared | None:
    library = simd.library
    if library is None or name not in _NAMES:
        return None
    if any(x is not None and x.dtype.kind == "q" for x in inputs):
        return None
    # Each operand has a buffer of its own, as if no two shared their memory, but for a result that
    # is written over the first input.
    places = [_Place() for _ in range(len(inputs) + 1)]
    if inputs and inputs[0] is out:
        places[1] = places[0]
    first, *rest = (
        None if x is None else TensorView(p, x.layout, x.dtype)
        for p, x in zip(places, (out, *inputs), strict=True)
    )
    call = record(name, rest, first, attrs)
    if call is None:
        return None
    words, used = library.template([call])
    return Prepared(library, words, tuple(map(places.index, used)), (name,))
