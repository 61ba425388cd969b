"""`fast` products with quantized weights against `exact` ones, on real text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native
ROOT = Path(__file__).resolve().parents[2]
TOKENS = 500


def _log_probabilities(model: rl.models.Model, ids: list[int], mode: str) -> np.ndarray:
    """(tokens, vocab): of every next token, in float64."""
    with rl.no_grad(), rl.linear_mode(mode):
        logits = model(rl.tensor([ids])).numpy()[0].astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    found: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_fast_agrees_with_exact_on_500_tokens(name: str) -> None:
    """The likeliest token is the same in 98 of 100 places, the mean KL divergence 0.01 at most."""
    model = rl.models.load("smollm2-135m-instruct")
    ids = model.prompt_ids((ROOT / name).read_text(encoding="utf-8"))[:TOKENS]
    assert len(ids) == TOKENS
    exact, fast = (_log_probabilities(model, ids, mode) for mode in ("exact", "fast"))
    same = float((exact.argmax(-1) == fast.argmax(-1)).mean())
    divergence = float((np.exp(exact) * (exact - fast)).sum(-1).mean())
    print(f"{name}: top-1 agreement {same:.3f}, mean KL {divergence:.2e}")
    assert same >= 0.98 and divergence <= 0.01
    if rl.device("cpu").info["linear"] == "fast":
        assert np.abs(exact - fast).max() > 0  # the modes are two
