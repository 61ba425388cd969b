"""Tiny pipelines with transformers: the picture of a given noise is diffusers' to 2 of 255."""

from __future__ import annotations

import base64
import importlib.util
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.core.backends.readback import Readback
from rushlight.models.diffusion.loading import load_pipeline
from rushlight.models.diffusion.loop import sample
from rushlight.models.diffusion.model import Request
from rushlight.models.diffusion.pipelines.flux2_klein import Flux2Klein
from rushlight.models.diffusion.registry import part_class

_spec = importlib.util.spec_from_file_location(
    "flow_pipelines", Path(__file__).parent / "flow_pipelines.py"
)
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)
GOLDENS = json.loads(table.GOLDENS.read_text(encoding="utf-8"))


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def folder_of(name: str, place: Path) -> Path:
    shapes = json.loads(unpacked(GOLDENS[name]["shapes"]))
    for part in ("transformer", "vae"):
        config = table.ROWS[name][part]
        state = part_class(config["_class_name"], part)(config).state_dict()
        shapes[part] = {n: list(t.shape) for n, t in state.items()}
    folder: Path = table.write_pipeline(place, name, shapes)
    return folder


def picture(name: str, place: Path, device: str) -> Any:
    model = load_pipeline(folder_of(name, place), device)
    if isinstance(model, Flux2Klein):
        model.layers = table.LAYERS
    options = table.ROWS[name]["options"]
    negative = options.get("negative_prompt")
    request = Request(
        [table.PROMPT],
        None if negative is None else [negative],
        table.SIDE,
        table.SIDE,
        options["num_inference_steps"],
        options.get("guidance_scale", 3.5),
        0,
        max_sequence_length=options.get("max_sequence_length"),
        latents=table.latents(name),
    )
    run = sample(model, request)
    reply = None
    while True:
        try:
            asked = run.send(reply)
        except StopIteration as stop:
            return stop.value[0]
        reply = asked.wait() if isinstance(asked, Readback) else None


@pytest.mark.parametrize("name", table.ROWS)
def test_pictures_are_those_of_diffusers(name: str, tmp_path: Path) -> None:
    found = picture(name, tmp_path, "cpu")
    wanted = np.frombuffer(unpacked(GOLDENS[name]["picture"]), np.uint8)
    wanted = wanted.reshape(table.SIDE // 2, table.SIDE, 3).astype(int)
    assert np.abs(found[::2].astype(int) - wanted).max() <= 2
