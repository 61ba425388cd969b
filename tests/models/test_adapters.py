"""Jina's adapters: a chosen one computes as if it were added to the weights."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.layers.blocks.adapters import WHERE

DATA = Path(__file__).parent / "data" / "families" / "jina_embeddings_v3.safetensors"
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}
GOLDEN = load_safetensors(DATA)["out"].numpy()
NAMED = ["retrieval.query", "separation", "text-matching"]
RANK, ALPHA = 2, 3


def parts(table: ModuleType) -> tuple[dict[str, Any], dict[str, Any], dict[str, list[int]]]:
    """The first files' config.json, their tensors, and the shapes of the plain model."""
    found = open_tables(DATA)[0][1].metadata
    c, shapes = json.loads(found["config"]), json.loads(found["names"])
    config = {
        **{n: v for n, v in c.items() if n not in ("rope_parameters", "architectures")},
        "model_type": "xlm-roberta",
        "architectures": ["XLMRobertaModel"],
        "position_embedding_type": "rotary",
        "rotary_emb_base": 20000.0,
        "use_flash_attn": True,
        "lora_adaptations": NAMED,
        "lora_rank": RANK,
        "lora_alpha": ALPHA,
        "lora_dropout_p": 0.0,
        "load_trained_adapters": True,
        "lora_main_params_trainable": False,
        "matryoshka_dimensions": [8, 24],
        "truncate_dim": None,
        "use_reg_tokens": False,
        "task_instructions": {"retrieval.query": "Find: "},
    }
    tensors: dict[str, Any] = {}
    for name, shape in shapes.items():
        path, value = name.removesuffix(".weight"), table.values_of(name, tuple(shape))
        if len(shape) < 2:
            tensors[f"roberta.{name}"] = value
            continue
        rows, features = shape
        sizes = [(3, RANK, features), (3, rows, RANK)]
        if "embeddings" in name:
            sizes = [(3, rows, RANK), (3, RANK, features)]
        tensors[f"roberta.{path}{WHERE}.original"] = value
        for letter, size in zip("AB", sizes, strict=True):
            tensors[f"roberta.{path}{WHERE}.0.lora_{letter}"] = table.values_of(
                f"{name}{letter}", size
            )
    return config, tensors, shapes


def assembled(config: dict[str, Any], tensors: dict[str, Any], device: str = "cpu") -> Any:
    given = {n: rl.tensor(t) for n, t in tensors.items()}
    return rl.models.assemble({"config.json": json.dumps(config).encode()}, given, device=device)


def test_an_adapter_is_added_to_the_weights(table: ModuleType, device: str) -> None:
    config, tensors, shapes = parts(table)
    m, ids = assembled(config, tensors, device), rl.tensor(table.ids_of(50), device=device)
    with rl.no_grad():
        np.testing.assert_allclose(m(ids).numpy(), GOLDEN, **CLOSE)
    merged = {}
    for name in shapes:
        at = f"roberta.{name.removesuffix('.weight')}{WHERE}"
        if f"{at}.original" not in tensors:
            merged[name] = tensors[f"roberta.{name}"]
            continue
        a, b = (tensors[f"{at}.0.lora_{letter}"][1].astype(np.float64) for letter in "AB")
        low = a @ b if "embeddings" in name else b @ a
        merged[name] = (tensors[f"{at}.original"] + ALPHA / RANK * low).astype(np.float32)
    plain = {n: v for n, v in config.items() if not n.startswith("lora")}
    with rl.no_grad():
        expected = assembled(plain, merged)(rl.tensor(table.ids_of(50))).numpy()
        m.chosen.number = 1
        found = m(ids).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    assert np.abs(found - GOLDEN).max() > 0.1


def test_what_the_adapters_of_a_checkpoint_must_be(table: ModuleType) -> None:
    config, tensors, _ = parts(table)
    for changed in ({"lora_adaptations": None}, {"lora_rank": 0}, {"lora_adaptations": [3]}):
        with pytest.raises(rl.FormatError, match="lora_adaptations .* and lora_rank .* do not fit"):
            assembled(config | changed, tensors)
    with pytest.raises(rl.LoadError, match="lora_A"):
        assembled(config | {"lora_rank": 3}, tensors)
