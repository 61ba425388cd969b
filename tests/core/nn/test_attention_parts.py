"""Attention whose scores do not fit at once: parts of the queries give what all give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.functional.network import attention

F: Any = rl.nn.functional


@pytest.mark.parametrize("kind", ["plain", "causal", "seen", "added", "row"])
def test_parts_of_the_queries_give_the_same(
    kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(1)
    q, k, v = (
        rl.tensor(draw.standard_normal((2, 3, n, 4)).astype(np.float32), device=device)
        for n in (7, 5, 5)
    )
    masks = {
        "seen": draw.random((2, 1, 7, 5)) > 0.4,
        "added": draw.standard_normal((7, 5)),
        "row": draw.standard_normal((2, 1, 1, 5)),
    }
    given: dict[str, Any] = {"is_causal": kind == "causal"}
    if kind in masks:
        mask = masks[kind]
        kept = mask if mask.dtype == bool else mask.astype(np.float32)
        given["attn_mask"] = rl.tensor(kept, device=device)
    q.requires_grad_()
    whole = F.scaled_dot_product_attention(q, k, v, **given)
    wanted: Any = rl.autograd.grad(whole.square().sum(), q)[0]
    for most in (1, 65, 100):  # of 210 scores: one query at a time, two, three
        monkeypatch.setattr(attention, "MOST_SCORES", most)
        parts = F.scaled_dot_product_attention(q, k, v, **given)
        found: Any = rl.autograd.grad(parts.square().sum(), q)[0]
        np.testing.assert_allclose(
            parts.detach().cpu().numpy(), whole.detach().cpu().numpy(), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(found.cpu().numpy(), wanted.cpu().numpy(), rtol=1e-4, atol=1e-5)
