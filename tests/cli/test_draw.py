"""The command draw: a picture of a prompt in a PNG, out of images, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.models import tiny_pipelines as tiny
from tests.models.test_drawing import folder_of

from rushlight.cli import run
from rushlight.models.image.png import texts_of


def test_a_prompt_becomes_a_png(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = str(folder_of(tmp_path / "sd15", "sd15")), tmp_path / "out.png"
    given = ["draw", "a bad cat", "--model", folder, "-o", str(out), "--steps", "2"]
    assert run([*given, "--size", "32", "--seed", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["pictures"][0]
    assert told["file"] == str(out) and told["seed"] == 4 and told["num_inference_steps"] == 2
    assert json.loads(texts_of(out.read_bytes())["parameters"])["prompt"] == "a bad cat"
    with Image.open(out) as drawn:
        assert drawn.size == (32, 32)
    begin, mask = tmp_path / "in.png", tmp_path / "mask.png"
    Image.fromarray(tiny.picture()).save(begin)
    Image.fromarray((tiny.mask() * 255).astype(np.uint8)).save(mask)
    more = ["--image", str(begin), "--mask", str(mask), "--option", "strength=0.9"]
    assert run([*given, *more]) == 0
    assert "1 pictures on cpu" in capsys.readouterr().err
    assert run([*given, "--size", "33"]) == 2
    assert "width is 33; it must be a multiple of 8" in capsys.readouterr().err
    assert run([*given, "--mask", str(mask)]) == 2 and run([*given[:-4], "-o", "a.jpg"]) == 2
