"""A voice of Piper as a checkpoint, made of its ONNX file when it is fetched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import from_numpy
from rushlight.models.layers.speech.piper import read_voice


def convert(files: Mapping[str, Any]) -> None:
    """Write model.safetensors and the JSON files of voice.onnx and voice.json: paths by name."""
    told = parse_json(files["voice.json"].read_bytes(), "voice.json", depth=8)
    config, arrays = read_voice(files["voice.onnx"].read_bytes(), told, "voice.onnx")
    tensors = {name: from_numpy(array) for name, array in sorted(arrays.items())}
    save_safetensors(tensors, files["model.safetensors"])
    text = json.dumps(config, ensure_ascii=False, indent=1) + "\n"
    files["config.json"].write_bytes(text.encode())
    rate = json.dumps({"sampling_rate": config["sampling_rate"]}) + "\n"
    files["preprocessor_config.json"].write_bytes(rate.encode())
