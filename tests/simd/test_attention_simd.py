"""Attention against float64 with its full signature, and writes into a cache."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core import ops
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.basis.packed import pack, unpack
from rushlight.core.ops.attention import cache_write_, pack_rows
from rushlight.core.tools.testing import assert_close, draws

Array = npt.NDArray[Any]
INF, NAN = float("inf"), float("nan")


def _reference(q: Array, k: Array, v: Array, **given: Any) -> Array:
    """By the definition, a row at a time, in float64."""
    batch, heads, length, width = q.shape
    out = np.zeros((*q.shape[:3], v.shape[3]))
    groups, keys = heads // k.shape[1], k.shape[2]
    scale = given.get("scale") or 1 / math.sqrt(width)
    window, cap = given.get("window"), given.get("softcap")
    full = (batch, heads, length, keys)
    bias = np.broadcast_to(np.asarray(given["bias"]), full) if "bias" in given else None
    mask = np.broadcast_to(np.asarray(given["mask"]), full) if "mask" in given else None
    offsets = np.broadcast_to(np.asarray(given.get("q_offset", 0)), batch)
    lengths = np.broadcast_to(np.asarray(given.get("kv_lengths", keys)), batch)
    j = np.arange(keys)
    for b, h, i in itertools.product(range(batch), range(heads), range(length)):
        s = k[b, h // groups] @ q[b, h, i] * scale
        s = s if cap is None else np.tanh(s / cap) * cap
        s = s if bias is None else s + bias[b, h, i]
        at, seen = i + offsets[b], j < lengths[b]
        if given.get("causal"):
            seen &= j <= at
        if window is not None:
            seen &= (at - j < window) & ((j - at < window) | bool(given.get("causal")))
        if mask is not None:
            seen &= mask[b, h, i]
        if bias is not None:
            seen &= bias[b, h, i] > -INF
        if seen.any():
            sink = given["sinks"][h] if "sinks" in given else -INF
            top = max(s[seen].max(), sink)
            e = np.where(seen, np.exp(s - top), 0)
            out[b, h, i] = (e / (e.sum() + math.exp(sink - top))) @ v[b, h // groups]
    return out


def _run(
    shape: tuple[int, int, int, int, int, int, int], dtype: str = "float32", **given: Any
) -> None:
    """shape: batch, heads, key heads, queries, keys, features, features of v."""
    b, h, kh, n, m, d, dv = shape
    q, k, v = (
        rl.tensor(draws(seed, s, -2, 2), dtype=dtype)
        for seed, s in ((1, (b, h, n, d)), (2, (b, kh, m, d)), (3, (b, kh, m, dv)))
    )
    exact = [np.asarray(t.float().numpy(), np.float64) for t in (q, k, v)]
    tensors: dict[str, Any] = {
        name: rl.from_numpy(np.asarray(x)) if isinstance(x, np.ndarray) else x
        for name, x in given.items()
    }
    if "bias" in tensors:
        tensors["bias"] = tensors["bias"].to(dtype)
        given["bias"] = np.asarray(tensors["bias"].float().numpy(), np.float64)
    want = _reference(*exact, **given)
    assert_close(ops.attention(q, k, v, **tensors), want, "product", label=f"{shape} {given}")


SHAPES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 2, 3, 5, 7, 6),
    (1, 9, 3, 1, 31, 64, 64),
    (1, 3, 3, 70, 70, 16, 16),
    (2, 2, 1, 65, 130, 33, 20),
    (1, 8, 1, 9, 200, 40, 64),
    (1, 2, 2, 129, 64, 32, 48),
    (3, 1, 1, 2, 67, 5, 3),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"scale": 0.3},
    {"softcap": 1.5},
    {"window": 3},
    {"causal": True, "window": 4},
    {"causal": True, "q_offset": 3},
    {"causal": True, "q_offset": -2},
    {"window": 2, "q_offset": 40},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(variant: str, shape: tuple[int, int, int, int, int, int, int]) -> None:
    b, h, _, n, m, *_ = shape
    for options in OPTIONS:
        _run(shape, **options)
    lengths = np.array([1, m, 0])[:b]
    _run(shape, kv_lengths=lengths)
    _run(shape, kv_lengths=lengths.astype(np.int32), causal=True, q_offset=np.arange(b))
    sinks = draws(6, (h,), -2, 2)
    _run(shape, sinks=sinks)
    _run(shape, sinks=np.where(sinks > 0, 9.0, -INF), causal=True, window=4, kv_lengths=lengths)
    for part in ((b, h, n, m), (b, 1, 1, m), (1, 1, n, m), (1, h, n, 1), (b, 1, n, 1)):
        mask = draws(7, part) > 0
        _run(shape, mask=mask)
        _run(shape, bias=draws(8, part, -2, 2))
        _run(shape, mask=mask, bias=draws(8, part), causal=True, q_offset=m - n, softcap=2.0)
        _run(shape, bias=np.where(mask, draws(9, part), -INF))
        _run(shape, mask=mask, window=5, kv_lengths=lengths)


@pytest.mark.parametrize("heads", [7, 13, 24, 71])  # parts of one key head's heads, the last short
def test_one_query_of_many_heads(variant: str, heads: int) -> None:
    shape = (2, 2 * heads, 2, 1, 70, 20, 16)
    _run(shape, causal=True, q_offset=np.array([69, 5]))
    _run(shape, bias=draws(8, (1, 2 * heads, 1, 70)), sinks=draws(6, (2 * heads,), -2, 2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_over_narrow_floats(variant: str, dtype: str) -> None:
    for shape in SHAPES:
        _run(shape, dtype, causal=True, q_offset=shape[4] - shape[3])
        _run(shape, dtype, bias=draws(8, (1, 1, 1, shape[4])))


@pytest.mark.parametrize("kept", ["float16", "bfloat16", "q8_0"])
def test_keys_and_values_of_a_narrow_cache(variant: str, kept: str) -> None:
    """Few queries and many, over a part of a buffer, with a NaN beyond what is seen."""
    for b, h, kh, n, m, d, dv in ((2, 6, 2, 1, 131, 64, 32), (1, 2, 1, 70, 90, 96, 64)):
        q = rl.tensor(draws(1, (b, h, n, d))).float()
        given = [rl.tensor(draws(s, (b, kh, m + 3, w))).float() for s, w in ((2, d), (3, dv))]
        for x in given:
            x[:, :, m:] = NAN
        stored = [pack_rows(x) if kept == "q8_0" else x.to(kept) for x in given]
        parts = [x[:, :, :m] for x in stored]
        exact = [unpack(x.numpy()) if kept == "q8_0" else x.float().numpy() for x in parts]
        attrs = {"scale": 0.2, "causal": True, "window": None, "softcap": None}
        inputs = (q, *parts, None, None, None, None, None)
        assert lowering.record("attention", inputs, rl.zeros(b, h, n, dv), attrs) is not None
        found = ops.attention(q, *parts, scale=0.2, causal=True, q_offset=m - n)
        want = _reference(
            q.numpy().astype(float),
            *(x.astype(float) for x in exact),
            scale=0.2,
            causal=True,
            q_offset=m - n,
        )
        assert_close(found, want, "product", label=kept)


def test_packed_rows_are_those_of_numpy(variant: str) -> None:
    x = draws(1, (3, 4, 5, 96)).astype(np.float32)
    x[0, 0, 0, 3], x[0, 1, 1, 40], x[1, 1, 1], x[2, 3, 4, :32] = NAN, INF, 1e-12, 1e-41
    for t in (rl.tensor(x), rl.tensor(x).transpose(1, 2), rl.tensor(x).half()):
        with np.errstate(all="ignore"):
            assert np.array_equal(pack_rows(t).numpy(), pack(t.float().numpy()))
    held = np.nan_to_num(unpack(pack(x[1:])))
    step = np.abs(x[1:].reshape(2, 4, 5, 3, 32)).max(-1, keepdims=True) / 127
    assert (np.abs(held - x[1:]).reshape(2, 4, 5, 3, 32) <= step * 0.56 + 1e-9).all()


def test_views_of_a_larger_cache(variant: str) -> None:
    """Keys and values with gaps, features first, heads last; queries of a projection."""
    b, n, h, kh, m, d = 2, 6, 6, 2, 37, 24
    q = rl.tensor(draws(1, (b, n, h, d)).astype(np.float32)).transpose(1, 2)
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 3, 2)):
        made = [draws(s, [(b, kh, m + 20, d)[i] for i in order]).astype(np.float32) for s in (2, 3)]
        back = [order.index(i) for i in range(4)]
        k, v = (rl.from_numpy(x).permute(*back)[:, :, 5 : 5 + m] for x in made)
        attrs = {"scale": 0.2, "causal": True, "window": None, "softcap": None}
        inputs = (q, k, v, None, None, None, None, None)
        assert lowering.record("attention", inputs, rl.zeros(b, h, n, d), attrs) is not None
        found = ops.attention(q, k, v, scale=0.2, causal=True, q_offset=m - n)
        exact = [x.numpy().astype(float) for x in (q, k, v)]
        assert_close(found, _reference(*exact, scale=0.2, causal=True, q_offset=m - n), "product")


def test_empty_and_hidden(variant: str) -> None:
    q, k = rl.ones(1, 2, 3, 8), rl.ones(1, 1, 5, 8)
    assert ops.attention(q, k[:, :, :0], k[:, :, :0]).abs().sum().item() == 0
    assert ops.attention(q[:, :, :0], k, k).shape == (1, 2, 0, 8)
    hidden = rl.zeros(1, 1, 1, 5, dtype=rl.bool)
    assert ops.attention(q, k, k, mask=hidden).tolist() == rl.zeros(1, 2, 3, 8).tolist()
    assert ops.attention(q, k, k, bias=rl.full((1, 1, 1, 5), -INF)).abs().sum().item() == 0
    assert ops.attention(q, k, k, q_offset=-9, causal=True).abs().sum().item() == 0
    assert (
        ops.attention(q[..., :0], k[..., :0], k, scale=1.0).tolist() == rl.ones(1, 2, 3, 8).tolist()
    )


def test_keys_beyond_the_lengths_are_not_read(variant: str) -> None:
    k = rl.tensor(draws(1, (2, 1, 80, 16)).astype(np.float32))
    q = rl.tensor(draws(2, (2, 2, 4, 16)).astype(np.float32))
    lengths = rl.tensor([70, 3])
    want = ops.attention(q, k, k, kv_lengths=lengths).numpy()
    k[0, :, 70:], k[1, :, 3:] = NAN, NAN
    assert np.array_equal(ops.attention(q, k, k, kv_lengths=lengths).numpy(), want)


def test_scores_that_are_not_finite(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (2, 12):
        q = rl.tensor(draws(1, (1, 1, n, 8)).astype(np.float32))
        k = rl.tensor(draws(2, (1, 1, 100, 8)).astype(np.float32))
        q[0, 0, 1, 3] = NAN
        found = ops.attention(q, k, k).numpy()
        assert np.isnan(found[0, 0, 1]).all() and np.isfinite(found[0, 0, 0]).all()
        bias = rl.zeros(1, 1, n, 100)
        bias[0, 0, 0, 70] = INF
        with monkeypatch.context() as m:
            m.setattr(simd, "library", None)
            want = ops.attention(q, k, k, bias=bias).numpy()
        found = ops.attention(q, k, k, bias=bias).numpy()
        assert np.array_equal(np.isnan(found), np.isnan(want)) and np.isnan(found[0, 0, 0]).all()
        big = ops.attention(q[:, :, :1] * 1e18, k * 1e18, k).numpy()
        assert np.isfinite(big).all()


@pytest.mark.native
def test_attention_does_not_depend_on_the_threads(variant: str) -> None:
    q, k = (rl.tensor(draws(s, (2, 6, 150, 32)).astype(np.float32)) for s in (1, 2))
    found = []
    for count in (1, 2, 5):
        rl.set_num_threads(count)
        found.append(ops.attention(q, k[:, :3], k[:, 3:], causal=True).numpy())
    rl.set_num_threads(2)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_cache_write(variant: str, dtype: str) -> None:
    b, h, capacity, d, n = 3, 2, 11, 5, 4
    start = rl.tensor(draws(1, (b, h, capacity, d), -99, 99)).to(dtype)
    values = rl.tensor(draws(2, (b, n, h, d), -99, 99)).to(dtype).transpose(1, 2)
    want = start.numpy().copy()
    at = [0, 7, 3]
    for row, place in enumerate(at):
        want[row, :, place : place + n] = values.numpy()[row]
    for kind in ("int64", "int32"):
        cache = start.clone()
        assert cache_write_(cache, values, rl.tensor(at, dtype=kind)) is cache
        assert np.array_equal(cache.numpy(), want)
    wide = rl.zeros(b, h, capacity + 3, d, dtype=dtype)
    view = wide[:, :, 2:-1]
    view[...] = start
    cache_write_(view, values, rl.tensor(at))
    assert np.array_equal(view.numpy(), want)
    assert (
        not np.asarray(wide[:, :, :2].numpy()).any()
        and not np.asarray(wide[:, :, -1].numpy()).any()
    )


def test_cache_write_checks_its_offsets(variant: str) -> None:
    cache, values = rl.zeros(2, 1, 8, 4), rl.ones(2, 1, 3, 4)
    for at in ([0, 6], [-1, 0], [2**40, 0], [0, -(2**62)]):
        with pytest.raises(IndexError, match="3 tokens at .* do not fit the capacity 8"):
            cache_write_(cache, values, rl.tensor(at))
