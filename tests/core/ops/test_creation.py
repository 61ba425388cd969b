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


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_arange_of_fractions_has_whole_steps(device: str, kind: str) -> None:
    # As torch 2.14: the count is of the given numbers, which are cut off after that.
    assert rl.arange(0.5, 20, 2.7, dtype=kind, device=device).tolist() == [*range(0, 16, 2)]
    assert rl.arange(0.5, 2, 0.3, dtype=kind, device=device).tolist() == [0] * 5
