"""PrefixCache: conversations that take turns, bounds, files; sinks; scores and states of tokens."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables, save_safetensors
from rushlight.models.generation.session import DecodeSession

DATA = Path(__file__).parent / "data" / "families"
RNG = np.random.default_rng(8)
A, B = (RNG.integers(3, 250, n).tolist() for n in (120, 90))


@pytest.fixture(scope="module")
def toys() -> ModuleType:
    path = Path(__file__).parent / "test_generate.py"
    spec = importlib.util.spec_from_file_location("generate_toys", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each part of a prompt had."""
    counts: list[int] = []
    take = DecodeSession.take

    def taking(self: Any, *given: Any) -> Any:
        answer = take(self, *given)
        counts.append(sum(answer[0]))
        return answer

    monkeypatch.setattr(DecodeSession, "take", taking)
    return counts


def ids(model: Any, prompt: list[int], count: int = 4, **options: Any) -> list[int]:
    return [t.id for t in model.tokens(prompt, max_new_tokens=count, **options)]


def of_family(row: str, table: ModuleType) -> Any:
    metadata = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    names = json.loads(metadata["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble({"config.json": metadata["config"].encode()}, tensors)


def test_conversations_take_turns(toys: ModuleType, device: str, read: list[int]) -> None:
    """Each reads what is new of its next turn; answers are those of an own session."""
    m, fresh = toys.tiny(device), toys.tiny(device)
    m.eos_ids = fresh.eos_ids = frozenset()
    m.prefix_cache = rl.models.PrefixCache(1 << 24)
    turns = {"a": list(A), "b": list(B)}
    for number in range(2):
        for name in turns:
            read.clear()
            answer = ids(m, turns[name])
            new, fresh._session = sum(read), None
            assert answer == ids(fresh, turns[name])
            if number:
                assert new <= 13
            turns[name] += [*answer, *RNG.integers(3, 250, 8).tolist()]
    assert 1 <= len(m.prefix_cache.entries) <= 3
    with rl.no_grad():
        m.lm_head.weight.mul_(-1)
    assert ids(m, turns["a"]) != ids(fresh, turns["a"])
    m.prefix_cache.follow(m)
    assert len(m.prefix_cache.entries) == 0


def test_the_bound_is_kept(toys: ModuleType) -> None:
    m = toys.tiny()
    one = m.new_cache(1)
    one.make_room(128)
    m.prefix_cache = cache = rl.models.PrefixCache(3 * 140 * 2 * 2 * 2 * 8 * 4)
    prompts = [RNG.integers(3, 250, 100).tolist() for _ in range(7)]
    for prompt in prompts:
        ids(m, prompt, 2)
    assert 0 < cache.nbytes <= cache.max_bytes and 2 <= len(cache.entries) < 6
    assert [list(e.ids[:100]) for e in cache.entries] == prompts[6 - len(cache.entries) : 6]
    tiny = rl.models.PrefixCache(1000)
    m.prefix_cache = tiny
    ids(m, prompts[0]), ids(m, prompts[1])
    assert not tiny.entries
    with pytest.raises(ValueError, match="max_bytes is 0, every is 256; both must be above 0"):
        rl.models.PrefixCache(0)


@pytest.mark.parametrize("known", ["mamba2", "lfm2", "gemma3"])
def test_states_that_cannot_be_cut_have_checkpoints(
    known: str, table: ModuleType, read: list[int]
) -> None:
    """The next turn, whose template dropped a part, reads it and at most `every` tokens more."""
    m, fresh = of_family(known, table), of_family(known, table)
    m.eos_ids = fresh.eos_ids = frozenset()
    m.prefix_cache = rl.models.PrefixCache(1 << 26, every=16)
    size = min(m.context_length - 24, 100)
    prompt = [i % m.vocab_size for i in A[:size]]
    answer = ids(m, prompt)
    for kept in (size, size - 5):
        later = [*prompt[:kept], *answer[2:], 7, 8, 9]
        read.clear()
        said = ids(m, later)
        assert sum(read) <= len(later) - kept + 128
        if kept == size:
            assert sum(read) <= 6
        assert said == ids(fresh, later)


def test_files(toys: ModuleType, tmp_path: Path, read: list[int]) -> None:
    m, path = toys.tiny(), tmp_path / "prefixes.safetensors"
    m.prefix_cache = rl.models.PrefixCache()
    expected = ids(m, A), ids(m, B)
    m.prefix_cache.save(path, m)
    other = toys.tiny()
    other.prefix_cache = rl.models.PrefixCache()
    asyncio.run(other.prefix_cache.load_async(path, other))
    assert len(other.prefix_cache.entries) == 2
    read.clear()
    assert (ids(other, A), ids(other, B)) == expected and sum(read) <= 2
    asyncio.run(other.prefix_cache.save_async(tmp_path / "again", other))
    with rl.no_grad():
        other.lm_head.weight.mul_(1.5)
    with pytest.raises(ValueError, match="was read by other weights of llama of 280 tokens"):
        rl.models.PrefixCache().load(path, other)
    with pytest.raises(ValueError, match="was read by llama of 280 tokens, 2 x"):
        rl.models.PrefixCache().load(path, toys.tiny(num_attention_heads=8, num_key_value_heads=4))
    tensors, metadata = rl.load(path), open_tables(path)[0][1].metadata
    for name, changed, message in (
        ("0.ids", tensors["0.ids"] + 500, "its entries are damaged"),
        ("0.1.0", tensors["0.1.0"][:, :, :3], "its entries are damaged"),
        ("1.0.1", None, "lacks the tensor 1.0.1"),
    ):
        bad = {n: t for n, t in tensors.items() if n != name}
        bad |= {} if changed is None else {name: changed.contiguous()}
        save_safetensors(bad, tmp_path / "bad.safetensors", metadata)
        with pytest.raises(rl.FormatError, match=message):
            rl.models.PrefixCache().load(tmp_path / "bad.safetensors", m)
    rl.save({"x": rl.zeros(1)}, tmp_path / "none.safetensors")
    with pytest.raises(rl.FormatError, match="is no prefix cache"):
        rl.models.PrefixCache().load(tmp_path / "none.safetensors", m)


def test_windows_survive_a_file(table: ModuleType, tmp_path: Path) -> None:
    m, again = of_family("gemma3", table), of_family("gemma3", table)
    prompt = [i % m.vocab_size for i in A[: min(m.context_length - 8, 60)]]
    m.prefix_cache = rl.models.PrefixCache()
    expected = ids(m, prompt)
    m.prefix_cache.save(tmp_path / "x.safetensors", m)
    again.prefix_cache = rl.models.PrefixCache()
    again.prefix_cache.load(tmp_path / "x.safetensors", again)
    assert again.prefix_cache.entries and ids(again, prompt) == expected


def test_sinks(toys: ModuleType) -> None:
    """What a shifted context keeps of its beginning."""
    m = toys.tiny(max_position_embeddings=24)
    for sinks in (0, 2, 6):
        shifted = ids(m, list(range(60)), 1, overflow="shift", sinks=sinks)
        assert shifted == ids(m, [*range(sinks), *range(48, 60)], 1)
    with pytest.raises(ValueError, match="the prompt has 60 tokens, the context holds 24"):
        ids(m, list(range(60)), 1, overflow="raise")


def test_scores(toys: ModuleType, device: str) -> None:
    """The logarithms of softmax after each token, read in parts; a prompt is not scored."""
    m = toys.tiny(device)
    row = [*A, *B, 5]
    with rl.no_grad():
        logits = m(rl.tensor([row], device=device)).cpu().numpy()[0].astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = [logs[i, row[i + 1]] for i in range(len(row) - 1)]
    scores = m.score(row)
    assert scores.ids == row[1:]
    np.testing.assert_allclose(scores.logprobs, expected, atol=2e-4)
    assert scores.total == pytest.approx(sum(expected), rel=1e-4)
    assert scores.perplexity == pytest.approx(np.exp(-np.mean(expected)), rel=1e-3)
    later = asyncio.run(m.score_async(row[100:], prompt=row[:100]))
    assert later.ids == row[100:]
    np.testing.assert_allclose(later.logprobs, expected[99:], atol=2e-4)
    text = m.score("the cat", prompt="a dog and ")
    assert text.ids == m.tokenizer.encode("the cat", add_special_tokens=False).ids
    with pytest.raises(ValueError, match="the text has 600 tokens, the context holds 512"):
        m.score([1] * 600)


def test_hidden_states(toys: ModuleType) -> None:
    """Before each layer, then what the head reads; vectors by the last token or the mean."""
    m = toys.tiny()
    row = rl.tensor([A[:9]])
    with rl.no_grad():
        states = m.hidden_states(row)
        assert len(states) == 3 and not m.model.layers[0]._forward_pre_hooks
        np.testing.assert_allclose(states[0].numpy(), m.model.embed_tokens(row).numpy())
        np.testing.assert_allclose(m.logits(states[-1]).numpy(), m(row).numpy(), atol=1e-5)
        words = m.tokenizer.encode("the cat sat").ids
        last = m.hidden_states(rl.tensor([words]))[-1].numpy()[0]
    for pooling, expected in (("lasttoken", last[-1]), ("mean_tokens", last.mean(0))):
        vector = m.encode("the cat sat", pooling=pooling).numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    with pytest.raises(ValueError, match="pooling 'last' is not supported; supported: cls_token"):
        m.encode("the cat sat", pooling="last")


def test_attentions(toys: ModuleType) -> None:
    """The weights of each layer, which with its values make what the layer's product reads."""
    m = toys.tiny()
    row = rl.tensor([A[:9]])
    seen: list[tuple[rl.Tensor, rl.Tensor]] = []
    with rl.no_grad():
        hooks = [
            layer.self_attn.o_proj.register_forward_pre_hook(
                lambda _, given, v=layer.self_attn.v_proj: seen.append((given[0], values[v]))
            )
            for layer in m.model.layers
        ]
        values: dict[rl.nn.Module, rl.Tensor] = {}
        hooks += [
            layer.self_attn.v_proj.register_forward_hook(
                lambda module, _, out: values.update({module: out})
            )
            for layer in m.model.layers
        ]
        weights = m.attentions(row)
        for hook in hooks:
            hook.remove()
        assert [tuple(w.shape) for w in weights] == [(1, 4, 9, 9)] * 2
        for w, (summed, v) in zip(weights, seen, strict=True):
            np.testing.assert_allclose(w.sum(-1).numpy(), 1, atol=1e-5)
            assert not w.numpy()[..., ~np.tri(9, dtype=bool)].any()
            heads = v.reshape(1, 9, 2, 8).transpose(1, 2).repeat_interleave(2, 1)
            made = (w @ heads).transpose(1, 2).reshape(1, 9, 32)
            np.testing.assert_allclose(made.numpy(), summed.numpy(), atol=1e-5)
        assert m.attentions(row[:, :4])[0].shape == (1, 4, 4, 4)
