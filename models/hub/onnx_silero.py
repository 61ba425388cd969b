"""Silero VAD at 16 kHz out of its ONNX graph, made when it is fetched.

The package's safetensors have other weights than the graph that it runs. A branch of the graph for
each rate has its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import from_numpy
from rushlight.models.hub.onnx_graph import constants

_NAMES = (
    {"stft.forward_basis_buffer": "stft_conv.weight"}
    | {
        f"{theirs}.{kind}": f"{ours}.{kind}"
        for kind in ("weight", "bias")
        for theirs, ours in (
            *((f"encoder.{i}.reparam_conv", f"conv{i + 1}") for i in range(4)),
            ("decoder.decoder.2", "final_conv"),
        )
    }
    | {
        f"decoder.rnn.{kind}_{gates}": f"lstm_cell.{kind}_{gates}"
        for kind in ("weight", "bias")
        for gates in ("ih", "hh")
    }
)


def convert(files: Mapping[str, Any], branch: str = "then_branch") -> None:
    """Write model.safetensors and the JSON files of silero_vad.onnx: paths by name."""
    arrays = constants(files["silero_vad.onnx"].read_bytes(), "silero_vad.onnx")
    saved = {}
    for theirs, ours in _NAMES.items():
        stored = [n for n in arrays if branch in n and n.endswith(f"__{theirs}")]
        if len(stored) != 1:
            raise FormatError(f"silero_vad.onnx has {len(stored)} tensors {theirs!r} of a rate")
        saved[ours] = from_numpy(np.ascontiguousarray(arrays[stored[0]], np.float32))
    save_safetensors(saved, files["model.safetensors"])
    rate = 16000 if branch == "then_branch" else 8000
    config = f'{{"model_type": "silero_vad", "sampling_rate": {rate}}}\n'
    files["config.json"].write_bytes(config.encode())
    files["preprocessor_config.json"].write_bytes(f'{{"sampling_rate": {rate}}}\n'.encode())
