"""The examples run as their first lines say, and give the right answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def _run(name: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name, *args],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_search_finds_the_line_that_was_meant(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text(
        "The cat sleeps on the warm radiator.\n\n"
        "Interest rates rose by half a percent.\n"
        "A recipe for bread: flour, water, salt and yeast.\n"
        "The train to Lisbon leaves at nine.\n",
        encoding="utf-8",
    )
    lines = _run("search.py", str(text), "how do I bake a loaf?").splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("flour, water, salt and yeast.")
    scores = [float(line.split()[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)


def test_spirals_are_learned() -> None:
    said = _run("spirals.py")
    assert len(re.findall(r"^step \d+: loss", said, re.M)) == 3
    accuracy = re.search(r"accuracy on new points: ([\d.]+)", said)
    assert accuracy and float(accuracy.group(1)) > 0.95


def test_every_example_is_run_by_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert EXAMPLES and all(f'_run("{name}"' in source for name in EXAMPLES)
