"""Lowerings of elementwise ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu.simd import CODES, Record, library
from rushlight.core.basis.dtype import DTYPES, float32

# These are computed in float32 or in 64-bit integers, for any stored dtype.
PLAIN = frozenset(d for d in CODES if d.kind != "q")
FLOATS = frozenset(d for d in PLAIN if d.kind == "f") - {DTYPES["float64"]}
WHOLE = frozenset(d for d in PLAIN if d.kind != "f")


def apart(inputs: Sequence[Any], out: Any) -> bool:
    """Whether a kernel may write `out` while it reads `inputs`: no overlap, or the first is `out`.

    Also checks that no operand has more dims than messages support.
    """
    result, size = out.storage, out.dtype.itemsize
    for i, x in enumerate(inputs):
        if x is None:
            continue
        if x.storage is result:
            if i or x.layout != out.layout or x.dtype.itemsize != size:
                return False
        elif i and inputs[0].storage is result:  # in place: another operand in the same memory
            a, b = x.storage, result
            if a.address < b.address + b.nbytes and b.address < a.address + a.nbytes:
                return False
        if len(x.layout.shape) > 8:
            return False
    return len(out.layout.shape) <= 8


def _each(name: str, *kinds: frozenset[Any]) -> Any:
    def lower(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
        for kind in kinds:
            if all(x.dtype in kind for x in inputs) and apart(inputs, out):
                return Record(name, (out, *inputs))
        return None

    return lower


def _where(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    good = inputs[0].dtype.kind == "b" and out.dtype in PLAIN and apart(inputs, out)
    return Record("where", (out, *inputs)) if good else None


def _chain(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    assert library is not None
    floats = all(x.dtype is float32 for x in (out, *inputs))
    if not floats or not out.layout.is_contiguous or "chain" not in library.numbers:
        return None
    codes = (n for name, *operands in attrs["steps"] for n in (library.numbers[name], *operands))
    return Record("chain", (out, *inputs), tuple(codes)) if apart(inputs, out) else None


def _add_scaled(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    assert library is not None
    numbers = library.numbers
    floats = all(x.dtype is float32 for x in (out, *inputs))
    if "chain" not in numbers or not floats or not out.layout.is_contiguous:
        return None
    steps = (numbers["mul"], 2, 3, numbers["add"], 1, ~0)
    return Record("chain", (out, *inputs), steps) if apart(inputs, out) else None


# The library lists its elementwise kernels.
_KINDS = {} if library is None else library.kinds
_DTYPES = {"f": FLOATS, "i": WHOLE}
LOWERINGS: dict[str, Any] = {
    **{name: _each(name, *map(_DTYPES.__getitem__, kinds)) for name, kinds in _KINDS.items()},
    "cast": _each("cast", PLAIN),
    "where": _where,
    "chain": _chain,
    "add_scaled": _add_scaled,
}
