"""Tests of tensors that are made from numbers."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl


@pytest.mark.parametrize("steps", [2, 4, 10, 38])
def test_linspace_backwards_is_the_same(device: str, steps: int) -> None:
    there = rl.linspace(0.1, 7.3, steps, device=device).numpy()
    back = rl.linspace(7.3, 0.1, steps, device=device).numpy()[::-1]
    np.testing.assert_array_equal(there, back)
    assert (there[0], there[-1]) == (np.float32(0.1), np.float32(7.3))
