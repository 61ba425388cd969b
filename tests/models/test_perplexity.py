"""Perplexity by its definition, divergence from a base, and importance against NumPy in float64."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.imatrix import read_imatrix
from rushlight.models.importance import gguf_names, importance
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.decoder import Decoder, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.perplexity import perplexity

Array = npt.NDArray[Any]
VOCAB, WIDTH, CONTEXT, EPS = 40, 8, 64, 1e-5
IDS = np.random.default_rng(7).integers(0, VOCAB, 61).tolist()


def toy(seed: int, device: str, vocab: int = VOCAB) -> Any:
    """A layer with an MLP and one with a mixture of experts; no positions."""
    attention = AttentionSpec(2, 1, 4)
    layers = (LayerSpec(attention, MLPSpec(12)), LayerSpec(attention, ExpertsSpec(5, 2, 6)))
    config = SimpleNamespace(model_type="llama", eos_token_id=None)
    model: Any = Decoder(config, DecoderSpec(vocab, WIDTH, CONTEXT, layers, norm=NormSpec(eps=EPS)))
    draws = np.random.default_rng(seed)
    model.load_state_dict(
        {
            name: rl.tensor((draws.normal(size=p.shape) * 0.6).astype(np.float32), device=device)
            for name, p in model.state_dict().items()
        },
        assign=True,
    )
    return model.eval()


def log_probabilities(model: Any, ids: list[int]) -> Array:
    """After every token of one window, without a cache, in float64."""
    with rl.no_grad():
        logits = model(rl.tensor([ids], device=model.device)).numpy()[0].astype(float)
    top = logits.max(-1, keepdims=True)
    found: Array = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return found


def wanted(model: Any, starts: list[int], context: int, first: int) -> tuple[Array, Array]:
    """The log-probabilities that are counted, (n, vocab), and the tokens that followed."""
    rows, tokens = [], []
    for start in starts:
        window = IDS[start : start + context]
        rows.append(log_probabilities(model, window)[first:-1])
        tokens += window[first + 1 :]
    return np.concatenate(rows), np.array(tokens)


@pytest.mark.parametrize(
    ("context", "stride", "starts", "first"),
    [
        (20, None, [0, 20, 40], 10),
        (13, None, [0, 13, 26, 39], 6),
        (20, 4, [*range(0, 42, 4)], 15),
        (60, 50, [0], 30),
    ],
)
def test_by_its_definition(
    context: int,
    stride: int | None,
    starts: list[int],
    first: int,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second half of every window counts, read in pieces of any size."""
    model = toy(1, device)
    rows, tokens = wanted(model, starts, context, first)
    nll = -rows[np.arange(len(tokens)), tokens]
    for chunk in (7, 128):
        monkeypatch.setattr("rushlight.models.perplexity.CHUNK", chunk)
        told: list[tuple[int, int]] = []
        found = perplexity(
            model,
            IDS,
            context=context,
            stride=stride,
            progress=lambda *n, told=told: told.append(n),
        )
        assert told == [(i + 1, len(starts)) for i in range(len(starts))]
        assert (found.tokens, found.windows, found.kl) == (len(tokens), len(starts), None)
        assert found.perplexity == pytest.approx(np.exp(nll.mean()), rel=1e-4)
        error = nll.std() / np.sqrt(len(nll) - 1) * np.exp(nll.mean())
        assert found.error == pytest.approx(error, rel=1e-3)


def test_divergence_from_a_base(device: str) -> None:
    model, base = toy(1, device), toy(2, device)
    q, _ = wanted(model, [0, 20, 40], 20, 10)
    p, _ = wanted(base, [0, 20, 40], 20, 10)
    each = (np.exp(p) * (p - q)).sum(1)
    found = perplexity(model, IDS, context=20, base=base)
    assert found.kl == pytest.approx(each.mean(), rel=1e-3)
    assert found.kl_error == pytest.approx(each.std() / np.sqrt(len(each) - 1), rel=1e-3)
    assert found.same_top == pytest.approx((p.argmax(1) == q.argmax(1)).mean())
    same = perplexity(model, IDS, context=20, base=model)
    assert same.kl == pytest.approx(0, abs=1e-6) and same.same_top == 1
    narrow = perplexity(model, IDS, context=20, base=model, cache_type="float16")
    assert narrow.kl is not None and 0 < narrow.kl < 1e-4


