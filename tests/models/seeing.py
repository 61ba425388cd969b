"""The table of families that read texts with pictures: tiny configurations, pictures and texts.

tests/models/pictures/NAME.py has `rows(t)`: Row by name. Their goldens lie in data/pictures/;
tests/parity/make_picture_goldens.py makes them with transformers.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
TEXT: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 512,
    "vocab_size": 300,
    "bos_token_id": None,
    "eos_token_id": 299,
    "pad_token_id": None,
}


@dataclass(frozen=True)
class Row:
    """A row. kind: the class of transformers. config: config.json. special: the texts of special
    tokens, whose ids begin at 256. processor: class and settings of the processor of pictures;
    whole: class and settings of the processor that has it, and its arguments. sizes: height and
    width of each picture. text: a prompt with their markers. nested: pictures are given to the
    reference as those of one prompt. call: further arguments there. videos: the class that the
    reference's processor needs beside, or "pictures": that of pictures stands for it. alone:
    whether a text without pictures gives the reference's numbers too. everywhere: whether chats run
    on all devices: false where they take long, and other rows have the parts.
    """

    kind: str
    config: dict[str, Any]
    special: tuple[str, ...]
    processor: tuple[str, dict[str, Any]]
    whole: tuple[str, dict[str, Any]]
    text: str
    sizes: tuple[tuple[int, int], ...] = ((30, 40), (50, 21))
    tokens: dict[str, str] = field(default_factory=dict)
    nested: bool = False
    call: dict[str, Any] = field(default_factory=dict)
    videos: str = ""
    alone: bool = True
    everywhere: bool = True


def tokenizer_json(special: tuple[str, ...]) -> bytes:
    """A byte-level tokenizer of 256 tokens and these special ones, in tokenizers' format."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    signs = [chr(b if b in plain else next(others)) for b in range(256)]
    added = [
        {"id": 256 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, text in enumerate(special)
    ]  # fmt: skip
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return json.dumps(
        {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
         "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
         "model": {"type": "BPE", "dropout": None, "unk_token": None,
                   "continuing_subword_prefix": None, "end_of_word_suffix": None,
                   "fuse_unk": False, "byte_fallback": False,
                   "vocab": {sign: i for i, sign in enumerate(signs)}, "merges": []}}
    ).encode()  # fmt: skip


def picture(size: tuple[int, int], number: int) -> npt.NDArray[np.uint8]:
    """A picture (height, width, 3): waves of colour, and a little noise."""
    draw = np.random.default_rng(number + 11)
    rows, columns = np.indices(size)
    waves = [np.sin(rows * a + columns * b + c) for a, b, c in draw.uniform(0.02, 0.3, (3, 3))]
    values = 127 + 100 * np.stack(waves, 2) + draw.normal(0, 8, (*size, 3))
    return np.clip(values, 0, 255).astype(np.uint8)


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The parameter `name` of a checkpoint: products keep their size."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    values = draw.standard_normal(shape).astype(np.float32)
    if name.endswith("num_batches_tracked"):
        return np.full(shape, 7, np.int64)
    if name.endswith("running_var"):
        return np.abs(values) + np.float32(0.5)
    if name.endswith(("_min", "_max")):
        return np.full(shape, 1.5 if name.endswith("_max") else -1.5, np.float32)
    if len(shape) < 2:
        offset = 0.0 if name.endswith("bias") or not shape else 1.0
        return np.asarray(values * 0.1 + offset, np.float32)
    if "embed_tokens" in name:
        return values
    return values * np.float32(1.5 / math.sqrt(math.prod(shape[1:])))


def _rows() -> dict[str, Row]:
    found: dict[str, Row] = {}
    for path in sorted((HERE / "pictures").glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(f"picture_rows_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found |= module.rows(sys.modules[__name__])
    return found


def rows() -> dict[str, Row]:
    """Every row by name."""
    return _rows()
