"""Hypothesis draws the same examples whatever else the process has imported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.native


def _drawn() -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []

    @settings(
        max_examples=400,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.integers(), st.text())
    def draw(number: int, text: str) -> None:
        seen.append((number, text))

    draw()
    return seen


def test_constants_of_a_module_are_no_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _drawn()
    path = tmp_path / "numbers_of_ours.py"
    path.write_text("".join(f"x{i} = {i * 10007}, 'word {i}'\n" for i in range(1, 500)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    monkeypatch.setitem(sys.modules, path.stem, importlib.util.module_from_spec(spec))
    assert _drawn() == before
    assert len(set(before)) > 300
