"""Discrete Fourier transforms, windows, and mel filters."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional import declared as rl
from rushlight.core.functional import fft
from rushlight.core.functional.creation import of_data
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import element_type
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.ops.complex import FFT

Array = npt.NDArray[Any]
_WHOLE = 512  # the longest transform that is one product
_LONGEST = 1 << 13  # the longest factor of a length


@lru_cache(32)
def _circle(rows: int, columns: int, n: int) -> tuple[Array, Array]:
    """cos and sin of -2 pi j k / n, (rows, columns)."""
    # Whole turns are left out before the product grows inexact.
    turns = np.outer(np.arange(rows), np.arange(columns)) % n
    angles = -2 * np.pi * turns / n
    return np.cos(angles), np.sin(angles)


def _tensors(values: tuple[Array, Array], x: Any, sign: int) -> tuple[Any, Any]:
    cos, sin = (of_data(v, dtype=x.dtype, device=x.device) for v in values)
    return cos, sin if sign > 0 else -sin


def _multiplied(re: Any, im: Any, cos: Any, sin: Any, how: Any) -> tuple[Any, Any]:
    """The product `how` of complex numbers; im is None for real ones."""
    if im is None:
        return how(re, cos), how(re, sin)
    return how(re, cos) - how(im, sin), how(re, sin) + how(im, cos)


def _factor(n: int) -> int:
    """The largest factor of n up to its root."""
    return max(a for a in range(1, int(np.sqrt(n)) + 1) if n % a == 0)


def _fast(re: Any, im: Any, sign: int) -> Any:
    """The transform of the last dim where a device has complex numbers."""
    x = re if im is None else rl.complex(re, im)
    return fft.fft(x) if sign > 0 else fft.ifft(x, norm="forward")


def transformed(re: Any, im: Any, sign: int, bins: int | None = None) -> tuple[Any, Any]:
    """The transform of the last dim, real and imaginary numbers; the first `bins` of them.

    im: None for real numbers. sign: 1 forward, -1 back, without dividing. Devices without complex
    numbers multiply by matrices, in two steps for a long one, by the factors of its length (Cooley
    and Tukey, 1965).
    """
    n = int(re.shape[-1])
    bins = n if bins is None else bins
    if re.storage.device.backend.supports(FFT.name):
        y = _fast(re, im, sign)
        return y.real[..., :bins], y.imag[..., :bins]
    a = _factor(n) if n > _WHOLE else 1
    if a == 1:
        if n > _LONGEST:
            raise ValueError(
                f"a transform of {n} elements is not supported: a factor of the length is above "
                f"{_LONGEST}; pad it"
            )
        cos, sin = _tensors(_circle(n, bins, n), re, sign)
        return _multiplied(re, im, cos, sin, rl.matmul)
    b = n // a
    lead = re.shape[:-1]
    # Element b * j + i; frequency k + a * l.
    re, im = (None if t is None else t.reshape(*lead, a, b).transpose(-1, -2) for t in (re, im))
    re, im = transformed(re, im, sign)  # (..., i, k)
    re, im = _multiplied(re, im, *_tensors(_circle(b, a, n), re, sign), rl.mul)
    re, im = transformed(re.transpose(-1, -2), im.transpose(-1, -2), sign)  # (..., k, l)
    re, im = (t.transpose(-1, -2).reshape(*lead, n) for t in (re, im))
    return (re[..., :bins], im[..., :bins]) if bins < n else (re, im)


def _parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary numbers of (..., 1 or 2)."""
    return x[..., 0], x[..., 1] if x.shape[-1] == 2 else None


def _sized(x: Any, n: int) -> Any:
    """The first n elements of the last dim, zeros after them."""
    size = x.shape[-1]
    return x[..., :n] if size >= n else F.pad(x, (0, n - size))


def _real_back(re: Any, im: Any, n: int) -> Any:
    """n real numbers of their frequencies up to the half."""
    bins = n // 2 + 1
    re = _sized(re, bins)
    tables = _circle(bins, n, n)
    twice = np.full((bins, 1), 2.0)
    twice[0] = 1
    if n % 2 == 0:
        twice[-1] = 1
    cos, sin = (of_data(v * twice / n, dtype=re.dtype, device=re.device) for v in tables)
    y = re @ cos
    return y if im is None else y + _sized(im, bins) @ sin


