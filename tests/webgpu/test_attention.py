"""Attention on webgpu: every tile, splits of the keys, every optional operand, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering import attention, attention_row
from rushlight.core.basis.packed import unpack
from rushlight.core.ops.attention import cache_write_, pack_rows
from rushlight.core.tools.testing import assert_close, draws

# batch, heads, key heads, queries, keys, features, features of v
SHAPES = [
    (1, 2, 2, 70, 70, 64, 64),
    (2, 4, 2, 1, 300, 64, 64),
    (1, 9, 3, 1, 600, 64, 64),
    (1, 2, 1, 40, 50, 80, 80),
    (1, 2, 1, 3, 260, 128, 128),
    (1, 1, 1, 20, 40, 256, 256),
    (1, 1, 1, 5, 40, 300, 5),
    (2, 6, 2, 7, 33, 40, 33),
    (1, 12, 1, 2, 40, 16, 16),
    (2, 8, 1, 1, 130, 20, 36),
    (1, 2, 2, 1, 1, 128, 4),
    (1, 4, 1, 3, 70, 576, 512),
]


@pytest.fixture(
    params=[
        "DiscreteGPU",
        "DiscreteGPU products",
        "CPU",
        "CPU attention_heads",
        "CPU attention_row",
    ],
    autouse=True,
)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Kernels for both kinds of adapters, whatever this one is; both of CPUs for one query."""
    kind, *forced = request.param.split()
    monkeypatch.setitem(backend.port.info, "type", kind)
    if forced == ["products"]:  # of any sizes, some queries at a time
        monkeypatch.setattr(attention, "PRODUCT_QUERIES", 1)
        monkeypatch.setattr(attention, "PRODUCT_KEYS", 1)
        monkeypatch.setattr(attention, "PRODUCT_BYTES", 1 << 15)
        forced = []
    monkeypatch.setattr(attention_row, "forced", forced)


def scheduled(shape: tuple[int, ...]) -> attention.Schedule:
    batch, heads, kv_heads, queries, keys, features, values = shape
    return attention.schedule(batch, heads, kv_heads, queries, keys, max(features, values))


def test_the_shapes_reach_every_tile() -> None:
    found = [scheduled(s) for s in SHAPES]
    assert {s.tile for s in found} == {*attention.MANY, *attention.FEW}
    assert any(s.splits > 1 for s in found) and any(s.fold > 1 for s in found)


def compare(gpu: rl.Device, dtype: str, q: Any, k: Any, v: Any, **options: Any) -> None:
    parts: dict[str, Any] = {n: rl.tensor(x).to(dtype) for n, x in (("q", q), ("k", k), ("v", v))}
    if "bias" in options:
        options["bias"] = rl.tensor(options["bias"]).to(dtype)
    exact: dict[str, Any] = {n: x.double() for n, x in parts.items()}
    extra = {n: x.double() if n == "bias" else x for n, x in options.items()}
    want = rl.attention(**exact, **extra).numpy()
    there: dict[str, Any] = {
        n: x.to(gpu) if isinstance(x, rl.Tensor) else x for n, x in {**parts, **options}.items()
    }
    # A cache: more room than keys, heads and positions exchanged in memory.
    for n in "kv":
        x = there[n]
        room = rl.full(
            (x.shape[0], x.shape[2] + 3, x.shape[1], x.shape[3]), 9.0, dtype=x.dtype, device=gpu
        ).transpose(1, 2)
        room[:, :, : x.shape[2]] = x
        there[n] = room[:, :, : x.shape[2]]
    found = rl.attention(**there)
    assert found.dtype.name == dtype
    assert_close(found.cpu(), want, "product", label=f"{q.shape} {sorted(options)}")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tiles(gpu: rl.Device, shape: tuple[int, ...], dtype: str) -> None:
    batch, heads, kv_heads, queries, keys, features, values = shape
    q = draws(1, (batch, heads, queries, features))
    k, v = draws(2, (batch, kv_heads, keys, features)), draws(3, (batch, kv_heads, keys, values))
    compare(gpu, dtype, q, k, v)
    if dtype == "float32":
        offset, lengths = rl.tensor([keys - queries] * batch), rl.tensor([keys - 3] * batch)
        compare(gpu, dtype, q, k, v, causal=True, q_offset=offset, kv_lengths=lengths, window=90)


