"""Takers of the ops that compute each element by itself, or move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu.simd import CODES, Record
from rushlight.core.dtype import DTYPES

# Computed in float32, or in 64-bit integers, whatever they are stored as.
PLAIN = frozenset(d for d in CODES if d.kind != "q")
FLOATS = frozenset(d for d in PLAIN if d.kind == "f") - {DTYPES["float64"]}
WHOLE = frozenset(d for d in PLAIN if d.kind != "f")


def apart(inputs: Sequence[Any], out: Any) -> bool:
    """Whether a kernel may read `inputs` while it writes `out`: apart from it, or the first as out.

    Also whether no operand has more dims than the messages carry.
    """
    mine, size = out.storage, out.dtype.itemsize
    for i, x in enumerate(inputs):
        if x is None:
            continue
        if x.storage is mine:
            if i or x.layout != out.layout or x.dtype.itemsize != size:
                return False
        elif i and inputs[0].storage is mine:  # in place: another array over the same memory
            a, b = x.storage, mine
            if a.address < b.address + b.nbytes and b.address < a.address + a.nbytes:
                return False
        if len(x.layout.shape) > 8:
            return False
    return len(out.layout.shape) <= 8


def _each(name: str, *kinds: frozenset[Any]) -> Any:
    def take(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
        for kind in kinds:
            if all(x.dtype in kind for x in inputs) and apart(inputs, out):
                return Record(name, (out, *inputs))
        return None

    return take


def _where(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    good = inputs[0].dtype.kind == "b" and out.dtype in PLAIN and apart(inputs, out)
    return Record("where", (out, *inputs)) if good else None


_FLOATING = (
    "exp log sqrt rsqrt reciprocal sin cos tanh erf sigmoid silu gelu gelu_tanh floor ceil trunc "
    "round div"
)
_BOTH = (
    "neg abs square relu add sub mul maximum minimum eq ne lt le gt ge logical_and logical_or "
    "logical_xor logical_not isnan isfinite isinf"
)
TAKERS: dict[str, Any] = {
    **{name: _each(name, FLOATS) for name in _FLOATING.split()},
    **{name: _each(name, FLOATS, WHOLE) for name in _BOTH.split()},
    **{name: _each(name, WHOLE) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "cast": _each("cast", PLAIN),
    "where": _where,
}
