"""Encoders of the types with one scale, or a scale and a minimum, for a few dozen elements.

ggml puts the largest element on the end of the range if there is no importance matrix. Here both
cases are fitted by least squares, with weights of one without importance.
"""

from __future__ import annotations

import numpy as np

from rushlight.core.basis.encoding.block import (
    Array,
    Blocks,
    Fields,
    as_f16,
    codes,
    inverse,
    packed,
)
from rushlight.core.basis.encoding.search import ends, fit_line, fit_scale, largest, one_scale


def _weights(b: Blocks, x: Array, unit: Array) -> Array:
    """One, or importance times the fourth root of the mean squares of the row and the element."""
    if b.importance is None or b.rms is None:
        return np.ones_like(x)
    # A block far below its row has the same weights from a point on.
    rms = np.minimum(b.rms.astype(np.float64) * inverse(unit), 1e9).astype(np.float32)
    w = x * x
    w += rms * rms
    np.sqrt(np.sqrt(w, out=w), out=w)
    w *= b.importance
    return w


def _by_scale(b: Blocks, half: int) -> tuple[Array, Array]:
    """The scale, and codes from 0 that stand for -half to half - 1."""
    x, unit = b.unit()
    tops = ends(-half, 0.1, 9)
    d = fit_scale(x, _weights(b, x, unit), tops, lambda q: codes(q, -half, half - 1))
    d = one_scale(b.x, d * unit, np.array([*range(-half, 0), *range(1, half)]))
    return d, (codes(b.x * inverse(d), -half, half - 1) + half).astype(np.uint8)


def _by_line(b: Blocks, most: int) -> tuple[Array, Array, Array]:
    """The scale, the minimum, and codes from 0 to most."""
    x, unit = b.unit()
    tops = [most + i * 0.05 for i in range(-18, 19)]
    d, m = fit_line(x, _weights(b, x, unit), tops, most, signed=True)
    m = as_f16(m * unit)
    # In a block of one value the scale holds what the minimum is short of.
    d = as_f16(np.where(d == 0, b.x[0] - m, d * unit))
    return d, m, codes((b.x - m) * inverse(d), 0, most).astype(np.uint8)


def q4_0(b: Blocks) -> Fields:
    """-8 to 7 times a scale."""
    d, q = _by_scale(b, 8)
    return {"d": d, "qs": packed(q, 1, 4)}


def q4_1(b: Blocks) -> Fields:
    """0 to 15 times a scale, plus a minimum."""
    d, m, q = _by_line(b, 15)
    return {"d": d, "m": m, "qs": packed(q, 1, 4)}


def q5_0(b: Blocks) -> Fields:
    """-16 to 15 times a scale."""
    d, q = _by_scale(b, 16)
    return {"d": d, "qh": packed(q >> 4, 4, 1), "qs": packed(q & 15, 1, 4)}


def q5_1(b: Blocks) -> Fields:
    """0 to 31 times a scale, plus a minimum."""
    d, m, q = _by_line(b, 31)
    return {"d": d, "m": m, "qh": packed(q >> 4, 4, 1), "qs": packed(q & 15, 1, 4)}


def q8_0(b: Blocks) -> Fields:
    """The largest element is 127 or -127."""
    d = as_f16(np.abs(b.x).max(axis=0) / np.float32(127))
    return {"d": d, "qs": codes(b.x * inverse(d), -127, 127)}


def q8_1(b: Blocks) -> Fields:
    """As q8_0, and the sum of the block as the codes give it."""
    fields = q8_0(b)
    return {**fields, "s": as_f16(fields["d"] * fields["qs"].sum(axis=0))}


def q8_k(b: Blocks) -> Fields:
    """The element farthest from zero is -127 times a float32 scale; sums of every 16 codes."""
    x, unit = b.unit()
    d = -largest(x) * np.minimum(unit / np.float32(127), np.float32(2.67e36))
    q = codes(b.x * inverse(d), -127, 127)
    sums = q.reshape(16, 16, -1).sum(axis=1).astype(np.int16)
    low, high = sums & 255, sums >> 8 & 255
    return {"d": d, "qs": q, "bsums": np.stack([low, high], 1).reshape(32, -1)}


def q1_0(b: Blocks) -> Fields:
    """The signs, times the mean magnitude."""
    x, unit = b.unit()
    return {"d": as_f16(np.abs(x).mean(axis=0) * unit), "qs": packed(b.x >= 0, 16, 1)}


def q2_0(b: Blocks) -> Fields:
    """-1 to 2 times a scale."""
    x, unit = b.unit()
    tops = [sign * top / 10 for sign in (1, -1) for top in range(6, 26)]
    d = as_f16(fit_scale(x, _weights(b, x, unit), tops, lambda q: codes(q, -1, 2)) * unit)
    return {"d": d, "qs": packed(codes(b.x * inverse(d), -1, 2) + 1, 16, 2)}


def _ternary(b: Blocks) -> tuple[Array, Array]:
    """The scale and the codes 0 to 2, which stand for -1 to 1, of least error.

    For a set of elements that are not 0 the best scale is their mean magnitude, and the error falls
    by its square times their number. The best set of k is that of the k largest.
    """
    x, unit = b.unit()
    size = np.abs(x)
    order = np.argsort(-size, axis=0)
    ordered_weights = np.take_along_axis(_weights(b, x, unit), order, 0)
    total = np.cumsum(np.take_along_axis(size, order, 0) * ordered_weights, axis=0)
    mean = total * inverse(np.cumsum(ordered_weights, axis=0))
    best = np.argmax(total * mean, axis=0)[None]
    d = as_f16(np.take_along_axis(mean, best, 0)[0] * unit)
    return d, (codes(b.x * inverse(d), -1, 1) + 1).astype(np.uint8)


def tq1_0(b: Blocks) -> Fields:
    """Five digits of base 3 to a byte, as a fraction of 256; the last four bytes hold four."""
    d, q = _ternary(b)

    def fractions(q: Array, digits: int) -> Array:
        """Digits of rows that lie apart, (digits, bytes, blocks), highest first."""
        cut = q.reshape(digits, -1, q.shape[-1]).astype(np.uint16)
        number = np.zeros_like(cut[0])
        for digit in cut:
            number = number * 3 + digit
        number *= 3 ** (5 - digits)
        codes: Array = (number * 256 + 242) // 243  # rounded up, so that no digit is lost
        return codes

    qs = np.concatenate([fractions(q[:160], 5), fractions(q[160:240], 5)])
    return {"d": d, "qs": qs, "qh": fractions(q[240:], 4)}


def tq2_0(b: Blocks) -> Fields:
    """Two bits a code."""
    d, q = _ternary(b)
    return {"d": d, "qs": packed(q, 2, 2)}
