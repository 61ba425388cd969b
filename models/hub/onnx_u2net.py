"""U2-Net out of its ONNX graph, where convolutions have no names but an order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import from_numpy
from rushlight.models.hub.onnx_graph import Array, read_graph

_STAGES = (("stage1", 7), ("stage2", 6), ("stage3", 5), ("stage4", 4), ("stage5", 4),
           ("stage6", 4), ("stage5d", 4), ("stage4d", 4), ("stage3d", 5), ("stage2d", 6),
           ("stage1d", 7))  # fmt: skip
_NODE = re.compile(r"Conv_(\d{1,5})")


def _paths() -> Iterator[str]:
    """The convolutions of the stages in the order in which they run."""
    for stage, depth in _STAGES:
        down = [f"rebnconv{i}" for i in range(1, depth + 1)]
        up = [f"rebnconv{i}d" for i in range(depth - 1, 0, -1)]
        for name in ("rebnconvin", *down, *up):
            yield f"{stage}.{name}.conv_s1"


def checkpoint(data: bytes, what: str) -> dict[str, Array]:
    """The tensors under the names of the original repository, with the norms in them.

    FormatError, which names `what`, for another graph.
    """
    tensors, users = read_graph(data, what)
    weights = {n: x for n, x in tensors.items() if n.startswith(("side", "outconv"))}
    nodes: dict[int, dict[int, Array]] = {}
    for name, x in tensors.items():
        match = _NODE.fullmatch(users.get(name, ""))
        if match and name not in weights:
            nodes.setdefault(int(match[1]), {})[x.ndim] = x
    paths = list(_paths())
    if len(nodes) != len(paths) or any({*inputs} != {1, 4} for inputs in nodes.values()):
        raise FormatError(f"{what} has {len(nodes)} convolutions; U2-Net has {len(paths)}")
    for path, number in zip(paths, sorted(nodes), strict=True):
        weights[f"{path}.weight"], weights[f"{path}.bias"] = nodes[number][4], nodes[number][1]
    return weights


def convert(files: Mapping[str, Any]) -> None:
    """Write model.safetensors and the JSON files, of u2netp.onnx: paths by name."""
    tensors = checkpoint(files["u2netp.onnx"].read_bytes(), "u2netp.onnx")
    saved = {n: from_numpy(np.ascontiguousarray(x, np.float32)) for n, x in sorted(tensors.items())}
    save_safetensors(saved, files["model.safetensors"])
    published = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 320, "width": 320},
        "resample": 1,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    files["preprocessor_config.json"].write_bytes((json.dumps(published) + "\n").encode())
    files["config.json"].write_bytes(b'{"model_type": "u2net", "size": "small"}\n')
