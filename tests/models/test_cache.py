"""The cache: what each layer asks for is kept, cut and copied, and changes nothing of a model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.core.ops.attention import pack_rows
from rushlight.models.generation import cache as caches
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import KeysAndValues, Latent, State
from rushlight.models.generation.steps import blocking
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderSpec, LayerSpec, MakeBlock
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import RotarySpec

Array = npt.NDArray[Any]
VOCAB, WIDTH, CONTEXT = 50, 16, 160
# Bounds of logits with a cache in a narrow dtype; the logits are of the order of one.
NARROW = {"float16": 0.02, "q8_0": 0.15}
IDS = np.random.default_rng(5).integers(0, VOCAB, (2, 60))
CLOSE: Any = {"rtol": 1e-4, "atol": 1e-4}


class Fading(nn.Module):
    """A block with a recurrent state: a sum that fades to `keep` of it with each token."""

    keep = 0.8

    def __init__(self, layer: int) -> None:
        self.layer, self.cache_spec = layer, State(((WIDTH,),))
        self.v_proj, self.o_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: rl.Tensor, context: AttentionContext) -> rl.Tensor:
        batch, length, _ = x.shape
        age = rl.arange(length, device=x.device).unsqueeze(1) - rl.arange(length, device=x.device)
        fade = rl.where(age >= 0, (age.clamp(min=0).float() * np.log(self.keep)).exp(), 0.0)
        sums = fade @ self.v_proj(x)
        if context.cache is None:
            out: rl.Tensor = self.o_proj(sums)
            return out
        (before,) = context.cache.state(self.layer)
        part = (rl.arange(1, length + 1, device=x.device).float() * np.log(self.keep)).exp()
        sums = sums + part.unsqueeze(1) * before.unsqueeze(1)
        # Behind the last token that is no padding; the state before where there is none.
        every = rl.cat([before.unsqueeze(1), sums], 1)
        if context.lengths is None:
            context.cache.set_state(self.layer, every[:, -1])
        else:
            at = context.lengths.reshape(-1, 1, 1).expand(batch, 1, WIDTH)
            context.cache.set_state(self.layer, every.gather(1, at).squeeze(1))
        out = self.o_proj(sums)
        return out


class Compressed(nn.Module):
    """A block that keeps a row of numbers and a key for each token, and makes values of the row."""

    def __init__(self, layer: int) -> None:
        self.layer, self.cache_spec = layer, Latent((6, 4))
        self.q, self.k = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 4)
        self.down, self.up, self.o = nn.Linear(WIDTH, 6), nn.Linear(6, 8), nn.Linear(8, WIDTH)

    def forward(self, x: rl.Tensor, context: AttentionContext) -> rl.Tensor:
        batch, length, _ = x.shape
        q = self.q(x).reshape(batch, length, 2, 4).transpose(1, 2)
        rows, keys = self.down(x).unsqueeze(1), self.k(x).unsqueeze(1)
        offset: Any = 0
        if context.cache is not None:
            offset = context.offsets[self.layer]
            rows, keys = context.cache.write(self.layer, offset, rows, keys)
        values = self.up(rows).reshape(batch, rows.shape[2], 2, 4).transpose(1, 2)
        y = rl.attention(
            q, keys.expand(batch, 2, keys.shape[2], 4), values, causal=True, q_offset=offset
        )
        out: rl.Tensor = self.o(y.transpose(1, 2).reshape(batch, length, 8))
        return out


FULL = AttentionSpec(2, 1, 8, rotary=RotarySpec(8))
KINDS: dict[str, list[AttentionSpec | MakeBlock]] = {
    "full": [FULL, FULL],
    "window": [AttentionSpec(2, 1, 8, rotary=RotarySpec(8), window=6)],
    "two windows": [
        AttentionSpec(2, 2, 8, window=9, alibi=True),
        FULL,
        AttentionSpec(2, 1, 8, window=1),
    ],
    "compressed": [Compressed, FULL],
    "state": [Fading],
    "window and state": [AttentionSpec(2, 1, 8, rotary=RotarySpec(8), window=7), Fading, FULL],
}


WIDE = AttentionSpec(2, 1, 32, rotary=RotarySpec(32))
KINDS |= {
    "full of 32": [WIDE, WIDE],
    "windows of 32": [AttentionSpec(2, 2, 32, window=9, alibi=True), Fading, WIDE],
}
# In the tab one kind stands for all.
ALL = [
    pytest.param(k, marks=[] if k == "window and state" else pytest.mark.native)
    for k in KINDS
    if not k.endswith("of 32")
]


def toy(kind: str, device: str, context: int = CONTEXT) -> Any:
    layers = tuple(LayerSpec(attention, MLPSpec(24)) for attention in KINDS[kind])
    config = SimpleNamespace(model_type="toy", eos_token_id=None)
    model: Any = Decoder(config, DecoderSpec(VOCAB, WIDTH, context, layers))
    draws = np.random.default_rng(2)
    model.load_state_dict(
        {
            name: rl.tensor((draws.normal(size=p.shape) * 0.5).astype(np.float32), device=device)
            for name, p in model.state_dict().items()
        },
        assign=True,
    )
    return model.eval()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers grow and slide within a few tokens."""
    monkeypatch.setattr(caches, "SMALLEST", 8)
    monkeypatch.setattr(caches, "SLACK", 5)


