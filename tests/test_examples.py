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


def test_mandelbrot_is_the_same_everywhere(tmp_path: Path) -> None:
    pictures = []
    for device in ("cpu", "webgpu"):
        out = tmp_path / f"{device}.pgm"
        said = _run("mandelbrot.py", "--device", device, "--size", "64", "--out", str(out))
        assert said.startswith("80 x 64 points in ")
        head, data = out.read_bytes()[:13], out.read_bytes()[13:]
        assert head == b"P5 80 64 255\n" and len(data) == 80 * 64
        pictures.append(data)
    same = sum(a == b for a, b in zip(*pictures, strict=True))
    assert same > 0.97 * 80 * 64, "only at the edge rounding decides when a point escapes"
    assert 0.15 < pictures[0].count(0) / len(pictures[0]) < 0.45


def test_every_example_is_run_by_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert EXAMPLES and all(f'_run("{name}"' in source for name in EXAMPLES)
