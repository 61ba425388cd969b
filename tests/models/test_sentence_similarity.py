"""sentence-similarity: cosines of the encoder's vectors, natively and in the worker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.families.encoder import bert
from rushlight.web.worker import session

TOKENIZER = (Path(__file__).parents[1] / "core" / "data" / "tiny_byte_level.json").read_bytes()
TEXTS = ["a candle", "made of a rush", "", "a candle", "x" * 5000]


@pytest.fixture
def encoder(device: str) -> Any:
    """A random encoder whose vectors are not normalised."""
    rl.manual_seed(3)
    config = dict(
        vocab_size=280,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    model: Any = bert.FAMILY.build(config, []).init_().to(device)
    modules = [{"type": "sentence_transformers.models.Transformer"}]
    model.configure({"tokenizer.json": TOKENIZER, "modules.json": json.dumps(modules).encode()})
    model.tasks = bert.FAMILY.tasks
    assert not model.normalize
    return model.eval()


def test_cosines_of_the_vectors(encoder: Any) -> None:
    vectors = encoder.encode(TEXTS).numpy().astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    seen: list[tuple[int, int]] = []
    pipe = rl.pipeline("sentence-similarity", encoder)
    found = pipe(TEXTS, batch_size=2, progress=lambda *p: seen.append(p))
    np.testing.assert_allclose(found, vectors[1:] @ vectors[0], rtol=1e-4, atol=1e-5)
    assert found[2] == pytest.approx(1, abs=1e-5) and seen == [(2, 5), (4, 5), (5, 5)]
    with pytest.raises(ValueError, match="^sentence-similarity: texts has 1; it must have two"):
        pipe("a candle")


@pytest.mark.native
def test_the_worker_gives_the_same(encoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(session._models, 77, encoder)
    monkeypatch.setitem(session._linear, 77, "exact")

    async def go_on() -> bool:
        return False

    call = session.run(77, "sentence-similarity", TEXTS, {}, go_on, lambda *r: None)
    value, flat = asyncio.run(call)
    assert flat is None and value == rl.pipeline("sentence-similarity", encoder)(TEXTS)


@pytest.mark.native
def test_a_real_answer() -> None:
    found = rl.pipeline("sentence-similarity")(["a candle", "a lamp", "a tax form"])
    np.testing.assert_allclose(found, [0.6349, 0.2474], atol=2e-3)
