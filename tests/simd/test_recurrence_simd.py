"""Recurrences by every instruction set: sizes around vectors, strides, decays that underflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.ops.recurrence import DELTA_SCAN, SELECTIVE_SCAN
from rushlight.core.tools.testing import assert_close, draws

Both = Callable[..., tuple[Any, Any]]


def on(x: Any, turned: bool = False) -> rl.Tensor | None:
    """float32, with the first two dims swapped in memory if `turned`."""
    if x is None:
        return None
    given = rl.tensor(x.astype(np.float32))
    return given.transpose(0, 1).contiguous().transpose(0, 1) if turned else given


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 70])
@pytest.mark.parametrize("groups", [1, 2])
def test_selective_scan(variant: str, both: Both, channels: int, groups: int) -> None:
    channels *= groups
    shape, n = (2, 9, channels), 5
    steps = abs(draws(1, shape)) * np.array([0.1, 1, 300])[np.arange(9) % 3, None]
    parts = [
        draws(2, shape),
        steps,
        -abs(draws(3, (channels, n))),
        draws(4, (2, 9, groups, n)),
        draws(5, (2, 9, groups, n)),
        draws(6, (2, channels, n)),
    ]
    for turned in (False, True):
        mine, theirs = both(SELECTIVE_SCAN, *(on(x, turned) for x in parts))
        assert_close(mine, theirs.numpy().astype(float), "several")


@pytest.mark.parametrize("values", [1, 15, 16, 33, 70])
@pytest.mark.parametrize("removes", [False, True])
def test_delta_scan(variant: str, both: Both, values: int, removes: bool) -> None:
    parts = [draws(i, (2, 3, 6, n)) / 2 for i, n in enumerate((7, 7, 7, values, 7, 7))]
    state = draws(7, (2, 3, 7, values))
    for before in (False, True):
        given = [*parts[:4], *(parts[4:] if removes else (None, None)), state]
        given[1] = given[1][..., :1] if before else given[1]
        mine, theirs = both(DELTA_SCAN, *(on(x, before) for x in given), before=before)
        assert_close(mine, theirs.numpy().astype(float), "several")


@pytest.mark.parametrize("keys", [1, 5, 16, 70, 300])  # rows of more than one part
@pytest.mark.parametrize("values", [3, 16, 50])
def test_delta_scan_of_several_tokens(variant: str, both: Both, keys: int, values: int) -> None:
    """Heads with one decay read tokens in blocks; decays underflow, or are 0 or 1."""
    r, k, v = (draws(i, (2, 3, 21, n)) / 2 for i, n in enumerate((keys, keys, values)))
    decay = np.abs(draws(3, (2, 3, 21, 1))) % 1 * np.array([1, 1e-30, 0])[np.arange(21) % 3, None]
    decay[:, 1], state = 1, draws(4, (2, 3, keys, values))
    for before in (False, True):
        for turned in (False, True):
            given = [*(on(x, turned) for x in (r, decay, k, v)), None, None, on(state, turned)]
            mine, theirs = both(DELTA_SCAN, *given, before=before)
            assert_close(mine, theirs.numpy().astype(float), "several")


def test_states_side_by_side(variant: str, both: Both) -> None:
    """States (batch, n, channels) in memory, as the cache of a model keeps them."""
    for channels, n in ((16, 8), (37, 4), (5, 3)):
        parts = [draws(i, (2, 3, channels)) for i in range(2)]
        a, state = -abs(draws(2, (channels, n))), draws(3, (2, n, channels))
        b, c = draws(4, (2, 3, 1, n)), draws(5, (2, 3, 1, n))
        given = (on(x) for x in (parts[0], abs(parts[1]), a, b, c))
        mine, theirs = both(SELECTIVE_SCAN, *given, rl.tensor(state).float().transpose(1, 2))
        assert_close(mine, theirs.numpy().astype(float), "several")
