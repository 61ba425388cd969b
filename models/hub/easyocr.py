"""CRAFT and a CRNN out of easyocr's two files, as one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.io import load_weights
from rushlight.core.io.weights.safetensors import save_safetensors


def convert(files: Mapping[str, Any]) -> None:
    """Write model.safetensors and the JSON files of the .pth files: paths by name."""
    tensors: dict[str, Any] = {}
    for path in files.values():
        if path.suffix == ".pth":
            tensors |= load_weights(path)[0]
    kept = {n.removeprefix("module."): t for n, t in sorted(tensors.items())}
    save_safetensors(
        {n: t for n, t in kept.items() if not n.endswith("num_batches_tracked")},
        files["model.safetensors"],
    )
    files["config.json"].write_bytes(b'{"model_type": "craft_crnn"}\n')
    files["preprocessor_config.json"].write_bytes(b'{"do_resize": false}\n')
