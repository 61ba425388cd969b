"""A family of each kind of layer on every device, in the tab too, with its cache."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

# Selective scans, these beside attention, RWKV's recurrence, gated delta rules, a linear
# recurrence, convolutions, latent attention, attention with sinks and experts of blocks, an index
# of keys between streams, one of blocks, averages of RWKV 4, and latent attention to the keys that
# an index chooses.
ROWS = (
    "mamba",
    "falcon_h1",
    "rwkv7",
    "qwen3_next",
    "recurrent_gemma",
    "lfm2",
    "deepseek_v3",
    "gpt_oss",
    "hy_v4",
    "minimax_m3_vl_text",
    "rwkv",
    "deepseek_v32",
)


@pytest.mark.parametrize("kind", ROWS)
def test_a_prompt_and_a_token_after_it(
    kind: str, device: str, table: ModuleType, rows: ModuleType
) -> None:
    m, (out, _) = rows.model(kind, table, device), rows.golden(kind)
    ids, cache = table.ids_of(m.vocab_size), m.new_cache(2)
    parts = [rows.run(m, ids[:, a:b], cache) for a, b in ((0, 12), (12, 13))]
    bound = (1e-4 if device == "cpu" else 1e-3) * np.abs(out).max()
    assert np.abs(np.concatenate(parts, 1) - out).max() < bound
