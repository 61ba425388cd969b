"""Tokens that LED's encoder is told are global: transformers' results."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl

# Some of the logits of transformers 5.24, without padding and with it.
PLAIN = [-1.592903, -0.746767, -1.139613, 0.323767, -1.083118, -0.722344, 0.554618, -0.228172]
PADDED = [-1.592903, -0.746767, -1.139613, 0.323767, -1.096597, -0.718355, 0.55901, -0.235976]


@pytest.mark.parametrize("padded", [False, True])
def test_global_tokens_see_all_and_are_seen(
    padded: bool, table: ModuleType, rows: ModuleType
) -> None:
    m: Any = rows.model("led", table)
    ids, after = (rl.tensor(x) for x in rows.given("led", table))
    chosen = np.zeros((2, 13), np.int64)
    chosen[:, 0] = chosen[0, 5] = 1
    mask = rl.tensor(np.arange(13) < np.array([[13], [9]])) if padded else None
    with rl.no_grad():
        found = m(ids, after, mask, global_attention_mask=rl.tensor(chosen)).numpy().reshape(-1)
        without = m(ids, after, mask).numpy().reshape(-1)
    some = np.linspace(0, found.size - 1, 8).astype(int)
    np.testing.assert_allclose(found[some], PADDED if padded else PLAIN, rtol=1e-4, atol=5e-6)
    assert np.abs(found - without).max() > 0.01
