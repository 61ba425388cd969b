"""Recurrent families generate what whole texts give: captured steps, batches, pieces."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables

DATA = Path(__file__).parent / "data" / "families"
RNG = np.random.default_rng(5)
PROMPTS = [RNG.integers(0, 131, n).tolist() for n in (70, 3, 17)]
NEW = 5


def model(row: str, table: ModuleType, device: str) -> Any:
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    names = json.loads(found["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble({"config.json": found["config"].encode()}, tensors, device=device)


def answers(m: Any, count: int) -> list[list[int]]:
    """The likeliest tokens by the whole text each time."""
    found = []
    for prompt in PROMPTS[:count]:
        ids = list(prompt)
        for _ in range(NEW):
            with rl.no_grad():
                ids.append(int(m(rl.tensor([ids], device=m.device))[0, -1].argmax().item()))
        found.append(ids[len(prompt) :])
    return found


def check_generation(known: str, table: ModuleType, device: str, count: int) -> None:
    m, expected = model(known, table, device), answers(model(known, table, "cpu"), count)
    options: dict[str, Any] = {"max_new_tokens": NEW, "temperature": 0.0}
    for prompt, answer in zip(PROMPTS, expected, strict=False):
        assert [t.id for t in m.tokens(prompt, **options)] == answer
    again = PROMPTS[0] + expected[0][:2]  # a turn that steps back
    assert [t.id for t in m.tokens(again, **options)][: NEW - 2] == expected[0][2:]


@pytest.mark.parametrize("known", ["mamba", "mamba2-limits", "recurrent_gemma"])
def test_generation_equals_whole_texts(known: str, table: ModuleType) -> None:
    check_generation(known, table, "cpu", 3)


def test_captured_steps_equal_whole_texts(device: str, table: ModuleType) -> None:
    check_generation("mamba2-limits", table, device, 1)


@pytest.mark.parametrize("known", ["mamba2", "lfm2", "recurrent_gemma-wide"])
def test_a_padded_batch_in_pieces_equals_single_rows(
    known: str, device: str, table: ModuleType
) -> None:
    m = model(known, table, device)
    rows = [PROMPTS[2], PROMPTS[1]]
    cache = m.new_cache(2)
    with rl.no_grad():
        for at in (0, 8, 16):  # the second row's later pieces hold nothing
            piece = [(ids + [0] * 24)[at : at + 8] for ids in rows]
            sizes = [min(max(len(ids) - at, 0), 8) for ids in rows]
            lengths = rl.tensor(sizes, device=device)
            m(rl.tensor(piece, device=device), cache, logits_to_keep=1, lengths=lengths)
        cache.set_lengths([17, 3])
        found = m(rl.tensor([[7], [9]], device=device), cache).numpy()[:, 0]
        for i, (ids, token) in enumerate(zip(rows, (7, 9), strict=True)):
            alone = m(rl.tensor([[*ids, token]], device=device)).numpy()[0, -1]
            np.testing.assert_allclose(found[i], alone, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match=r"truncate: layer \d holds a recurrent state"):
        cache.truncate(2)
    with pytest.raises(ValueError, match=r"fork: layer \d holds a recurrent state"):
        cache.fork(2)