@pytest.mark.parametrize("queries", [1, 37])
def test_every_option(gpu: rl.Device, queries: int) -> None:
    batch, heads, keys = 2, 4, 261
    q = draws(1, (batch, heads, queries, 8), -3, 3)
    k, v = draws(2, (batch, 2, keys, 8), -3, 3), draws(3, (batch, 2, keys, 6))
    bias = draws(4, (1, heads, 1, keys), -2, 2)
    mask = draws(5, (batch, 1, queries, keys)) > -0.2
    mask[0, 0, 0] = False
    hidden = bias.copy()
    hidden[0, 1] = -np.inf
    hidden[0, 2, 0, ::3] = -np.inf
    offset, sinks = rl.tensor([200, 3]), rl.tensor([3.5, -20.0, -np.inf, 0.1])
    options: list[dict[str, Any]] = [
        {"bias": bias}, {"bias": hidden}, {"mask": rl.tensor(mask)}, {"softcap": 1.5},
        {"scale": 0.11}, {"window": 20}, {"window": 5, "q_offset": offset},
        {"causal": True, "window": 7, "q_offset": offset}, {"kv_lengths": rl.tensor([0, 130])},
        {"causal": True, "q_offset": rl.tensor([-1, 300])}, {"sinks": sinks},
        {"sinks": sinks, "bias": hidden, "mask": rl.tensor(mask), "q_offset": offset,
         "kv_lengths": rl.tensor([250, 0]), "window": 150},
        {"bias": hidden, "mask": rl.tensor(mask), "q_offset": offset, "softcap": 2.0,
         "kv_lengths": rl.tensor([250, 131]), "causal": True, "window": 150},
    ]  # fmt: skip
    for option in options:
        compare(gpu, "float32", q, k, v, **option)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 2, 2, 70, 70, 64, 64),
        (2, 4, 2, 1, 300, 64, 32),
        (1, 9, 3, 1, 600, 96, 64),
        (1, 2, 1, 3, 260, 128, 128),
        (1, 1, 1, 20, 40, 256, 256),
    ],
)
@pytest.mark.parametrize("kept", ["float16", "q8_0"])
def test_keys_and_values_of_a_narrow_cache(
    gpu: rl.Device, shape: tuple[int, ...], kept: str
) -> None:
    """A part of a buffer, as a cache gives it, against the same numbers as float32 on cpu."""
    batch, heads, kv_heads, queries, keys, features, values = shape
    q = rl.tensor(draws(1, (batch, heads, queries, features))).float()
    given = [
        rl.tensor(draws(s, (batch, kv_heads, keys + 3, n))).float()
        for s, n in ((2, features), (3, values))
    ]
    stored = [x.half() if kept == "float16" else pack_rows(x) for x in given]
    wide = [x.float() if kept == "float16" else rl.tensor(unpack(x.numpy())) for x in stored]
    at = rl.tensor([keys - queries] * batch)
    want = rl.attention(q, *(x[:, :, :keys] for x in wide), causal=True, q_offset=at)
    there = [x.to(gpu)[:, :, :keys] for x in stored]
    found = rl.attention(q.to(gpu), *there, causal=True, q_offset=at.to(gpu))
    assert_close(found.cpu(), want.numpy(), "product", label=f"{shape} {kept}")


def test_a_query_that_sees_no_key_gives_zeros(gpu: rl.Device) -> None:
    for queries, keys in ((1, 400), (20, 30)):
        q, k = rl.ones(1, 2, queries, 8, device=gpu), rl.ones(1, 1, keys, 8, device=gpu)
        none = rl.zeros(1, dtype=rl.int64, device=gpu)
        assert not rl.attention(q, k, k, kv_lengths=none).cpu().numpy().any()
        mask = rl.zeros(1, 1, 1, 1, dtype=rl.bool, device=gpu)
        assert not rl.attention(q, k, k, mask=mask).cpu().numpy().any()


def test_large_scores_do_not_overflow(gpu: rl.Device) -> None:
    q = np.full((1, 1, 2, 4), 1e3)
    k = np.concatenate([np.full((1, 1, 150, 4), s * 1e3) for s in (1, -1)], 2)
    compare(gpu, "float32", q, k, draws(3, (1, 1, 300, 4)))


def test_over_the_binding_limit(gpu: rl.Device, small_bindings: Any) -> None:
    q = draws(1, (3, 4, 2, 40))
    k, v = draws(2, (3, 2, 2000, 40)), draws(3, (3, 2, 2000, 40))
    compare(gpu, "float32", q, k, v, causal=True, q_offset=rl.tensor([1990, 5, 700]))


def test_too_many_features_are_refused(gpu: rl.Device) -> None:
    x = rl.ones(1, 1, 1, 513, device=gpu)
    with pytest.raises(ValueError, match="heads have 641 features, webgpu takes up to 640"):
        rl.attention(x, x, x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("features", [4, 3])
def test_cache_write_touches_new_rows_only(
    gpu: rl.Device, backend: Any, dtype: str, features: int
) -> None:
    before = draws(1, (2, 3, 9, features))
    cache = rl.tensor(before).to(dtype).to(gpu)
    want = cache.cpu().host_values().copy()
    values = rl.tensor(draws(2, (2, 2, 3, features))).to(dtype).to(gpu).transpose(1, 2)
    offsets = rl.tensor([7, 0], device=gpu)
    cache.cpu()
    count = backend.recorder.dispatches
    assert cache_write_(cache, values, offsets) is cache
    assert backend.recorder.dispatches - count == 1, "the cache is not copied"
    given = values.cpu().host_values()
    for row, at in enumerate((7, 0)):
        want[row, :, at : at + 2] = given[row]
    assert_close(cache.cpu(), want, "exact")


def test_many_queries_are_products_on_a_card(
    gpu: rl.Device, backend: Any, request: pytest.FixtureRequest
) -> None:
    """Scores of what a causal mask hides are not computed where the positions are known."""
    on_card = "DiscreteGPU" in request.node.name
    q, k, v = (rl.tensor(draws(s, (1, 2, 300, 16))).float().to(gpu) for s in range(3))
    seen: list[tuple[str, str]] = []
    backend.recorder.observer = seen
    try:
        found = rl.attention(q, k, v, causal=True)
    finally:
        backend.recorder.observer = None
    assert ("attention_softmax" in {kernel for _, kernel in seen}) is on_card
    want = rl.attention(*(x.cpu().double() for x in (q, k, v)), causal=True)
    assert_close(found.cpu(), want.numpy(), "product")
