"""Tiny image models for pages: random ones of the table of families, and a detector of one picture.

With the importlib import mode tests cannot import this; conftest.py and screenshots.py load it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables

MODELS = Path(__file__).parents[1] / "models"
SMALL = {"image_processor_type": "DetrImageProcessor",
         "size": {"shortest_edge": 96, "longest_edge": 160}}  # fmt: skip
# (label, score, box): the box by its sides as shares of the picture.
Thing = tuple[str, float, tuple[float, float, float, float]]


def load(path: Path) -> ModuleType:
    """A module of the tests by its file."""
    spec = importlib.util.spec_from_file_location(f"tiny_vision_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save(row: str, folder: Path, words: bool = False, small: bool = False, **changed: Any) -> Any:
    """The random model of a row, saved in a folder; loaded from there.

    words: it gets the tokenizer of the image tasks' tests. small: its pictures are made small.
    changed: keys of its config.json.
    """
    vision = load(MODELS / "vision.py")
    told = open_tables(MODELS / "data" / "vision" / f"{row}.safetensors")[0][1].metadata
    names = vision.names_of(told["names"])
    tensors = {n: rl.tensor(vision.values_of(n, tuple(shape))) for n, shape in names.items()}
    config = {**json.loads(told["config"]), **changed}
    files = {"config.json": json.dumps(config).encode()} if config else {}
    if small:
        files["preprocessor_config.json"] = json.dumps(SMALL).encode()
    if words:
        text = json.dumps(load(MODELS / "test_image_tasks.py").TOKENIZER)
        files["tokenizer.json"] = text.encode()
    rl.models.assemble(files, tensors).save_pretrained(folder, overwrite=True)
    return rl.models.load(folder)


def detector(folder: Path, picture: npt.NDArray[np.uint8], things: Sequence[Thing]) -> Any:
    """A tiny DETR whose last layers are fitted to a picture, in which it finds up to four things.

    It is saved in a folder and loaded from there. Its last layers are the solutions, by least
    squares, of what its five queries make of the picture.
    """
    names = [label for label, _, _ in things] + [f"other {i}" for i in range(4 - len(things))]
    model = save("detr", folder, small=True, id2label={str(i): n for i, n in enumerate(names)})
    with rl.no_grad():
        hidden = model.hidden(model.processor([picture], model.device))[0]
        inner = hidden
        *before, last = model.bbox_predictor.layers
        for layer in before:
            inner = layer(inner).relu()
    scores = np.full((len(hidden), 5), -8.0)
    scores[:, -1] = 0
    boxes = np.full((len(hidden), 4), 0.5)
    for query, (_, score, (left, top, right, below)) in enumerate(things):
        scores[query, query] = np.log(score / (1 - score))
        boxes[query] = (left + right) / 2, (top + below) / 2, right - left, below - top
    _fit(model.class_labels_classifier, hidden.numpy(), scores)
    _fit(last, inner.numpy(), np.log(boxes / (1 - boxes)))
    model.save_pretrained(folder, overwrite=True)
    return model


def _fit(layer: Any, inputs: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> None:
    """Let a linear layer give the rows `wanted` for the rows `inputs`."""
    given = np.concatenate([inputs, np.ones((len(inputs), 1))], 1).astype(np.float64)
    found = np.linalg.lstsq(given, wanted, rcond=None)[0].astype(np.float32)
    with rl.no_grad():
        layer.weight.copy_(rl.tensor(np.ascontiguousarray(found[:-1].T)))
        layer.bias.copy_(rl.tensor(found[-1]))
