"""wordllama's static embeddings, real weights: the vectors that its package gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

GOLDEN = json.loads((Path(__file__).parent / "data" / "wordllama.json").read_bytes())


pytestmark = pytest.mark.native


def test_vectors_are_wordllamas(device: str) -> None:
    m: Any = rl.models.load("wordllama", device)
    found = m.encode(GOLDEN["texts"]).cpu().numpy()
    np.testing.assert_allclose(found, GOLDEN["vectors"], rtol=1e-4, atol=1e-5)
    near = rl.pipeline("sentence-similarity", m)(["fast car", "quick automobile", "rain in May"])
    assert near[0] > near[1] + 0.2
