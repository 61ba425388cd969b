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
SMALL = {
    "image_processor_type": "DetrImageProcessor",
    "size": {"shortest_edge": 96, "longest_edge": 160},
}
# CLIP's kind of tokenizer: byte-level BPE in which the last byte of a word is a token of its own.
BYTES = [*map(chr, (*range(33, 127), *range(161, 173), *range(174, 324)))]  # GPT-2's
MERGES = """t h,th i,thi s</w>,i s</w>,p h,ph o,pho t,phot o</w>,o f</w>,c a,ca t</w>,d o,
do g</w>""".replace("\n", "").split(",")
ENDS = ("<|startoftext|>", "<|endoftext|>")
VOCABULARY = [
    *BYTES,
    *(f"{byte}</w>" for byte in BYTES),
    *(merge.replace(" ", "") for merge in MERGES),
    *ENDS,
]
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
        {"id": VOCABULARY.index(end), "content": end, "special": True, "single_word": False,
         "lstrip": False, "rstrip": False, "normalized": False} for end in ENDS],
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
        {"type": "Lowercase"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "behavior": "Removed", "invert": True, "pattern": {
            "Regex": r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"}},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}]},
    "post_processor": {
        "type": "RobertaProcessing", "cls": [ENDS[0], VOCABULARY.index(ENDS[0])],
        "sep": [ENDS[1], VOCABULARY.index(ENDS[1])], "trim_offsets": False,
        "add_prefix_space": False},
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": ENDS[1],
              "continuing_subword_prefix": "", "end_of_word_suffix": "</w>", "fuse_unk": False,
              "vocab": {token: i for i, token in enumerate(VOCABULARY)}, "merges": MERGES},
}  # fmt: skip
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

    words: a CLIP gets a tokenizer. small: its pictures are made small.
    changed: keys of its config.json.
    """
    vision = load(MODELS / "vision.py")
    told = open_tables(MODELS / "data" / "vision" / f"{row}.safetensors")[0][1].metadata
    names = vision.names_of(told["names"])
    config = {**json.loads(told["config"]), **changed}
    if words:
        names["text_model.embeddings.token_embedding.weight"][0] = len(VOCABULARY)
        config["text_config"] |= {
            "vocab_size": len(VOCABULARY),
            "eos_token_id": VOCABULARY.index(ENDS[1]),
        }
    tensors = {n: rl.tensor(vision.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {"config.json": json.dumps(config).encode()} if config else {}
    if small:
        files["preprocessor_config.json"] = json.dumps(SMALL).encode()
    if words:
        files["tokenizer.json"] = json.dumps(TOKENIZER).encode()
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
