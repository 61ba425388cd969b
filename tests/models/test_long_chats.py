"""Long conversations: rotary positions that depend on a row's length, and what is read again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.generation.session import DecodeSession
from rushlight.models.tasks import Pipeline, find
from rushlight.models.tasks.pipeline import parts

LONG = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 140,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [3.0, 5.0, 7.0, 9.0],
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each step read."""
    counts: list[int] = []
    take, step = DecodeSession.take, DecodeSession.step

    def taking(self: Any, model: Any, left: Any, done: Any) -> Any:
        found = take(self, model, left, done)
        counts.append(sum(found[0]))
        return found

    def stepping(self: Any, model: Any) -> Any:
        counts.append(1)
        return step(self, model)

    monkeypatch.setattr(DecodeSession, "take", taking)
    monkeypatch.setattr(DecodeSession, "step", stepping)
    return counts


def whole(model: Any, ids: list[int], count: int) -> list[int]:
    """The likeliest tokens after `ids`, each from one pass over all tokens before it."""
    row = list(ids)
    for _ in range(count):
        row.append(
            int(model(rl.tensor([row], device=model.device)).detach().numpy()[0, -1].argmax())
        )
    return row[len(ids) :]


def picked(model: Any, ids: list[int], count: int, **options: Any) -> list[int]:
    return [t.id for t in model.tokens(ids, max_new_tokens=count, **options)]


def test_longrope_is_read_again_past_the_original_context(device: str, tiny: Any) -> None:
    model = tiny(device, rope_parameters=LONG)
    ids = [int(i) for i in np.random.default_rng(1).integers(0, 200, 150)]
    # A prompt in parts; an answer that grows past 140 tokens; a shorter and a longer turn after it.
    for length in (150, 136, 120, 145):
        assert picked(model, ids[:length], 8) == whole(model, ids[:length], 8)
    cache = model.new_cache()
    with rl.no_grad():
        model(rl.tensor([ids[:139]], device=device), cache)
    with pytest.raises(ValueError, match="2 tokens after 139 cached ones pass LongRoPE's original"):
        model(rl.tensor([ids[:2]], device=device), cache)
    with pytest.raises(ValueError, match="138 tokens and 8 new ones pass LongRoPE's"):
        model.generate_batch([ids[:138], ids[:5]], max_new_tokens=8)
    both = [ids[:130], ids[:5]]
    singles = ["".join(model.generate(one, max_new_tokens=4)) for one in both]
    assert model.generate_batch(both, max_new_tokens=4) == singles


def test_dynamic_scaling_extends_the_context(device: str, tiny: Any) -> None:
    model = tiny(device, rope_parameters=DYNAMIC, max_position_embeddings=40)
    assert model.context_length == 160
    ids = [int(i) for i in np.random.default_rng(2).integers(0, 200, 160)]
    # A prompt's keys have the angles of its whole length, though it is read in parts.
    assert picked(model, ids[:150], 1) == whole(model, ids[:150], 1)
    assert picked(model, ids[:60], 1) == whole(model, ids[:60], 1)
    assert picked(model, ids[:30], 4) == whole(model, ids[:30], 4)
    with pytest.raises(ValueError, match="up to 160"):
        model(rl.tensor([ids * 2], device=device))


def test_yarn_extends_the_context(tiny: Any) -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40}
    for stated in (40, 160):  # files state either
        model = tiny("cpu", rope_parameters=yarn, max_position_embeddings=stated)
        assert model.context_length == 160


def test_a_full_context_raises_or_shifts(tiny: Any) -> None:
    model = tiny("cpu", max_position_embeddings=32)
    ids = list(range(30))
    with pytest.raises(ValueError, match='the context of 32 tokens is full; pass overflow="shift"'):
        picked(model, ids, 8)
    found = picked(model, ids, 8, overflow="shift")
    row = ids + found[:3]
    # The first four tokens stay, and the newest half.
    assert found[:3] == whole(model, ids, 3)
    assert found[3:] == whole(model, row[:4] + row[-16:], 5)


@pytest.mark.parametrize("turns", [2, 4])
def test_a_long_prompt_is_not_read_twice(turns: int, tiny: Any, read: list[int]) -> None:
    model = tiny("cpu", max_position_embeddings=4096)
    chat = Pipeline(find("chat"), model, {})
    messages = [{"role": "user", "content": "a light of rush " * 125}]
    given = 0
    for _ in range(turns):
        given = len(model.chat_ids(messages))
        # The steps that the worker of a page takes.
        steps = parts(chat.begin(messages, {"maxNewTokens": 4}, watched=True, page=True))
        text = "".join(token.text for token in steps)
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "more"}]
    assert given > 1000 and sum(read) <= given + turns * 16
