"""generation_config.json: what language models follow of it, unless a caller says otherwise."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl

PROMPT, OTHER = [5, 6, 7, 9, 6, 7], [40, 41]


@pytest.fixture(scope="module")
def toys() -> ModuleType:
    path = Path(__file__).parent / "test_generate.py"
    spec = importlib.util.spec_from_file_location("generate_toys", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ids(model: Any, prompt: list[int] = PROMPT, **options: Any) -> list[int]:
    return [t.id for t in model.tokens(prompt, **options)]


def greedy(model: Any, prompt: list[int], count: int, allow: Callable[..., Any]) -> list[int]:
    """The likeliest tokens among those that `allow(row, place)` does not return."""
    row = list(prompt)
    for at in range(count):
        with rl.no_grad():
            scores = model(rl.tensor([row])).numpy()[0, -1].copy()
        scores[sorted(allow(row, at))] = -np.inf
        row.append(int(scores.argmax()))
    return row[len(prompt) :]


def test_what_the_file_forbids(toys: ModuleType) -> None:
    """In an answer alone and in a batch; a mask of the caller's forbids more."""
    plain = toys.tiny()
    free = ids(plain, max_new_tokens=5)
    cases: list[tuple[dict[str, Any], Callable[..., Any]]] = [
        ({"suppress_tokens": free[:2]}, lambda row, at: free[:2]),
        ({"begin_suppress_tokens": free[:1]}, lambda row, at: free[:1] if not at else []),
        ({"no_repeat_ngram_size": 1}, lambda row, at: set(row)),
        (
            {"bad_words_ids": [[free[1]], free[2:4]]},
            lambda row, at: [free[1], *([free[3]] if row[-1] == free[2] else [])],
        ),
        (
            {"eos_token_id": free[1], "min_new_tokens": 4},
            lambda row, at: [free[1]] if at < 4 else [],
        ),
    ]
    for stored, allow in cases:
        m = toys.tiny(stored=stored)
        wanted = greedy(plain, PROMPT, 5, allow)
        ends = {stored.get("eos_token_id", 277)}
        wanted = wanted[: next((i + 1 for i, t in enumerate(wanted) if t in ends), 5)]
        assert ids(m, max_new_tokens=5) == wanted != free, stored
        one = m.generate_batch([OTHER, PROMPT], max_new_tokens=5)[1]
        assert one == "".join(m.generate(PROMPT, max_new_tokens=5)), stored
        mask = np.ones(toys.VOCAB, np.bool_)
        mask[wanted[0]] = False
        barred = greedy(plain, PROMPT, 1, lambda row, at, a=allow, w=wanted: [*a(row, at), w[0]])
        for given in (mask, rl.tensor(mask)):
            assert ids(m, max_new_tokens=1, token_mask=given) == barred


def test_its_numbers_are_defaults(toys: ModuleType, device: str) -> None:
    """A caller's come first, then those of the file, then ours; None is none of a caller's."""
    plain = toys.tiny(device)
    m = toys.tiny(
        device,
        stored={
            "repetition_penalty": 5.0,
            "max_new_tokens": 3,
            "temperature": 0.5,
            "no_repeat_ngram_size": 0,
        },
    )
    assert ids(m) == ids(plain, repetition_penalty=5.0, max_new_tokens=3)
    assert ids(m, repetition_penalty=None, temperature=None, max_new_tokens=2) == ids(m)[:2]
    assert ids(m, repetition_penalty=1.0, max_new_tokens=6) == ids(plain, max_new_tokens=6)
    pipe = rl.pipeline("text-generation", m)
    assert pipe(PROMPT) == "".join(m.generate(PROMPT))
    said = pipe(PROMPT, max_new_tokens=5, repetition_penalty=1.0)
    assert said == "".join(plain.generate(PROMPT, max_new_tokens=5))
    messages = [{"role": "user", "content": "hi"}]
    assert "".join(m.chat(messages)) == rl.pipeline("chat", m)(messages)
    assert len(ids(plain, max_new_tokens=7)) == 7


def test_drawing_is_asked_for_by_do_sample(toys: ModuleType) -> None:
    """With the reference's top_k of 50 and the file's numbers; temperature=0 draws nothing."""
    plain = toys.tiny()
    told = {"do_sample": True, "temperature": 1.5, "top_p": 0.9}
    m = toys.tiny(stored=told)
    drawn = ids(m, max_new_tokens=8, seed=3)
    assert drawn == ids(plain, max_new_tokens=8, seed=3, temperature=1.5, top_p=0.9, top_k=50)
    assert drawn == ids(m, max_new_tokens=8, seed=3) != ids(plain, max_new_tokens=8)
    assert ids(m, max_new_tokens=8, temperature=0) == ids(plain, max_new_tokens=8)
    quiet = toys.tiny(stored=told | {"do_sample": False})
    assert ids(quiet, max_new_tokens=8) == ids(plain, max_new_tokens=8)


def test_what_is_not_followed_is_said_once(
    toys: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "rushlight"):
        toys.tiny(
            stored={
                "num_beams": 4,
                "guidance_scale": 1.0,
                "max_length": 20,
                "pad_token_id": -1,
                "unknown": [1],
            }
        )
    assert [r.message for r in caplog.records if "generation_config" in r.message] == [
        "generation_config.json: num_beams is not followed"
    ]
    for stored in (
        {"repetition_penalty": -1.0},
        {"max_new_tokens": 0},
        {"suppress_tokens": 5},
        {"bad_words_ids": [[900]]},
        {"do_sample": True, "top_p": "a"},
    ):
        key = list(stored)[-1]
        with pytest.raises(rl.FormatError, match=f"generation_config.json: {key}"):
            toys.tiny(stored=stored)