def test_the_first_special_token_begins_every_window(monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts = toy(1, "cpu"), {"": [3], "text": [3, *IDS[:39]]}
    model.tokenizer = SimpleNamespace(
        encode=lambda text, **_: SimpleNamespace(ids=list(texts[text]))
    )
    ids = [3, *IDS[:39]]
    begun = [*ids[:20], 3, *ids[21:]]
    assert perplexity(model, "text", context=20) == perplexity(model, begun, context=20)
    assert perplexity(model, "text", context=20) != perplexity(model, ids, context=20)
    texts[""] = []
    assert perplexity(model, "text", context=20) == perplexity(model, ids, context=20)


def test_what_does_not_fit_is_named() -> None:
    model = toy(1, "cpu")
    for options, message in (
        ({"context": 65}, "context is 65; it must be from 4 to the model's 64"),
        ({"context": 62}, "the text has 61 tokens, fewer than the context of 62; pass a longer"),
        ({"context": 20, "stride": 0}, "stride is 0; it must be at least 1"),
        ({"context": 20, "base": toy(1, "cpu", 41)}, "the base has 41 tokens, the model 40"),
    ):
        with pytest.raises(ValueError, match=message):
            perplexity(model, IDS, **options)


# --- importance ----------------------------------------------------------------------------------


def normed(x: Array, weight: Array) -> Array:
    out: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight
    return out


def silu(x: Array) -> Array:
    out: Array = x / (1 + np.exp(-x))
    return out


def importance_in_float64(model: Any, windows: list[list[int]]) -> dict[str, tuple[Array, Array]]:
    """Sums of squares and counts by name, by the toy's formula, a window at a time."""
    w = {n: p.numpy().astype(float) for n, p in model.state_dict().items()}
    found: dict[str, tuple[Array, Array]] = {}

    def note(name: str, x: Array, experts: int = 1, index: Any = 0) -> None:
        sums, counts = np.zeros((experts, x.shape[-1])), np.zeros(experts)
        for row, one in zip(x, np.broadcast_to(index, len(x)), strict=True):
            sums[one] += row * row
            counts[one] += 1
        before = found.get(name, (0, 0))
        found[name] = before[0] + sums, before[1] + counts

    for ids in windows:
        x = w["model.embed_tokens.weight"][ids]
        for i in range(2):
            path, blk = f"model.layers.{i}.", f"blk.{i}."
            y = normed(x, w[f"{path}input_layernorm.weight"])
            for part in ("q", "k", "v"):
                note(f"{blk}attn_{part}.weight", y)
            q, k, v = (y @ w[f"{path}self_attn.{n}_proj.weight"].T for n in "qkv")
            heads = []
            for head in (q[:, :4], q[:, 4:]):
                scores = np.where(np.tri(len(ids)) > 0, head @ k.T / 2, -np.inf)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                heads.append(weights / weights.sum(-1, keepdims=True) @ v)
            y = np.concatenate(heads, 1)
            note(f"{blk}attn_output.weight", y)
            x = x + y @ w[f"{path}self_attn.o_proj.weight"].T
            y = normed(x, w[f"{path}post_attention_layernorm.weight"])
            if i == 0:
                note("blk.0.ffn_gate.weight", y)
                note("blk.0.ffn_up.weight", y)
                gate, up, down = (w[f"{path}mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
                y = silu(y @ gate.T) * (y @ up.T)
                note("blk.0.ffn_down.weight", y)
                x = x + y @ down.T
                continue
            note("blk.1.ffn_gate_inp.weight", y)
            gate, up, down = (
                w[f"{path}mlp.experts.{n}_proj.weight"] for n in ("gate", "up", "down")
            )
            shares = np.exp(y @ w[f"{path}mlp.gate.weight"].T)
            out = np.zeros_like(x)
            for row, share in enumerate(shares):
                chosen = np.argsort(-share)[:2]
                for one in chosen:
                    note("blk.1.ffn_gate_exps.weight", y[row : row + 1], 5, one)
                    note("blk.1.ffn_up_exps.weight", y[row : row + 1], 5, one)
                    z = silu(gate[one] @ y[row]) * (up[one] @ y[row])
                    note("blk.1.ffn_down_exps.weight", z[None], 5, one)
                    out[row] += down[one] @ z * share[one] / share[chosen].sum()
            x = x + out
    return found


def test_importance_is_that_of_float64(device: str, tmp_path: Path) -> None:
    model = toy(1, device)
    found = importance(model, IDS, context=20, linear="exact")
    expected = importance_in_float64(model, [IDS[a : a + 20] for a in (0, 20, 40)])
    assert (
        found.sums.keys()
        == expected.keys()
        == set(gguf_names(model).values())
        - {name for name in gguf_names(model).values() if "norm" in name}
    )
    for name, (sums, counts) in expected.items():
        np.testing.assert_allclose(found.sums[name], sums, rtol=1e-3, atol=1e-4, err_msg=name)
        np.testing.assert_array_equal(found.counts[name], counts, err_msg=name)
    assert found.quality == perplexity(model, IDS, context=20, linear="exact")
    assert not any("forward" in vars(module) for module in model.modules())

    found.save(tmp_path / "i.gguf", ["toy"])
    found.save(tmp_path / "i.dat", ["toy"])
    new, old = read_imatrix(tmp_path / "i.gguf"), read_imatrix(tmp_path / "i.dat")
    for name, (sums, counts) in expected.items():
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], 1)
        np.testing.assert_allclose(np.atleast_2d(new[name]), means, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(old[name], means.reshape(-1), rtol=1e-3, atol=1e-5)
    for ending in ("gguf", "dat"):
        before = (tmp_path / f"i.{ending}").read_bytes()
        with pytest.raises(FileExistsError, match=f"i.{ending} exists already"):
            found.save(tmp_path / f"i.{ending}")
        found.save(tmp_path / f"i.{ending}", ["toy"], overwrite=True)
        assert (tmp_path / f"i.{ending}").read_bytes() == before
    # The older format ends with the number of chunks and the text's name.
    assert before.endswith(struct.pack("<ii", 3, 3) + b"toy")


def test_importance_leaves_a_model_as_it_was() -> None:
    model = toy(1, "cpu")
    with pytest.raises(ValueError, match="the text has 61 tokens"):
        importance(model, IDS, context=64)
    assert not any("forward" in vars(module) for module in model.modules())
    model.config.model_type = "albert"
    with pytest.raises(ValueError, match="albert has no names in GGUF"):
        importance(model, IDS, context=20)
