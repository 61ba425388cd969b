"""Encoders of the types whose codes are places in a table of numbers."""

from __future__ import annotations

import numpy as np

from rushlight.core.basis import quantized
from rushlight.core.basis.encoding.block import Array, Blocks, Fields, inverse, packed, split
from rushlight.core.basis.encoding.kquants import by_importance
from rushlight.core.basis.encoding.search import fit_parts, fit_scale, one_scale


class _Curve:
    """Sorted whole numbers; the nearest one is looked up by twice the element, rounded down."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        """numbers: by code; of equal ones the first is used."""
        self.reach = 2 * max(map(abs, numbers))
        points = (np.arange(-self.reach, self.reach + 1) + 0.5) / 2
        distance = np.abs(points[:, None] - np.array(numbers))
        self.code = distance.argmin(axis=1).astype(np.uint8)
        self.value = np.array(numbers, np.float32)[self.code]

    def _places(self, y: Array) -> Array:
        """Row of the tables, in place. Elements out of range get the first or last row."""
        y *= 2
        y += np.float32(self.reach)
        np.clip(y, np.float32(0), np.float32(2 * self.reach), out=y)
        return y.astype(np.intp)  # rounds down: all are positive

    def nearest(self, y: Array) -> Array:
        """The nearest numbers, in place."""
        np.take(self.value, self._places(y), out=y, mode="clip")
        return y

    def codes(self, y: Array) -> Array:
        """The codes of the nearest numbers, uint8; y is used up."""
        return np.take(self.code, self._places(y), mode="clip")


_IQ4 = _Curve(quantized._CURVE)
_E2M1 = _Curve(quantized._TWICE_E2M1)
# What the farthest element is mapped to: the table's first number and around it.
_TOPS = [float(quantized._CURVE[0] + i) for i in (0, *range(-7, 0), *range(1, 8))]
_TOPS.append(-_TOPS[0])


def iq4_nl(b: Blocks) -> Fields:
    """A float16 scale."""
    x, unit = b.unit()
    w = x * x
    if b.importance is not None:
        w = np.sqrt(np.sqrt(w + w.mean(axis=0))) * b.importance
    d = fit_scale(x, w, _TOPS, _IQ4.nearest) * unit
    d = one_scale(b.x, d, np.array(quantized._CURVE))
    return {"d": d, "qs": packed(_IQ4.codes(b.x * inverse(d)), 1, 4)}


def iq4_xs(b: Blocks) -> Fields:
    """Eight parts with a signed scale of six bits."""
    x, unit = b.unit()
    w = x * x if b.importance is None else by_importance(x, b.importance, 2)
    d, scales = fit_parts(split(x, 8), split(w, 8), unit, _TOPS, _IQ4.nearest, 32)
    y = b.x.reshape(8, -1, b.x.shape[-1]) * inverse(d * scales)[:, None]
    q = _IQ4.codes(y).reshape(b.x.shape)
    codes = (scales + 32).astype(np.uint8)
    return {
        "d": d, "low": packed(codes & 15, 4, 4), "high": packed(codes >> 4, 2, 2),
        "qs": packed(q, 8, 4),
    }  # fmt: skip


def _least_error(x: Array, w: Array | None, scales: Array) -> tuple[Array, Array]:
    """Which of the scales (candidates, blocks) has the least error: its row, and the codes."""
    best = np.full(x.shape[1], np.inf)
    row = np.zeros(x.shape[1], np.intp)
    for i, d in enumerate(scales):
        back = inverse(d)
        error = x * back
        error -= _E2M1.nearest(x * back)
        with np.errstate(over="ignore"):  # far out of range with every scale
            error *= error
        if w is not None:
            error *= w
        # In float64: a square of a scale may not be a float32.
        errors = error.sum(axis=0).astype(np.float64) * d.astype(np.float64) ** 2
        better = (errors < best) & (d > 0)
        best, row = np.where(better, errors, best), np.where(better, i, row)
    chosen = np.take_along_axis(scales, row[None], 0)[0]
    return row, _E2M1.codes(x * inverse(chosen))


def mxfp4(b: Blocks) -> Fields:
    """A power of two: the one whose range the largest element is in, or the next."""
    most = np.abs(b.x).max(axis=0)
    # most = f * 2^n with f in [0.5, 1): with scale 2^(n - 3) it lies in [4, 8).
    power = np.frexp(most)[1] - 3 + 127
    # Beyond these bounds a scale has no inverse, or its largest code is no float32.
    choices = np.clip(np.stack([power, power + 1]), 3, 252)
    scales = np.ldexp(np.float32(1), choices - 128)
    row, q = _least_error(b.x, b.importance, scales)
    e = np.where(most > 0, np.take_along_axis(choices, row[None], 0)[0], 0)
    return {"e": e, "qs": packed(q, 1, 4)}


# The scales of nvfp4 by code, halved; the last code is no number.
_UE4M3 = np.array(
    [(n & 7) * 2.0**-10 if n < 8 else (n & 7 | 8) * 2.0 ** ((n >> 3) - 11) for n in range(127)],
    np.float32,
)


def nvfp4(b: Blocks) -> Fields:
    """Four parts: the scale that puts the largest element at the end of the range, or one near."""
    cut = split(b.x, 4)
    most = np.abs(cut).max(axis=0)
    near = np.searchsorted(_UE4M3, most / np.float32(12))
    choices = np.clip(np.stack([near + i for i in (0, -1, 1, -2, 2, 3)]), 0, len(_UE4M3) - 1)
    row, q = _least_error(cut, None, _UE4M3[choices])
    d = np.where(most > 0, np.take_along_axis(choices, row[None], 0)[0], 0).reshape(4, -1)
    q = q.reshape(16, 4, -1).swapaxes(0, 1).reshape(b.x.shape)
    return {"d": d, "qs": packed(q, 4, 4)}
