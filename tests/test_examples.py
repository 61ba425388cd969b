"""The examples run as their first lines say, and give the right answers."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.core.tools.testing import check_gradient, draws

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
DEVICES = ["cpu", "webgpu"]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def _run(name: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name, *args],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=900,
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


@pytest.mark.parametrize("where", DEVICES)
def test_spirals_are_learned(where: str) -> None:
    said = _run("spirals.py", "--device", where)
    assert len(re.findall(r"^step \d+: loss", said, re.M)) == 3
    accuracy = re.search(r"accuracy on new points: ([\d.]+)", said)
    assert accuracy and float(accuracy.group(1)) > 0.95


def test_mandelbrot_is_the_same_everywhere(tmp_path: Path) -> None:
    pictures = []
    for device in DEVICES:
        out = tmp_path / f"{device}.pgm"
        said = _run("mandelbrot.py", "--device", device, "--size", "64", "--out", str(out))
        assert said.startswith("80 x 64 points in ")
        head, data = out.read_bytes()[:13], out.read_bytes()[13:]
        assert head == b"P5 80 64 255\n" and len(data) == 80 * 64
        pictures.append(data)
    same = sum(abs(a - b) <= 2 for a, b in zip(*pictures, strict=True))
    assert same > 0.97 * 80 * 64, "only at the edge rounding decides when a point escapes"
    assert 0.15 < pictures[0].count(0) / len(pictures[0]) < 0.45
    assert len(set(pictures[0])) > 100, "the relief has shades"


def test_the_gradient_of_mandelbrot_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    import mandelbrot  # type: ignore[import-not-found]

    x, y = 0.85 + 0.3 * draws(1, (3, 4)), 0.9 + 0.2 * draws(2, (3, 4))
    check_gradient(mandelbrot.mandelbrot, [x, y], second=False)


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_matmul_says_how_fast_and_how_exact(where: str, dtype: str) -> None:
    said = _run("matmul.py", "--device", where, "--size", "64", "--dtype", dtype)
    found = re.search(r"([\d.]+) ms, [\d.]+ GFLOP/s, largest error ([\d.e+-]+)", said)
    assert said.startswith(f"64 x 64 {dtype} on {where} (") and found
    assert 0 < float(found[2]) < (1e-5 if dtype == "float32" else 2e-3)


@pytest.mark.parametrize("where", DEVICES)
def test_chat_answers(where: str) -> None:
    said = _run("chat.py", "What is a candle?", "--tokens", "6", "--device", where)
    assert said == "A candle is a small,\n"


@pytest.mark.parametrize("where", DEVICES)
def test_folder_finds_the_paragraph_and_keeps_the_vectors(tmp_path: Path, where: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("The cat sleeps.\n\nBread needs flour and yeast.")
    (tmp_path / "b.md").write_text("# Trains\n\nThe train to Lisbon leaves\nat nine.")
    given = [str(tmp_path), "how do I bake a loaf?", "--device", where]
    first = _run("folder.py", *given)
    assert "4 of 4" in first
    best = first.splitlines()[-4]
    assert best.endswith("a.txt: Bread needs flour and yeast.")
    again = _run("folder.py", *given)
    assert " of 4" not in again and again.splitlines()[0] == best
    (tmp_path / "b.md").write_text("Nothing.")
    assert "3 of 3" in _run("folder.py", *given)


def test_a_folder_answers_a_question(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "The lighthouse keeper is called Ada Brandt. She lives in Skagen.\n\nThe boat has gone."
    )
    said = _run("ask_folder.py", str(tmp_path), "Who is the lighthouse keeper?", "--passages", "1")
    passage, answer = said.splitlines()
    assert passage.startswith("- The lighthouse keeper") and "Ada Brandt" in answer


def test_an_agent_calls_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    said = _run("agent.py", "What is 127 times 31?")
    assert re.match(r"(calculate\(\{'expression': '.*'\}\)|clock\(\{\}\)) = .+\n.", said)
    monkeypatch.syspath_prepend(ROOT / "examples")
    import agent  # type: ignore[import-not-found]

    assert agent.run("calculate", {"expression": "-(2 + 3) * 4 / 8"}) == "-2.5"
    assert agent.run("calculate", {"expression": "1 / 0"}).startswith("error:")
    assert agent.run("calculate", {"expression": "2 ** 9"}).startswith("error: 2 ** 9 is not")


def test_texts_become_a_table(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(
        "Ada Brandt was born in Skagen in 1931.\nTom Reed moved to Leeds in 1975.\n"
    )
    out = tmp_path / "table.csv"
    columns = "name:string,city:string,year:integer"
    _run("extract.py", str(tmp_path / "texts.txt"), columns, "-o", str(out))
    header, *rows = out.read_text(encoding="utf-8").splitlines()
    assert header == "name,city,year" and rows == ["Ada Brandt,Skagen,1931", "Tom Reed,Leeds,1975"]


def test_odd_lines_come_first(tmp_path: Path) -> None:
    text = tmp_path / "lines.txt"
    text.write_text("The cat sleeps on the sofa.\nqqz vrrk 88 plo xx\nBread needs flour.\n")
    lines = _run("rank_sentences.py", str(text)).splitlines()
    assert len(lines) == 3 and lines[0].endswith("qqz vrrk 88 plo xx")


def test_finetuning_changes_the_answers(tmp_path: Path) -> None:
    said = _run("finetune.py", "--steps", "20", "--output", str(tmp_path))
    assert "before: 0 of 8 answers have the form" in said
    after = re.search(r"after: (\d) of 8 answers have the form, (\d) are right", said)
    assert after and int(after[1]) == 8 and int(after[2]) >= 6
    assert re.search(r"  wolf +kind: animal\n", said)
    assert {path.name for path in tmp_path.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }


def _idx(array: Any) -> bytes:
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    content: bytes = array.astype("u1").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + content


def test_fashion_trains_and_goes_on(tmp_path: Path) -> None:
    # Ten kinds of bars, which are told apart within few steps.
    draws = np.random.default_rng(0)
    for kind, count in (("train", 1280), ("t10k", 500)):
        labels = draws.integers(0, 10, count)
        images = draws.integers(0, 60, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 8] += 150
        (tmp_path / f"{kind}-images-idx3-ubyte").write_bytes(_idx(images))
        (tmp_path / f"{kind}-labels-idx1-ubyte").write_bytes(_idx(labels))
    given = ["--data", str(tmp_path), "--output", str(tmp_path / "out"), "--epochs", "2"]
    said = _run("fashion.py", *given)
    found = re.search(r"40 steps, ([0-9.]+)% of 500 test images", said)
    assert found and float(found[1]) > 80
    assert {"last.safetensors", "best.safetensors", "log.csv"} == {
        p.name for p in (tmp_path / "out").iterdir()
    }
    assert f"40 steps, {found[1]}%" in _run("fashion.py", *given)  # it is done already


def test_every_example_is_run_by_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert EXAMPLES and all(f'_run("{name}"' in source for name in EXAMPLES)