@operator("DFT", host=(1, 2))
def dft(call: Call, x: Any, length: Any = None, dim: Any = None) -> Any:
    """The discrete Fourier transform of a dim of (..., 1 or 2), or back."""
    inverse, onesided = call.flag("inverse"), call.flag("onesided")
    if call.opset < 20:
        place = call.int("axis", 1)
    else:
        place = -2 if dim is None else int(np.asarray(dim).reshape(-1)[0])
    d = normalize_dim("axis", place, x.shape)
    if d == x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise call.fail(f"axis={place} of {tuple(x.shape)}; the last dim has the parts, 1 or 2")
    parts = [None if t is None else t.movedim(d, -1) for t in _parts(x)]
    re, im = parts
    if length is not None:
        n = int(np.asarray(length).reshape(-1)[0])
    else:
        n = 2 * (int(x.shape[d]) - 1) if inverse and onesided else int(x.shape[d])
    if n < 1:
        raise call.fail(f"dft_length={n}; it must be positive")
    if inverse and onesided:
        return _real_back(re, im, n).movedim(-1, d).unsqueeze(-1)
    re, im = (None if t is None else _sized(t, n) for t in (re, im))
    bins = n // 2 + 1 if onesided else n
    re, im = transformed(re, im, -1 if inverse else 1, bins)
    if inverse:
        re, im = re * (1 / n), im * (1 / n)
    return rl.stack([re, im], -1).movedim(-2, d)


@operator("STFT", host=(1, 3), stored=(2,))
def stft(call: Call, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """The transforms of pieces of (n, length, 1 or 2) every `step`: (n, pieces, bins, 2)."""
    onesided = call.flag("onesided", True)
    hop = int(np.asarray(step).reshape(-1)[0])
    if length is not None:
        n = int(np.asarray(length).reshape(-1)[0])
    else:
        n = int(x.shape[1] if window is None else window.shape[0])
    if hop < 1 or not 0 < n <= x.shape[1] or x.shape[-1] not in (1, 2):
        raise call.fail(f"{tuple(x.shape)} has no pieces of {n} every {hop}")
    pieces = [None if t is None else t.unfold(1, n, hop) for t in _parts(x)]
    if window is not None:
        window = window.to(x.dtype)
        pieces = [None if t is None else t * window for t in pieces]
    bins = n // 2 + 1 if onesided else n
    re, im = transformed(pieces[0], pieces[1], 1, bins)
    return rl.stack([re, im], -1)


def _typed(call: Call, values: Array) -> Array:
    """`values` in the type that `output_datatype` says."""
    kind = element_type(call.int("output_datatype", 1), call.title)
    if kind.carried is None:
        raise call.fail(f"output_datatype={kind.name} is not supported")
    call.result_kinds = [kind]
    carried: Array = values.astype(kind.carried.numpy)
    return carried


def _window(call: Call, size: Array, *weights: float) -> Array:
    """The sum of cosines of 0, 1, ... turns along `size` elements."""
    n = int(np.asarray(size).reshape(-1)[0])
    if n < 0:
        raise call.fail(f"the size {n} is negative")
    last = n if call.flag("periodic", True) else n - 1
    turns = 2 * np.pi * np.arange(n) / max(last, 1)
    if n == 1 and not last:
        return _typed(call, np.ones(1))
    values = sum(w * np.cos(i * turns) for i, w in enumerate(weights))
    return _typed(call, np.asarray(values))


@operator("HannWindow", host=(0,))
def hann_window(call: Call, size: Array) -> Array:
    """A window of one cosine, 0 at its ends."""
    return _window(call, size, 0.5, -0.5)


@operator("HammingWindow", host=(0,))
def hamming_window(call: Call, size: Array) -> Array:
    """A window of one cosine, 4/46 at its ends."""
    return _window(call, size, 25 / 46, -21 / 46)


@operator("BlackmanWindow", host=(0,))
def blackman_window(call: Call, size: Array) -> Array:
    """A window of two cosines."""
    return _window(call, size, 0.42, -0.5, 0.08)


@operator("MelWeightMatrix", host=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    call: Call, count: Array, length: Array, rate: Array, low: Array, high: Array
) -> Array:
    """Triangular filters (bins, count), their centres evenly spaced in mel."""
    filters, n, sample_rate = (int(v.reshape(-1)[0]) for v in (count, length, rate))
    bottom, top = (2595 * np.log10(1 + float(v.reshape(-1)[0]) / 700) for v in (low, high))
    if min(filters, n) < 0 or sample_rate < 1:
        raise call.fail(f"{filters} filters of {n} elements at {sample_rate} Hz do not fit")
    points = np.arange(filters + 2) * ((top - bottom) / (filters + 2)) + bottom
    hertz = 700 * (10 ** (points / 2595) - 1)
    edges = ((n + 1) * hertz // sample_rate).astype(np.int64)
    bins = n // 2 + 1
    if edges.size and not 0 <= edges.min() <= edges.max() <= bins:
        raise call.fail(f"the edges up to {float(high.reshape(-1)[0])} Hz are beyond {bins} bins")
    at = np.arange(bins)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (at - left) / np.maximum(centre - left, 1)
    falling = (right - at) / np.maximum(right - centre, 1)
    values = np.where((at >= left) & (at <= centre) & (centre > left), rising, 0.0)
    values = np.where((at == centre) & (centre == left), 1.0, values)
    values = np.where((at >= centre) & (at < right), falling, values)
    return _typed(call, values)
