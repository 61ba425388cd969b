"""`rushlight perplexity` and `rushlight imatrix` over a real model and a few windows of text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.io.weights.imatrix import read_imatrix
from rushlight.models.perplexity import perplexity

pytestmark = pytest.mark.native  # the commands are not there in the tab

MODEL = "smollm2-135m-instruct"
TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. " * 4
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    place = tmp_path / "text.txt"
    place.write_text(TEXT, encoding="utf-8")
    return place


def told(capsys: Capture, *arguments: object, code: int = 0) -> str:
    assert run([str(a) for a in arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_perplexity(capsys: Capture, text: Path) -> None:
    model: Any = rl.models.load(MODEL)
    want = perplexity(model, TEXT, context=32)
    given = (MODEL, text, "--context", 32)
    found = json.loads(told(capsys, "perplexity", *given, "--json"))
    assert found["perplexity"] == want.perplexity and found["windows"] == want.windows == 2
    shown = told(capsys, "perplexity", *given, "--kl", MODEL, "--cache-type", "q8_0")
    assert shown.startswith(f"perplexity {want.perplexity:.1f}"[:13]) and "30 tokens of 2" in shown
    assert f"divergence from {MODEL}: 0.00" in shown and "same likeliest token: " in shown


def test_imatrix(capsys: Capture, text: Path, tmp_path: Path) -> None:
    shown = told(capsys, "imatrix", MODEL, text, tmp_path / "i.gguf", "--context", 32)
    assert "210 tensors over 2 windows of 32" in shown
    found = read_imatrix(tmp_path / "i.gguf")
    assert found["blk.29.ffn_down.weight"].shape == (1536,)
    assert all((values > 0).all() and np.isfinite(values).all() for values in found.values())
    message = told(capsys, "imatrix", MODEL, text, tmp_path / "i.gguf", code=2)
    assert "i.gguf exists already" in message and "--overwrite" in message


def test_mistakes_are_named(capsys: Capture, text: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (("perplexity", MODEL, text), "fewer than the context of 512"),
        (("perplexity", MODEL, tmp_path / "none.txt"), "No such file"),
        (("perplexity", MODEL, text, "--cache-type", "q4_0"), "cache_type is 'q4_0'"),
        (("perplexity", MODEL, text, "--linear", "slow"), "linear is 'slow'"),
        (("perplexity", "all-minilm-l6-v2", text), "a bert is no language model"),
        (("imatrix", MODEL, text, tmp_path / "none" / "i.gguf", "--context", 32), "does not exist"),
    ):
        assert message in told(capsys, *arguments, code=2)
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert "byte 0 is wrong" in told(capsys, "perplexity", MODEL, tmp_path / "bytes", code=2)
