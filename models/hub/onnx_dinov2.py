"""DINOv2's backbone out of the ONNX graph of a network that ends in another head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.hub.onnx_graph import Array, read_graph

_BASE, _TABLE = "backbone.", "embeddings.position_embeddings"


def checkpoint(data: bytes, what: str) -> dict[str, Array]:
    """The tensors under transformers' names; a matrix without a name has that of its node.

    FormatError, which names `what`, for another graph.
    """
    tensors, users = read_graph(data, what)
    weights: dict[str, Array] = {}
    places: dict[int, Array] = {}
    for name, x in tensors.items():
        path = users.get(name, "").strip("/").split("/")
        if name.startswith(_BASE):
            weights[name.removeprefix(_BASE)] = x
        elif path[:2] == ["backbone", "embeddings"] and x.ndim == 3:
            places[x.shape[1]] = x  # the class's place, and those of the patches
        elif path[0] == "backbone" and path[-1].startswith("MatMul") and x.ndim == 2:
            weights[".".join([*path[1:-1], "weight"])] = x.T
    if len(places) != 2 or min(places) != 1 or "layernorm.weight" not in weights:
        raise FormatError(f"{what} is not a graph over a DINOv2")
    weights[_TABLE] = np.concatenate([places[1], places[max(places)]], 1)
    return weights


def convert(files: Mapping[str, Any]) -> None:
    """Write model.safetensors and the JSON files, of vit_s_focus.onnx: paths by name."""
    tensors = checkpoint(files["vit_s_focus.onnx"].read_bytes(), "vit_s_focus.onnx")
    saved: dict[str, Tensor] = {
        n: from_numpy(np.ascontiguousarray(x, np.float32)) for n, x in sorted(tensors.items())
    }
    save_safetensors(saved, files["model.safetensors"])
    width, _, patch, _ = tensors["embeddings.patch_embeddings.projection.weight"].shape
    side = round((tensors[_TABLE].shape[1] - 1) ** 0.5) * patch
    layers = 1 + max(int(n.split(".")[2]) for n in tensors if n.startswith("encoder.layer."))
    config = {
        "architectures": ["Dinov2Model"],
        "model_type": "dinov2",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "mlp_ratio": 4,
        "image_size": side,
        "patch_size": patch,
    }
    published = {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": 256},
        "resample": 3,
        "crop_size": {"height": 224, "width": 224},
        "do_center_crop": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    files["preprocessor_config.json"].write_bytes((json.dumps(published) + "\n").encode())
    files["config.json"].write_bytes((json.dumps(config, indent=2) + "\n").encode())
