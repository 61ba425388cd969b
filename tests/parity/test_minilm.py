"""all-MiniLM-L6-v2 agrees with the published implementation over 40 texts of many scripts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors

# One worker: both would read all the texts.
pytestmark = [pytest.mark.native, pytest.mark.xdist_group("parity/test_minilm.py")]
DATA = Path(__file__).parent / "data"
TEXTS: list[str] = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=["cpu", "webgpu"])
def model(request: pytest.FixtureRequest) -> rl.models.Model:
    return rl.models.load("all-minilm-l6-v2", device=request.param)


@pytest.fixture(scope="module")
def embeddings(model: rl.models.Model) -> np.ndarray:
    # The longest four fill a batch with 1,024 tokens.
    found: np.ndarray = model.encode(TEXTS, batch_size=4).cpu().numpy()
    return found


def test_agrees_with_the_published_implementation(embeddings: np.ndarray) -> None:
    golden = load_safetensors(DATA / "minilm.safetensors")["embeddings"].numpy()
    assert embeddings.shape == golden.shape == (40, 384)
    cosine = (embeddings.astype(np.float64) * golden).sum(1)
    assert cosine.min() >= 0.99999
    assert np.abs(embeddings - golden).max() <= 1e-5


def test_a_batch_equals_one_by_one(model: rl.models.Model, embeddings: np.ndarray) -> None:
    for i in (0, 3, 5, 14, 37, 39):
        alone = model.encode(TEXTS[i]).cpu().numpy()
        assert np.abs(alone - embeddings[i]).max() <= 1e-6


def test_vectors_have_length_one_and_order_is_kept(
    model: rl.models.Model, embeddings: np.ndarray
) -> None:
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-6)
    back = model.encode(TEXTS[9::-1], batch_size=3).cpu().numpy()  # batches of other rows
    assert np.abs(back[::-1] - embeddings[:10]).max() <= 1e-6


def test_progress_counts_texts(model: rl.models.Model) -> None:
    seen: list[tuple[int, int]] = []
    model.encode(["a", "b", "c"], batch_size=2, progress=lambda *p: seen.append(p))
    assert seen == [(2, 3), (3, 3)]


def test_limits_and_pooling_come_from_the_checkpoint(model: rl.models.Model) -> None:
    assert (model.max_length, model.pooling, model.normalize) == (256, "mean_tokens", True)
