"""Scalings of rotary positions that depend on a row's length, against their formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.rope import Rope
from rushlight.core.tensor.convert import tensor

DIM, THETA = 8, 10000.0
EXPONENTS = 2 * np.arange(DIM // 2) / DIM
LIMIT = 6
LONG = {
    "rope_type": "longrope",
    "original_max_position_embeddings": LIMIT,
    "max_position_embeddings": 24,
    "short_factor": [1.0, 1.5, 2.0, 3.0],
    "long_factor": [2.0, 4.0, 5.0, 9.0],
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "max_position_embeddings": LIMIT}


@pytest.mark.parametrize("length", [4, 6, 7, 20])
@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_angles_follow_the_length_of_each_row(device: str, kind: str, length: int) -> None:
    rope = Rope(DIM, THETA, DYNAMIC if kind == "dynamic" else LONG)
    rows = np.stack([np.arange(length), np.arange(length) % 3])  # the second is a short row
    found = [t.numpy() for t in rope.angles(tensor(rows, device=device))]
    for row, positions in enumerate(rows):
        tokens, amplitude = positions.max() + 1, 1.0
        if kind == "dynamic":
            stretch = max(tokens, LIMIT) / LIMIT * 4.0 - 3.0
            wanted = (THETA * stretch ** (DIM / (DIM - 2))) ** -EXPONENTS
        else:
            divisors = LONG["long_factor" if tokens > LIMIT else "short_factor"]
            wanted = THETA**-EXPONENTS / np.array(divisors)
            amplitude = np.sqrt(1 + np.log(24 / LIMIT) / np.log(LIMIT))
        angles = positions[:, None] * wanted
        np.testing.assert_allclose(found[0][row], amplitude * np.cos(angles), atol=2e-5)
        np.testing.assert_allclose(found[1][row], amplitude * np.sin(angles), atol=2e-5)


def test_a_length_that_is_given_counts(device: str) -> None:
    """Positions of padding do not lengthen a row."""
    rope = Rope(DIM, THETA, LONG)
    positions = tensor(np.arange(9)[None], device=device)
    cos, _ = rope.angles(positions, tensor([[5]], device=device))
    short, _ = rope.angles(positions[:, :5])
    np.testing.assert_allclose(cos.numpy()[:, :5], short.numpy(), atol=1e-6)


def test_numbers_that_cannot_be() -> None:
    for change in ({"short_factor": [1.0]}, {"long_factor": [1.0, 1.0, 0.0, 1.0]}):
        with pytest.raises(FormatError, match="4 positive numbers as"):
            Rope(DIM, THETA, {**LONG, **change})
    with pytest.raises(FormatError, match="max_position_embeddings None"):
        Rope(DIM, THETA, {"rope_type": "dynamic", "factor": 2.0})
