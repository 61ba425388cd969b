"""Sentence embeddings: they depend neither on batches nor on how these are padded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models import embedding, sentence, sentence_modules
from rushlight.models.families.encoder import bert
from rushlight.models.model import runs_in_software

TOKENIZER = (Path(__file__).parents[1] / "core" / "data" / "tiny_byte_level.json").read_bytes()
TEXTS = ["a candle", "x", "", "made of a rush", "and a little fat", "light anybody could afford",
         "b", "cc", "ddd"]  # fmt: skip


def tiny(device: str) -> Any:
    """A random encoder over a byte-level tokenizer."""
    rl.manual_seed(3)
    config = dict(
        vocab_size=280,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    model = bert.FAMILY.build(config, []).init_().to(device)
    model.configure({"tokenizer.json": TOKENIZER})
    return model.eval()


@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("pooling", sentence_modules.POOLINGS)
def test_batches_change_nothing(
    device: str, software: bool, pooling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = tiny(device)
    m.pooling = pooling
    one = [m.encode(text).cpu().numpy() for text in TEXTS]
    assert all(abs(np.linalg.norm(v) - 1) < 1e-5 for v in one)
    monkeypatch.setattr(sentence, "runs_in_software", lambda device: software)
    for size in (9, 4, 2):
        found = m.encode(TEXTS, batch_size=size)
        assert found.shape == (9, 24) and found.device is rl.device(device)
        np.testing.assert_allclose(found.cpu().numpy(), np.stack(one), rtol=2e-5, atol=2e-6)
    assert m.encode([]).shape == (0, 24)


def test_poolings_by_definition(device: str) -> None:
    m = tiny(device)
    m.normalize = False
    ids = m.tokenizer.encode("a candle").ids
    with rl.no_grad():
        hidden = m(rl.tensor([ids], device=device)).cpu().numpy()[0].astype(np.float64)
    count = len(ids)
    expected = {
        "mean_tokens": hidden.mean(0),
        "cls_token": hidden[0],
        "max_tokens": hidden.max(0),
        "mean_sqrt_len_tokens": hidden.sum(0) / count**0.5,
        "weightedmean_tokens": np.average(hidden, axis=0, weights=np.arange(1, count + 1)),
        "lasttoken": hidden[-1],
    }
    assert set(expected) == set(sentence_modules.POOLINGS)
    for pooling, value in expected.items():
        where = "1_Pooling"
        modules = [{"type": "x.Transformer"}, {"type": "x.Pooling", "path": where}]
        chosen = {"pooling_mode_mean_tokens": False, f"pooling_mode_{pooling}": True}
        files = {"modules.json": modules, f"{where}/config.json": chosen}
        given = {name: json.dumps(file).encode() for name, file in files.items()}
        m.configure(given | {"tokenizer.json": TOKENIZER})
        found = m.encode(["a candle", "made of a rush"])[0].cpu().numpy()
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)


def test_a_text_without_tokens_is_refused(device: str) -> None:
    """Its mean would be nan."""
    m = tiny(device)
    bare = json.loads(TOKENIZER) | {"post_processor": None}
    m.configure({"tokenizer.json": json.dumps(bare).encode()})
    assert m.encode(["ab"]).shape == (1, 24)
    with pytest.raises(ValueError, match="encode: text 1, '', has no tokens to embed"):
        m.encode(["ab", ""])


def test_few_captures(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU what is left over runs in few sizes; where padding takes time, as it is."""
    m, plans = tiny(device), embedding.embeddings.executables  # type: ignore[attr-defined]
    texts = ["abcdefgh"[: 1 + i % 8] for i in range(40)]
    for software, most in ((False, 4), (True, 8)):
        monkeypatch.setattr(sentence, "runs_in_software", lambda device, s=software: s)
        plans.clear()
        for count in range(1, 9):
            m.encode(texts[:count])
        assert len(plans) == most
    for _ in range(2):
        m.encode(texts[:5])
    assert len(plans) == 8 and sum(e.replays for e in plans.values()) == 2


def test_batches_are_bounded_by_tokens(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts go in smaller batches: little padding, and bounded memory."""
    m, sizes, padded = tiny(device), [], sentence.SentenceEncoder._padded

    def seen(self: Any, batch: Any) -> Any:
        sizes.append((len(batch), max(map(len, batch))))
        return padded(self, batch)

    monkeypatch.setattr(sentence.SentenceEncoder, "_padded", seen)
    texts = ["x" * (1 + i) for i in range(30)]
    expected = m.encode(texts).cpu().numpy()
    assert len(sizes) == 1
    sizes.clear()
    monkeypatch.setattr(sentence, "_TOKENS", {True: 96, False: 96})
    found = m.encode(texts, batch_size=20).cpu().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    assert sum(rows for rows, _ in sizes) == 30 and max(rows for rows, _ in sizes) >= (
        7 if runs_in_software(rl.device(device)) else 6
    )  # a GPU pads more
    assert all(rows == 1 or rows * longest <= 96 for rows, longest in sizes)