def run(model: Any, ids: Array, *rest: Any, **options: Any) -> Array:
    with rl.no_grad():
        found: Array = model(rl.tensor(ids, device=model.device), *rest, **options).numpy()
    return found


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("sizes", [[60], [1] * 20, [3, 20, 1, 1, 12, 2, 1, 20]])
def test_cached_results_equal_uncached_ones(kind: str, sizes: list[int], device: str) -> None:
    model = toy(kind, device)
    expected = run(model, IDS[:, : sum(sizes)])
    cache, found, at = model.new_cache(2), [], 0
    for size in sizes:
        found.append(run(model, IDS[:, at : at + size], cache))
        at += size
    np.testing.assert_allclose(np.concatenate(found, 1), expected, **CLOSE)
    assert cache.longest == sum(sizes) and cache.lengths.tolist() == [sum(sizes)] * 2


@pytest.mark.parametrize("kind", ALL)
def test_rows_of_different_lengths(kind: str, device: str) -> None:
    """Padding on the right, again and again: each row goes on behind its own end."""
    model, cache = toy(kind, device), toy(kind, device).new_cache(2)
    held = [0, 0]
    for counts in ((9, 2), (1, 1), (0, 7), (8, 8), (1, 1), (12, 0), (1, 1), (3, 9)):
        width = max(counts)
        part = np.zeros((2, width), np.int64)
        for row, count in enumerate(counts):
            part[row, :count] = IDS[row, held[row] : held[row] + count]
        lengths = rl.tensor(counts, device=device)
        found = run(model, part, cache, lengths=lengths)
        for row, count in enumerate(counts):
            held[row] += count
            alone = run(model, IDS[row : row + 1, : held[row]])[0]
            if count:
                np.testing.assert_allclose(found[row, :count], alone[held[row] - count :], **CLOSE)
        cache.set_lengths(held)
        assert cache.lengths.tolist() == held


def test_a_window_takes_no_more_room(device: str) -> None:
    model = toy("window", device)
    cache = model.new_cache()
    sizes = set()
    for token in IDS[0]:
        run(model, np.array([[token]]), cache)
        sizes.add(cache.nbytes)
    assert max(sizes) == 2 * 10 * 8 * 4  # 5 tokens before, and room for 5
    run(model, IDS[:1, :20], cache)  # more at a time
    assert cache.nbytes == 2 * 25 * 8 * 4
    small = toy("window", device, context=6).new_cache()
    assert not small.windows, "as wide as the context: all is kept"


@pytest.mark.native
@pytest.mark.parametrize("kind", ["full", "compressed", "two windows"])
def test_truncate_and_fork(kind: str, device: str) -> None:
    model = toy(kind, device)
    cache = model.new_cache(2)
    run(model, IDS[:, :7], cache)
    other, earlier = cache.fork(), cache.fork(4)
    cache.truncate(5)
    assert cache.longest == 5 and cache.lengths.tolist() == [5, 5]
    np.testing.assert_allclose(
        run(model, IDS[:, 5:12], cache), run(model, IDS[:, :12])[:, 5:], **CLOSE
    )
    assert other.lengths.tolist() == [7, 7] and earlier.lengths.tolist() == [4, 4]
    np.testing.assert_allclose(
        run(model, IDS[:, 7:9], other), run(model, IDS[:, :9])[:, 7:], **CLOSE
    )
    np.testing.assert_allclose(
        run(model, IDS[:, 4:9], earlier), run(model, IDS[:, :9])[:, 4:], **CLOSE
    )


