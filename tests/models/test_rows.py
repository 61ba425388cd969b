"""Rows that begin and end at any time: each answer is that of a single run, whatever it joins."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rushlight.models.generation.cache_spec import State
from rushlight.models.generation.rows import Rows, can_join
from rushlight.models.generation.sampling import Options
from rushlight.models.generation.session import ChatSession

ANSWERS: list[dict[str, Any]] = [
    {"max_new_tokens": 14},
    {"max_new_tokens": 6, "temperature": 1.0, "seed": 3},
    {"max_new_tokens": 3},
    {"max_new_tokens": 12, "repetition_penalty": 1.4},
    {"max_new_tokens": 9, "temperature": 0.8, "top_k": 9, "seed": 5},
]


class Writing:
    """An answer as a server writes it: `step` gives its next token, None at the end."""

    def __init__(self, model: Any, rows: Rows, ids: list[int], options: dict[str, Any]) -> None:
        self.rows, self.ids, self.options = rows, list(ids), Options(**options)
        self.session: ChatSession = model._resume(ids, "fast", "float32")
        self.kept = len(self.session.ids)
        while len(self.session.ids) < len(ids):
            logits = self.session.read(model, ids[len(self.session.ids) :])
        self.row = rows.join(self.session, logits, ids, self.options)
        self.found: list[int] = []

    def step(self) -> bool:
        """Take the next token; whether there are more."""
        if not self.row.ready:
            self.rows.step()
        ready = self.row.ready.popleft()
        assert not isinstance(ready, Exception)
        self.found.append(ready[0])
        if len(self.found) < self.options.max_new_tokens:
            return True
        self.rows.leave(self.row, self.session, [*self.ids, *self.found])
        return False


def interleaved(model: Any, rows: Rows, prompts: list[list[int]]) -> list[Writing]:
    """Answers of which one more begins every second step."""
    todo = list(zip(prompts, ANSWERS, strict=True))
    open_: list[Writing] = []
    every: list[Writing] = []
    while todo or open_:
        if todo:
            open_.append(Writing(model, rows, *todo.pop(0)))
            every.append(open_[-1])
        for _ in range(2):
            open_ = [writing for writing in open_ if writing.step()]
    return every


NAMES = ["llama", "gemma3", "mistral", "deepseek_v3", "mamba2", "qwen3_next", "rwkv7"]


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_single_runs(name: str, rows: ModuleType, table: ModuleType) -> None:
    row = next(row for row in table.ROWS if row == name or row.startswith(f"{name}_"))
    model = rows.model(row, table)
    model.eos_ids = frozenset()
    draw = np.random.default_rng(2)
    prompts = [draw.integers(3, 60, 2 + 3 * i).tolist() for i in range(len(ANSWERS))]
    assert all(can_join(model, *given) for given in zip(prompts, ANSWERS, strict=True))
    singles = [
        [token.id for token in model.tokens(ids, **options)]
        for ids, options in zip(prompts, ANSWERS, strict=True)
    ]
    beside = Rows(model, "fast", "float32")
    for _ in range(2):  # tables are used again
        model._session = None
        every = interleaved(model, beside, prompts)
        assert [writing.found for writing in every] == singles
        assert beside.count == 0
    # The sessions hold the answers: a next turn goes on from them.
    for writing in every:
        session = writing.session
        held = [*writing.ids, *writing.found]
        assert session.ids == held[: len(session.ids)]
        states = any(isinstance(spec, State) for spec in session.cache.specs)
        if len(session.ids) == len(writing.ids):
            assert states or len(writing.found) == 1
            continue
        more = [*session.ids, 5, 6]
        model._session = session
        after = [token.id for token in model.tokens(more, max_new_tokens=4)]
        model._session = None
        assert [token.id for token in model.tokens(more, max_new_tokens=4)] == after


def test_what_cannot_be_a_row(tiny: Any) -> None:
    model = tiny()
    assert can_join(model, [1, 2], {"max_new_tokens": 3, "temperature": 1.0})
    assert not can_join(model, [1, 2], {"token_mask": [True]})
    assert not can_join(model, [1, 2], {"overflow": "shift"})
    assert not can_join(tiny(stored={"bad_words_ids": [[3]]}), [1, 2], {})
    scaling = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    assert not can_join(tiny(rope_parameters=scaling), [1, 2], {})


def test_rows_outlive_those_that_are_empty(tiny: Any) -> None:
    """Empty rows grow with the others, and are emptied before they fill the cache."""
    model = tiny(max_position_embeddings=512)
    model.eos_ids = frozenset()
    wanted = [token.id for token in model.tokens([5, 6], max_new_tokens=400)]
    beside = Rows(model, "fast", "float32")
    model._session = None
    options = {"max_new_tokens": 400}
    first = Writing(model, beside, [5, 6], options)
    others = [Writing(model, beside, [7, i], {"max_new_tokens": 2}) for i in (8, 9)]
    while first.step():
        others = [writing for writing in others if writing.step()]
    assert first.found == wanted and beside.count == 0
    assert beside.nbytes > 0
