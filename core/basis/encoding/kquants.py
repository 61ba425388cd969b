"""Encoders of the k-quants: blocks of 256 whose parts have small scales of a common scale.

The parts are fitted first, then their scales, and the codes last, against the scales as they are
stored. Weights are those of llama.cpp (quantize_row_q2_K_impl and its like), but for q3_k without
importance: the magnitude instead of its square, which has less error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.core.basis.encoding.block import Array, Blocks, Fields, codes, inverse, packed, split
from rushlight.core.basis.encoding.search import (
    choose_lines,
    ends,
    fit_line,
    fit_parts,
    kept_scale,
    share_scale,
)

_PLAIN = {2: (-0.5, 15), 4: (-1.0, 20), 5: (-0.5, 15)}  # by bits: first top and steps of 0.1


def by_importance(x: Array, importance: Array, factor: float) -> Array:
    """importance * sqrt(factor * mean square of the block + x^2)."""
    w = x * x
    w += np.float32(factor) * w.mean(axis=0)
    np.sqrt(w, out=w)
    w *= importance
    return w


def _lines(b: Blocks, parts: int, bits: int, steps: int) -> tuple[Array, ...]:
    """Blocks of parts with scale and minimum: d, dmin, scales, minima and codes.

    steps: the largest code of a scale.
    """
    most = (1 << bits) - 1
    x, unit = b.unit()
    cut = split(x, parts)
    weight = None
    if b.importance is None:
        start, count = _PLAIN[bits]
        tops = [most + start + i * 0.1 for i in range(count + 1)]
        w = np.abs(cut)
        if bits > 2:
            w += np.sqrt((cut * cut).mean(axis=0))
    else:
        tops = [most - 0.9 + i * 0.05 for i in range(37)]
        w = split(by_importance(x, b.importance, 1 if bits == 2 else 2), parts)
        weight = w.sum(axis=0).reshape(parts, -1)
    scale, least = (line.reshape(parts, -1) for line in fit_line(cut, w, tops, most))
    least = np.maximum(-least, 0)
    d = kept_scale(share_scale(scale, weight, steps), unit, scale, steps)
    dmin = kept_scale(share_scale(least, weight, steps), unit, least, steps)
    back = inverse(unit)
    small, smin = d * back, dmin * back
    scales = codes(scale * inverse(small), 0, steps)
    minima = codes(least * inverse(smin), 0, steps)
    scales, minima = choose_lines(cut, w, small, scales, smin, minima, steps, most)
    y = b.x.reshape(parts, -1, b.x.shape[-1]) + (dmin * minima)[:, None]
    y *= inverse(d * scales)[:, None]
    q = codes(y, 0, most).astype(np.uint8).reshape(b.x.shape)
    return d, dmin, scales.astype(np.uint8), minima.astype(np.uint8), q


def _scaled(b: Blocks, d: Array, scales: Array, least: int, most: int) -> Array:
    """Codes from 0, which stands for `least`, of parts with a scale."""
    y = b.x.reshape(len(scales), -1, b.x.shape[-1]) * inverse(d * scales)[:, None]
    return (codes(y, least, most) - np.float32(least)).astype(np.uint8).reshape(b.x.shape)


def q2_k(b: Blocks) -> Fields:
    """16 parts with scale and minimum of four bits."""
    d, dmin, scales, minima, q = _lines(b, 16, 2, 15)
    return {"d": d, "dmin": dmin, "scales": scales | minima << 4, "qs": packed(q, 2, 2)}


def _six_bits(scales: Array, minima: Array) -> Array:
    """Eight scales and eight minima of six bits in 12 bytes: (12, blocks)."""
    first = [six[:4] | six[4:] >> 4 << 6 for six in (scales, minima)]
    return np.concatenate([*first, scales[4:] & 15 | (minima[4:] & 15) << 4])


def q4_k(b: Blocks) -> Fields:
    """Eight parts with scale and minimum of six bits."""
    d, dmin, scales, minima, q = _lines(b, 8, 4, 63)
    return {"d": d, "dmin": dmin, "scales": _six_bits(scales, minima), "qs": packed(q, 4, 4)}


def q5_k(b: Blocks) -> Fields:
    """As q4_k, with fifth bits."""
    d, dmin, scales, minima, q = _lines(b, 8, 5, 63)
    return {
        "d": d, "dmin": dmin, "scales": _six_bits(scales, minima),
        "qh": packed(q >> 4, 1, 1), "qs": packed(q & 15, 4, 4),
    }  # fmt: skip


def _halfway(bits: int) -> tuple[list[float], Callable[[Array], Array]]:
    """Tops and rounding of codes with a sign."""
    half = 1 << bits - 1
    return ends(-half, 0.1, 9), lambda q: codes(q, -half, half - 1)


def q3_k(b: Blocks) -> Fields:
    """16 parts with a signed scale of six bits."""
    x, unit = b.unit()
    w = np.abs(x) if b.importance is None else by_importance(x, b.importance, 2)
    w = split(w, 16)
    weighted = b.importance is not None
    d, scales = fit_parts(split(x, 16), w, unit, *_halfway(3), 32, weighted)
    q = _scaled(b, d, scales, -4, 3)
    codes = (scales + 32).astype(np.uint8)
    low, high = packed(codes & 15, 1, 4), packed(codes >> 4, 1, 2)
    return {
        "d": d, "scales": np.concatenate([low, high]),
        "qs": packed(q & 3, 2, 2), "hmask": packed(q >> 2, 1, 1),
    }  # fmt: skip


def q6_k(b: Blocks) -> Fields:
    """16 parts with a signed scale of eight bits."""
    x, unit = b.unit()
    w = split(x * x if b.importance is None else b.importance, 16)
    d, scales = fit_parts(split(x, 16), w, unit, *_halfway(6), 128)
    q = _scaled(b, d, scales, -32, 31)
    return {
        "d": d, "scales": scales, "ql": packed(q & 15, 2, 4), "qh": packed(q >> 4, 2, 2)
    }  # fmt: skip