def test_a_window_is_truncated_within_its_length(device: str) -> None:
    model = toy("window", device)
    cache = model.new_cache()
    run(model, IDS[:1, :30], cache)
    run(model, IDS[:1, 30:33], cache)  # room for these was made: tokens before 25 are gone
    for length in (29, 12):
        message = (
            rf"truncate: layer 0 keeps a window of 6 tokens and holds none before token 25, so it "
            rf"cannot be cut back to {length}; cut back to 0"
        )
        with pytest.raises(ValueError, match=message):
            cache.truncate(length)
        with pytest.raises(ValueError, match=r"fork: layer 0 keeps a window of 6 tokens"):
            cache.fork(length)
    for length in (32, 31, 30):
        cache.truncate(length)
        found = run(model, IDS[:1, length : length + 9], cache.fork())
        np.testing.assert_allclose(found, run(model, IDS[:1, : length + 9])[:, length:], **CLOSE)
    cache.truncate(0)
    np.testing.assert_allclose(run(model, IDS[:1, :9], cache), run(model, IDS[:1, :9]), **CLOSE)


def test_a_state_cannot_be_cut(device: str) -> None:
    model = toy("window and state", device)
    cache = model.new_cache()
    run(model, IDS[:1, :20], cache)
    copy = cache.fork(20)
    message = (
        r"truncate: layer 1 holds a recurrent state of 20 tokens, which cannot be cut back to 3; "
        r"cut back to 0 and read the tokens again"
    )
    with pytest.raises(ValueError, match=message):
        cache.truncate(3)
    with pytest.raises(ValueError, match=r"fork: layer 1 holds a recurrent state of 20 tokens"):
        cache.fork(19)
    with pytest.raises(ValueError, match=r"truncate: length is -1; it must not be negative"):
        cache.truncate(-1)
    cache.truncate(20)
    cache.truncate(0)
    for each, ids in ((cache, IDS[:1, :9]), (copy, IDS[:1, 20:29])):
        end = each.longest + 9
        expected = run(model, IDS[:1, end - 9 : end] if end == 9 else IDS[:1, :end])[:, -9:]
        np.testing.assert_allclose(run(model, ids, each), expected, **CLOSE)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", ["full of 32", "windows of 32"])
def test_a_narrow_cache_is_near_the_wide_one(kind: str, dtype: str, device: str) -> None:
    """In chunks, over rows that are truncated, forked, and slide in their windows."""
    model = toy(kind, device)
    expected, at, found = run(model, IDS), 0, []
    cache = model.new_cache(2, dtype)
    for size in (3, 20, 1, 1, 12, 2, 21):
        found.append(run(model, IDS[:, at : at + size], cache))
        at += size
    error = np.abs(np.concatenate(found, 1) - expected).max()
    assert 0 < error < NARROW[dtype]
    np.testing.assert_array_equal(
        run(model, IDS[:, :9], cache.fork()), run(model, IDS[:, :9], cache.fork())
    )
    if kind == "full of 32":
        cut = cache.fork(30)
        cache.truncate(30)
        again = run(model, IDS[:, 30:50], cache)
        assert np.abs(again - expected[:, 30:50]).max() < NARROW[dtype]
        np.testing.assert_array_equal(run(model, IDS[:, 30:50], cut), again)


def test_a_narrow_cache_takes_less_room(device: str) -> None:
    """A float32 row of 32 numbers has 128 bytes, in float16 64, packed 36 with scale and gap."""
    sizes = {}
    for dtype in ("float32", *NARROW):
        cache = toy("full of 32", device).new_cache(2, dtype)
        run(toy("full of 32", device), IDS, cache)
        sizes[dtype] = cache.nbytes
        assert cache.nbytes == sum(
            t.shape[0]
            * t.shape[1]
            * t.shape[2]
            * {"float32": 128, "float16": 64, "q8_0": 36}[dtype]
            for kept in cache.buffers
            for t in kept
        )
    assert sizes["float16"] * 2 == sizes["float32"] and sizes["q8_0"] * 32 == sizes["float32"] * 9


