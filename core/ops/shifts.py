"""Shifts of integers."""

from __future__ import annotations

from rushlight.core.backends import special
from rushlight.core.ops.binary import bitwise, exchanged

# A shift by all bits, by more or by a negative number leaves 0, or the sign, as in torch.
bitwise_left_shift = bitwise(
    "bitwise_left_shift",
    special.shifted_left,
    {
        "i": "shift_left_i(a, b)",
        "u": "select(a << (b & 31u), 0u, b > 31u)",
        "int64": "shift_left_64(a, b)",
    },
    "a * 2 ** b without the bits that are shifted out.",
    "__lshift__",
    kinds="ui",
)
bitwise_right_shift = bitwise(
    "bitwise_right_shift",
    special.shifted_right,
    {"i": "a >> select(u32(b), 31u, b < 0 || b > 31)", "u": "select(a >> (b & 31u), 0u, b > 31u)"},
    "a / 2 ** b, rounded down.",
    "__rshift__",
    kinds="ui",
)
for _shift in (bitwise_left_shift, bitwise_right_shift):
    _shift.__module__ = __name__  # where their types are looked for


rlshift = exchanged("rlshift", bitwise_left_shift, "<<", "__rlshift__")
rrshift = exchanged("rrshift", bitwise_right_shift, ">>", "__rrshift__")
