"""Lowerings of random numbers: Philox words on the device, equal to those on cpu."""

from __future__ import annotations

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, bits, word
from rushlight.core.backends.webgpu.lowering.map import emit_map
from rushlight.core.basis.dtype import int64

# As many bits as the dtype holds exactly: more would round up to 1.
_UNIFORM_BITS = {"float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}

# Where kernels of these labels have seed and offset among their parameters: four words.
STATE_AT = 16
STATEFUL = frozenset({"rand", "randn", "randint"})


def _state(attrs: Attrs) -> list[int]:
    seed, offset = attrs["seed"], attrs["offset"]
    return [word(seed), word(seed >> 32), word(offset), word(offset >> 32)]


def rand(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Uniform numbers in [0, 1) from the top bits of a word each."""
    count = _UNIFORM_BITS.get(out.dtype.name, 24)
    value = "f32(drawn_word(i) >> P(6u)) * F(7u)"
    emit_map(e, value, [], out, "rand", extra=[32 - count, bits(2.0**-count)], more=_state(attrs))


def randn(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Normal numbers from two words each."""
    emit_map(e, "drawn_normal(i)", [], out, "randn", more=_state(attrs))


def randint(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Integers low <= n < high: a word each, scaled by the high half of a product."""
    low, high = attrs["low"], attrs["high"]
    if out.dtype is int64 and not -(2**31) <= low <= high - 1 < 2**31:
        raise OverflowError(
            f"randint: [{low}, {high}) is beyond the 32 bits that webgpu holds int64 in; give "
            "dtype=rl.uint32, or draw on cpu"
        )
    scaled = "drawn_word(i)" if high - low == 2**32 else "wide_product(drawn_word(i), P(6u)).y"
    kind = access.value_type(out.dtype)
    value = {
        "u32": f"{scaled} + P(7u)",
        "i32": f"bitcast<i32>({scaled} + P(7u))",
        "f32": f"f32({scaled} + P(7u))" if low >= 0 else f"f32(bitcast<i32>({scaled} + P(7u)))",
    }[kind]
    emit_map(e, value, [], out, "randint", extra=[word(high - low), word(low)], more=_state(attrs))


LOWERINGS = {"rand": rand, "randn": randn, "randint": randint}
