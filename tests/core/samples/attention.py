"""Samples of the ops of core/ops/attention.py."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from rushlight.core.tools.testing import draws

from .base import INF, NAN, SPECIAL, Array, Sample, Samples, total
from .norm import row_softmax

SAMPLES: dict[str, Samples] = {}


def _loop_attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    mask: Array | None,
    q_offset: Array | None,
    kv_lengths: Array | None,
    sinks: Array | None,
    *,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
) -> Array:
    k, v = (_opened(x) if x.dtype == np.uint8 else x for x in (k, v))
    batch, heads, length, _ = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    out = np.zeros((batch, heads, length, v.shape[3]))
    full = (batch, heads, length, keys)
    bias = None if bias is None else np.broadcast_to(bias, full)
    mask = None if mask is None else np.broadcast_to(mask, full)
    for b, h, i in np.ndindex(batch, heads, length):
        at = i + (0 if q_offset is None else int(q_offset[b]))
        scores = {}
        for j in range(keys):
            if (
                (mask is not None and not mask[b, h, i, j])
                or (causal and j > at)
                or (window is not None and at - j >= window)
                or (window is not None and not causal and j - at >= window)
                or (kv_lengths is not None and j >= kv_lengths[b])
            ):
                continue
            s = total((q[b, h, i] * k[b, h // group, j]).tolist()) * scale
            s = s if softcap is None else softcap * math.tanh(s / softcap)
            scores[j] = s if bias is None else s + bias[b, h, i, j]
        if scores and max(scores.values()) != -INF:
            last = [] if sinks is None else [float(sinks[0, h, 0, 0])]
            p = row_softmax([*scores.values(), *last])[: len(scores)]
            for weight, j in zip(p, scores, strict=True):
                out[b, h, i] += weight * v[b, h // group, j]
    return out


def _loop_cache_write(cache: Array, values: Array, offsets: Array) -> Array:
    out = cache.copy()
    for b, h, i, f in np.ndindex(values.shape):
        out[b, h, offsets[b] + i, f] = values[b, h, i, f]
    return out


_CACHE = draws(1, (2, 3, 5, 4))
_NAN_CACHE = np.resize(SPECIAL, (2, 3, 5, 4))
SAMPLES["cache_write"] = Samples(
    _loop_cache_write,
    "exact",
    (
        Sample("odd", (_CACHE, draws(2, (2, 3, 2, 4)), np.array([3, 0]))),
        Sample("to the end", (_CACHE, draws(2, (2, 3, 5, 4)), np.array([0, 0]))),
        Sample("empty", (_CACHE, np.zeros((2, 3, 0, 4)), np.array([5, 1]))),
        Sample("no rows", (_CACHE[:0], np.zeros((0, 3, 1, 4)), np.zeros(0, np.int64))),
        Sample("nan", (_NAN_CACHE, _NAN_CACHE[:, :, :2], np.array([2, 1]))),
    ),
    without={"0-d": "a cache has four dims"},
)


def _loop_pack(x: Array) -> Array:
    """By the definition: bytes, then scales, then zeros up to a whole word."""
    rows = []
    for row in x.reshape(-1, x.shape[-1]).tolist():
        codes, scales = b"", b""
        for at in range(0, len(row), 32):
            block = row[at : at + 32]
            nan = any(v != v for v in block)
            d = NAN if nan else max(map(abs, block)) / 127
            whole = [math.floor(abs(v) / d + 0.5) if 0 < d < INF else 0 for v in block]
            signed = [-n if v < 0 else n for n, v in zip(whole, block, strict=True)]
            codes += struct.pack("32b", *signed)
            scales += struct.pack("<H", 0x7E00) if nan else struct.pack("<e", d)
        rows.append(list(codes + scales + bytes(-len(scales) % 4)))
    width = x.shape[-1] + -(-x.shape[-1] // 64) * 4
    return np.array(rows, np.uint8).reshape(*x.shape[:-1], width)


def _opened(stored: Array) -> Array:
    """The floats of packed rows of 32 or 64."""
    n = stored.shape[-1] // 34 * 32
    out = np.zeros((*stored.shape[:-1], n))
    for at in np.ndindex(*stored.shape[:-1]):
        row = stored[at].tobytes()
        codes = struct.unpack(f"{n}b", row[:n])
        scales = struct.unpack(f"<{n // 32}e", row[n : n + n // 16])
        out[at] = [c * scales[i // 32] for i, c in enumerate(codes)]
    return out


def _of_bytes(seed: int, *shape: int) -> Array:
    """Floats whose packed rows hold them exactly in every dtype: each block reaches 127."""
    x = np.round(draws(seed, shape, -127, 127))
    x[..., ::32] = 127
    return x * 0.25


_NAN_BLOCK = np.concatenate([_of_bytes(1, 2, 32), _of_bytes(2, 2, 32)], 1)
_NAN_BLOCK[0, 40] = NAN
SAMPLES["pack_rows"] = Samples(
    _loop_pack,
    "exact",
    (
        Sample("odd", (_of_bytes(1, 3, 5, 64),)),
        Sample("one block", (_of_bytes(2, 3, 32),)),
        Sample(
            "zeros and odd blocks", (_of_bytes(3, 2, 3, 96) * np.array([[[1.0], [0.0], [2.0]]]),)
        ),
        Sample("empty", (np.zeros((0, 32)),)),
        Sample("nan", (_NAN_BLOCK,)),
    ),
    without={"0-d": "there is no row"},
)


def attention_sample(
    label: str,
    q: tuple[int, ...],
    k: tuple[int, ...],
    *parts: Array | None,
    grad: tuple[int, ...] = (),
    values: int | None = None,
    **attrs: Any,
) -> Sample:
    inputs = [draws(1, q), draws(2, k), draws(3, (*k[:3], values or k[3])), *parts]
    inputs += [None] * (8 - len(inputs))
    given = {"scale": 0.7, "causal": False, "window": None, "softcap": None, **attrs}
    return Sample(label, tuple(inputs), given, grad)


_BIAS = draws(4, (1, 2, 3, 5))
_MASK = draws(5, (2, 1, 3, 5)) > -0.3
_NO_KEY = _MASK.copy()
_NO_KEY[0, 0, 1] = False
_SEES_NONE = np.where(np.arange(5) < 2, 0.3, -INF) * np.ones((1, 1, 3, 1))
_SEES_NONE[0, 0, 2] = -INF
_Q, _K = (2, 2, 3, 4), (2, 2, 5, 4)
_SINKS = np.array([1.5, -2.0]).reshape(1, 2, 1, 1)
_SMALL_Q, _SMALL_K = (1, 2, 2, 2), (1, 1, 3, 2)
SAMPLES["attention"] = Samples(_loop_attention, "product", (
    attention_sample("odd", _Q, _K),
    attention_sample("groups", (2, 6, 3, 4), _K, values=3),
    attention_sample("causal", _Q, _K, causal=True),
    attention_sample("bias", _Q, _K, _BIAS),
    attention_sample("bias of -inf", _Q, _K, _SEES_NONE),
    attention_sample("mask", _Q, _K, None, _MASK),
    attention_sample("a row sees nothing", _Q, _K, None, _NO_KEY),
    attention_sample("window", _Q, _K, window=2),
    attention_sample("causal window", _Q, _K, window=2, causal=True),
    attention_sample("softcap", _Q, _K, softcap=0.5),
    attention_sample("offsets", _Q, _K, None, None, np.array([2, -1]), causal=True),
    attention_sample("mask and offsets", _Q, _K, None, _MASK, np.array([1, 2]), causal=True),
    attention_sample("bias and offsets", _Q, _K, _BIAS, None, np.array([1, 2]), causal=True),
    attention_sample("bias and mask", _Q, _K, _BIAS, _MASK, causal=True),
    attention_sample("lengths", _Q, _K, None, None, None, np.array([4, 0])),
    attention_sample("everything", _Q, _K, _BIAS, _MASK, np.array([1, 2]), np.array([5, 3]),
                     causal=True, window=3, softcap=2.0),
    *(Sample(f"packed, {n} queries",
             (draws(1, (2, 4, n, 32)), _loop_pack(draws(2, (2, 2, 5, 32))),
              _loop_pack(draws(3, (2, 2, 5, 64))), None, None, np.array([2, 1]), None, None),
             {"scale": 0.3, "causal": True, "window": None, "softcap": None}) for n in (1, 3)),
    attention_sample("sinks", (2, 2, 1, 4), _K, None, None, None, None, _SINKS),
    attention_sample("sinks and offsets", _Q, _K, None, None, np.array([2, -1]), None, _SINKS,
                     causal=True, window=3),
    attention_sample("sinks and a mask", _Q, _K, None, _MASK, None, None, _SINKS, causal=True),
    attention_sample("sinks, mask, offsets", _Q, _K, None, _MASK, np.array([2, 1]), None, _SINKS,
                     causal=True),
    attention_sample("sinks and all", _Q, _K, _BIAS, None, np.array([1, 2]), np.array([5, 0]),
                     _SINKS, causal=True, window=3, softcap=2.0),
    attention_sample("empty", (2, 2, 0, 4), _K),
    attention_sample("no keys", _Q, (2, 2, 0, 4)),
    Sample("nan", (np.full((1, 1, 1, 2), NAN), draws(2, (1, 1, 3, 2)), draws(3, (1, 1, 3, 2)),
                   None, None, None, None, None),
           {"scale": 1.0, "causal": False, "window": None, "softcap": None}),
    attention_sample("gradient", _SMALL_Q, _SMALL_K, draws(4, (1, 2, 1, 3)), softcap=1.5,
                     grad=(0, 1, 2, 3)),
    attention_sample("gradient of sinks", _SMALL_Q, _SMALL_K, None,
                     np.array([[[[True, True, False], [False, False, False]]]]), None, None,
                     _SINKS, grad=(0, 1, 2, 7)),
    attention_sample("gradient masked", _SMALL_Q, _SMALL_K, None,
                     np.array([[[[True, True, False], [False, False, False]]]]), grad=(0, 1, 2)),
    attention_sample("gradient causal", _SMALL_Q, _SMALL_K, None, None, np.array([-1]),
                     np.array([2]), causal=True, window=2, grad=(0, 1, 2)),
    attention_sample("gradient with a bias of -inf", _SMALL_Q, _SMALL_K,
                     np.array([[[[0.5, -INF, 0.1], [-INF, -INF, -INF]]]]), grad=(0, 1, 2)),
), without={"0-d": "attention takes four dims"})  # fmt: skip
