"""Searches for the scales of blocks: least squares from a grid of starting scales.

The weighted error of a block is sum w (x - d q - m)^2. For given codes q the best scale d and
minimum m are a linear least-squares fit; for given d and m the best codes are the nearest ones. A
search begins with codes of several scales, which put the largest element a little within or beyond
the end of the range, and keeps the best fit. The grids are those of ggml's make_qx_quants,
make_qkx2_quants and make_qp_quants (llama.cpp, ggml-quants.c).

Every function takes element-major arrays of float32, (elements, blocks), and fits all blocks at
once. `w` are positive weights of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from rushlight.core.basis.encoding.block import Array, as_f16, codes, inverse

Nearest = Callable[[Array], Array]
# A fit must be better by more than the rounding of the sums, so that equal blocks are fitted alike.
_ROUNDING = np.float32(4e-6)


def largest(x: Array) -> Array:
    """The element of each block that is farthest from zero, with its sign."""
    most, least = x.max(axis=0), x.min(axis=0)
    extremes: Array = np.where(most >= -least, most, least)
    return extremes


def ends(top: float, step: float, count: int) -> list[float]:
    """Where the largest element may lie in the range of codes: `top`, then around it."""
    around = [top + i * step for i in range(-count, count + 1) if i]
    return [top, *around]


def fit_scale(x: Array, w: Array, tops: Iterable[float], nearest: Nearest, again: int = 1) -> Array:
    """The scales d (blocks,) of the fit x = d q that are best of those found.

    tops: what the element farthest from zero is mapped to. nearest: rounds an array to codes, in
    place. again: how often the best fit is fitted anew to its nearest codes.
    """
    pivot = largest(x)
    y = x * inverse(pivot)
    wy = w * y
    best = np.zeros_like(pivot)
    d = np.zeros_like(pivot)
    q, t = np.empty_like(y), np.empty_like(y)
    for start in [*map(np.float32, tops), *[None] * again]:
        nearest(np.multiply(y, inverse(d) if start is None else start, out=q))
        yq = np.multiply(wy, q, out=t).sum(axis=0)
        np.multiply(w, q, out=t)
        qq = np.multiply(t, q, out=t).sum(axis=0)
        fit = yq * inverse(qq)
        gain = fit * yq
        better = gain > best * (1 + _ROUNDING)
        best = np.where(better, gain, best)
        d = np.where(better, fit, d)
    return d * pivot


def fit_line(
    x: Array, w: Array, tops: Iterable[float], most: int, again: int = 1, signed: bool = False
) -> tuple[Array, Array]:
    """The scales d and minima m (blocks,) of the fit x = d q + m, for q from 0 to `most`.

    tops: what the largest element is mapped to, with the smallest at 0. again: as in `fit_scale`.
    signed: whether m may be positive.
    """
    low = x.min(axis=0)
    if not signed:
        low = np.minimum(low, np.float32(0))
    span = x.max(axis=0) - low
    back = inverse(span)
    y = (x - low) * back  # from 0 to 1
    zero = -low * back  # where x is 0
    limit = np.full_like(low, np.inf) if signed else zero
    sw = w.sum(axis=0)
    share = inverse(sw)
    mean = np.multiply(w, y).sum(axis=0) * share
    # Sums are taken about the means, so that little is lost where one weight outdoes the others.
    wy = y - mean
    wy *= w
    d, m, best = np.zeros_like(low), np.zeros_like(low), np.full_like(low, -np.inf)
    q, wq, t = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    for start in [*map(np.float32, tops), *[None] * again]:
        if start is None:
            scale = inverse(d)
            np.multiply(y, scale, out=q)
            q -= m * scale
            middle = (mean - m) * scale
        else:
            np.multiply(y, start, out=q)
            middle = mean * start
        codes(q, 0, most)
        np.clip(np.rint(middle, out=middle), np.float32(0), np.float32(most), out=middle)
        q -= middle
        sq = np.multiply(w, q, out=wq).sum(axis=0)
        sqq = np.multiply(wq, q, out=t).sum(axis=0)
        syq = np.multiply(wy, q, out=t).sum(axis=0)
        # Codes that are all the same tell nothing of the slope.
        spread = sqq - sq * sq * share
        over = inverse(np.where(spread > np.float32(1e-6) * sqq, spread, np.float32(0)))
        scale = syq * over
        least = mean - scale * (sq * share + middle)
        gain = scale * syq
        bound = (least > limit) | (over == 0)
        if bound.any():
            bounded = np.where(np.isfinite(limit), limit, np.float32(0))
            sqq += middle * (2 * sq + middle * sw)
            sq += middle * sw
            syq += (mean - bounded) * sq
            fit = syq * inverse(sqq)
            scale, least = np.where(bound, fit, scale), np.where(bound, bounded, least)
            gain = np.where(bound, fit * syq - sw * (mean - bounded) ** 2, gain)
        better = gain > best + sw * _ROUNDING / 8
        best = np.where(better, gain, best)
        d = np.where(better, scale, d)
        m = np.where(better, least, m)
    return d * span, m * span + low


def share_scale(scales: Array, w: Array | None, top: int) -> Array:
    """The scale of scales (count, blocks) that are not negative: (blocks,).

    The largest is mapped to `top`; with weights w, to a place near it by least squares.
    """
    if w is None:
        scale: Array = scales.max(axis=0) / np.float32(top)
        return scale
    return fit_scale(scales, w, ends(top, 0.1, 9), lambda q: codes(q, 0, top), 3)


def share_signed(scales: Array, w: Array | None, top: int) -> Array:
    """The scale of scales (count, blocks) of either sign: the farthest from 0 is mapped to -top."""
    if w is None:
        scale: Array = largest(scales) / np.float32(-top)
        return scale
    return fit_scale(scales, w, ends(-top, 0.1, 9), lambda q: codes(q, -top, top - 1), 3)


def kept_scale(d: Array, unit: Array, scales: Array, top: int) -> Array:
    """d times unit as float16 (blocks,); top: the code that the largest of the scales has.

    Where all scales (count, blocks) are the same any code will do for them. Then it is that whose
    scale float16 holds best.
    """
    d = d * unit
    same = np.flatnonzero(np.ptp(scales, axis=0) <= _ROUNDING * np.abs(scales[0]))
    if same.size:
        d[same] = best_in_f16(d[same] * np.float32(top), np.sign(top) * np.arange(1, abs(top) + 1))
    return as_f16(d)


def one_scale(x: Array, d: Array, codes: Array) -> Array:
    """The scales d (blocks,) of blocks x as float16; for a block of one value the best one.

    codes: the numbers, not 0, that a scale is multiplied by.
    """
    same = np.flatnonzero((x == x[0]).all(axis=0))
    if same.size:
        d[same] = best_in_f16(x[0, same], codes)
    return as_f16(d)


def best_in_f16(values: Array, divisors: Array) -> Array:
    """values (n,) each by the divisor whose quotient float16 holds with the least error."""
    best, chosen = np.full_like(values, np.inf), values
    for divisor in divisors.astype(np.float32):
        quotient = values / divisor
        error = np.abs(as_f16(quotient) * divisor - values)
        better = error < best
        best, chosen = np.where(better, error, best), np.where(better, quotient, chosen)
    return chosen


def choose_scales(
    x: Array, w: Array, d: Array, scales: Array, nearest: Nearest, least: int, most: int
) -> Array:
    """The codes of scales (parts, blocks), or those one less or more where the error is less.

    x, w: (elements, parts * blocks), of d (blocks,) times a code of a scale times a code.
    """
    best, chosen = np.full(x.shape[1], np.inf, np.float32), scales
    q = np.empty_like(x)
    for step in (0, -1, 1):
        tried = np.clip(scales + np.float32(step), least, most)
        scale = (d * tried).reshape(-1)
        nearest(np.multiply(x, inverse(scale), out=q))
        q *= scale
        q -= x
        best, better = _less(q, w, best)
        chosen = np.where(better.reshape(scales.shape), tried, chosen)
    return chosen


def fit_parts(
    x: Array,
    w: Array,
    unit: Array,
    tops: Iterable[float],
    nearest: Nearest,
    steps: int,
    weighted: bool = False,
) -> tuple[Array, Array]:
    """Blocks of parts with a signed scale: d as float16 (blocks,), codes of scales (parts, blocks).

    x, w: (elements, parts * blocks), of blocks divided by `unit`. steps: codes of scales go from
    -steps to steps - 1. weighted: whether d is fitted with the parts' weights.
    """
    scale = fit_scale(x, w, tops, nearest).reshape(-1, len(unit))
    weight = w.sum(axis=0).reshape(scale.shape) if weighted else None
    d = kept_scale(share_signed(scale, weight, steps), unit, scale, -steps)
    small = d * inverse(unit)
    first = codes(scale * inverse(small), -steps, steps - 1)
    return d, choose_scales(x, w, small, first, nearest, -steps, steps - 1)


def choose_lines(
    x: Array, w: Array, d: Array, scales: Array, dmin: Array, minima: Array, steps: int, most: int
) -> tuple[Array, Array]:
    """As `choose_scales`, of the codes of scales and of minima, which go up to `steps`.

    An element is d times a scale times a code from 0 to most, less dmin times a minimum.
    """
    best, chosen = np.full(x.shape[1], np.inf, np.float32), (scales, minima)
    q, y = np.empty_like(x), np.empty_like(x)
    for down in (0, -1, 1):
        lower = np.clip(minima + np.float32(down), 0, steps)
        np.add(x, (dmin * lower).reshape(-1), out=y)
        for step in (0, -1, 1):
            tried = np.clip(scales + np.float32(step), 0, steps)
            scale = (d * tried).reshape(-1)
            codes(np.multiply(y, inverse(scale), out=q), 0, most)
            q *= scale
            q -= y
            best, better = _less(q, w, best)
            better = better.reshape(scales.shape)
            chosen = np.where(better, tried, chosen[0]), np.where(better, lower, chosen[1])
    return chosen


def _less(error: Array, w: Array, best: Array) -> tuple[Array, Array]:
    """The lesser of best and the weighted squares' sums, and where it is these; error is used."""
    error *= error
    error *= w
    total = error.sum(axis=0)
    better = total < best
    return np.where(better, total, best), better
