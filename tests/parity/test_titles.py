"""Flan-T5-small, distilled for titles, out of its ONNX graphs: it answers as onnxruntime does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as rl

pytestmark = pytest.mark.native
DATA = Path(__file__).parent / "data" / "titles.json"


def test_titles() -> None:
    """As the graphs without their rounding of activations; with it a row in two differs."""
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    model = rl.models.load("flan-t5-small-titles")
    found = model.answers([row[0] for row in rows], max_new_tokens=32)
    assert [one.ids for (one,) in found] == [row[1] for row in rows] and len(rows) == 20
    assert sum(row[1] == row[2] for row in rows) == 9
