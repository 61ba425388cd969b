"""Models of characters and bytes read texts without a vocabulary: CANINE, Perceiver, ByT5."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.small_files import find_tokenizer

DATA = Path(__file__).parent / "data" / "families"


def tokenizer(kind: str, **keys: Any) -> Tokenizer:
    settings = {"tokenizer_class": f"{kind}Tokenizer", **keys}
    tokens = find_tokenizer({"tokenizer_config.json": json.dumps(settings).encode()})
    assert tokens is not None
    return tokens


def test_ids_are_those_of_transformers() -> None:
    """The numbers were taken from transformers' classes."""
    characters, bytes_, t5 = map(tokenizer, ("Canine", "Perceiver", "ByT5"))
    row = characters.encode("Hé 🙂")
    assert row.ids == [57344, 72, 233, 32, 128578, 57345]
    assert row.offsets[1:-1] == [(i, i + 1) for i in range(4)]
    assert characters.decode(row.ids) == "Hé 🙂"
    assert characters.decode(row.ids, skip_special_tokens=False) == "\ue000Hé 🙂\ue001"
    assert characters.encode_parts([" a bc"])[0].words == [-1, 0, -1, 1, 1]
    assert characters.id_to_token(0xE003) == "[MASK]" and characters.token_to_id("é") == 233
    row = bytes_.encode("aé [MASK] b")
    assert row.ids == [4, 103, 201, 175, 38, 3, 38, 104, 5]
    assert row.offsets[1:5] == [(0, 1), (1, 2), (1, 2), (2, 3)]
    assert bytes_.decode(row.ids).split() == ["aé", "b"] and bytes_.pad_id == 0
    assert t5.encode("aé [MASK] b").ids == [100, 198, 172, 35, 94, 80, 68, 86, 78, 96, 35, 101, 1]
    assert t5.token_to_id("<extra_id_0>") == 259 and t5.vocab_size == 384
    assert tokenizer("ByT5", extra_ids=3).vocab_size == 262


def test_models_of_characters_take_texts(table: ModuleType) -> None:
    for row, texts in (("canine", ["ab", "a cd"]), ("perceiver", ["a[MASK]", "[MASK]é"])):
        stored = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
        shapes = json.loads(stored["names"]).items()
        config = json.loads(stored["config"])
        few = {config["vocab_size"]: 262}  # which bytes need
        tensors = {
            n: rl.tensor(table.values_of(n, tuple(few.get(size, size) for size in s)))
            for n, s in shapes
        }
        config["vocab_size"] = 262
        m: Any = rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)
        answers = rl.pipeline(m.tasks[0], m)(texts)
        assert len(answers) == 2
        if row == "canine":
            assert np.isfinite(answers.numpy()).all()
        else:  # bytes are answered, and texts with them
            assert all(len(some) == 5 and {"score", "sequence"} <= {*some[0]} for some in answers)