def test_a_cache_that_q8_0_cannot_hold_is_named() -> None:
    message = r"layer 0 has 8 features per head, q8_0 holds multiples of 32; use \"float16\" or"
    with pytest.raises(ValueError, match=message):
        toy("full", "cpu").new_cache(1, "q8_0")
    with pytest.raises(ValueError, match="layer 0 keeps compressed keys and values, which q8_0"):
        toy("compressed", "cpu").new_cache(1, "q8_0")
    assert toy("compressed", "cpu").new_cache(1, "float16").dtype is rl.float16
    q, rows = rl.ones(1, 1, 1, 32, requires_grad=True), pack_rows(rl.ones(1, 1, 1, 32))
    with pytest.raises(RuntimeError, match="attention: packed rows pass no gradients on"):
        rl.attention(q, rows, rows)
    with pytest.raises(ValueError, match="rows of 40 are not packed; a multiple of 32 is"):
        pack_rows(rl.ones(2, 40))


# --- generation ----------------------------------------------------------------------------------


def greedy(model: Any, ids: list[int], count: int) -> list[int]:
    """The likeliest tokens, each from all that stands before it, without a cache."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(run(model, np.array([ids]))[0, -1].argmax()))
    return ids[-count:]


@pytest.mark.parametrize("kind", ALL)
def test_generation_is_as_without_a_cache(kind: str, device: str) -> None:
    """Prompts in padded chunks, captured steps, a call that goes on, one that parts ways."""
    model = toy(kind, device)
    prompt = IDS[0, :13].tolist()
    made = [t.id for t in model.tokens(prompt, max_new_tokens=30)]
    assert made == greedy(model, prompt, 30)
    for more in ([*prompt, *made, 7, 8], [*prompt[:9], 3], [*prompt, *made[:20], 9], prompt):
        found = [t.id for t in model.tokens(more, max_new_tokens=4)]
        assert found == greedy(model, more, 4), len(more)
    prompts = [IDS[1, :20].tolist(), [4], IDS[0, 5:12].tolist()]
    for _ in range(2):  # the second goes on with what was captured
        rows, options = model._rows(prompts, {"max_new_tokens": 12})
        assert list(blocking(model._run_rows(rows, options))) == []
        assert [row.telling.pieces.ids for row in rows] == [greedy(model, p, 12) for p in prompts]


@pytest.mark.parametrize("dtype", NARROW)
def test_generation_with_a_narrow_cache(dtype: str, device: str) -> None:
    """Captured steps, batches and a call that goes on give what the model gives step by step."""
    model = toy("windows of 32", device)
    prompt = IDS[0, :13].tolist()

    def expected(ids: list[int], count: int) -> list[float]:
        cache, token, found = model.new_cache(1, dtype), ids, []
        for _ in range(count):
            logits = run(model, np.array([token]), cache)[0, -1].astype(float)
            token = [int(logits.argmax())]
            found.append(logits.max() - np.log(np.exp(logits - logits.max()).sum()) - logits.max())
        return found

    options = {"max_new_tokens": 20, "cache_type": dtype}
    made = list(model.tokens(prompt, **options))
    np.testing.assert_allclose([t.logprob for t in made], expected(prompt, 20), atol=0.05)
    session = model._session
    assert session.cache.dtype.name == dtype
    list(model.tokens([*prompt, *(t.id for t in made)], **options))
    assert model._session is session, "the same cache goes on"
    rows, chosen = model._rows([prompt, [4], prompt[:5]], options)
    list(blocking(model._run_rows(rows, chosen)))
    assert rows[0].telling.pieces.ids == [t.id for t in made]
    list(model.tokens(prompt, max_new_tokens=2))
    assert model._session is not session and model._session.cache.dtype is rl.float32
    with pytest.raises(
        ValueError, match="cache_type is 'q4_0'; it must be one of float32, float16"
    ):
        model.generate(prompt, cache_type="q4_0")


def test_a_row_that_ends_leaves_the_others_as_they_are(device: str) -> None:
    model = toy("window and state", device)
    prompts = [IDS[1, :20].tolist(), [4], IDS[0, 5:12].tolist()]
    alone = [greedy(model, p, 25) for p in prompts]
    model.eos_ids = frozenset({alone[1][5]})
    ended = [row[: row.index(alone[1][5])] if alone[1][5] in row else row for row in alone]
    assert len({len(row) for row in ended}) > 1
    rows, options = model._rows(prompts, {"max_new_tokens": 25})
    list(blocking(model._run_rows(rows, options)))
    assert [row.telling.pieces.ids for row in rows] == ended


def test_a_full_cache_costs_no_op_more(device: str) -> None:
    """Of a captured step: one that only has full layers computes no other offsets."""
    cache = Cache([KeysAndValues(1, 4)] * 3, limit=64, device=device)
    assert all(offset is cache.lengths for offset in cache.offsets())
