"""Every family that GGUF knows: its file gives the published logits here and in llama.cpp."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.models.families import families
from rushlight.models.gguf.quantize import dequantize

Array = npt.NDArray[Any]
DATA = Path(__file__).parent / "data" / "families"
# Rows that a GGUF file can say, one or more for each family with names of GGUF.
ROWS = (
    "llama", "llama-biases", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "olmoe", "gemma",
    "gemma2-gguf", "gemma3-gguf", "phi", "phi3", "starcoder2", "stablelm",
    "olmo", "olmo2", "granite", "cohere", "smollm3", "ernie4_5",
)  # fmt: skip
pytestmark = pytest.mark.native


def folder(row: str, table: ModuleType, place: Path) -> Path:
    """A checkpoint of a row of the table, with experts as stacks."""
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    tensors: dict[str, Any] = {}
    for name, shape in json.loads(found["names"]).items():
        value = rl.tensor(table.values_of(name, tuple(shape)))
        stack = re.sub(r"experts\.\d+\.", "experts.", name)
        tensors.setdefault(stack, []).append(value)
        if stack == name:
            tensors[name] = value
    stacked = {n: rl.stack(t) if isinstance(t, list) else t for n, t in tensors.items()}
    place.mkdir()
    save_safetensors(stacked, place / "model.safetensors")
    (place / "config.json").write_text(found["config"])
    return place


def test_every_family_with_names_of_gguf_is_here(table: ModuleType) -> None:
    known = {families()[table.ROWS[row][1]["model_type"]] for row in ROWS}
    assert known == set(families("GGUF_TYPES").values())


@pytest.mark.parametrize("known", ROWS)
def test_the_file_gives_the_published_logits(
    known: str, table: ModuleType, tmp_path: Path, llama_cpp: Any
) -> None:
    file = tmp_path / f"{known}.gguf"
    dequantize(folder(known, table, tmp_path / "model"), file, type="f32")
    golden = load_safetensors(DATA / f"{known}.safetensors")["out"].numpy()
    ids = table.ids_of(golden.shape[-1])
    m = rl.models.load(file)
    with rl.no_grad():
        np.testing.assert_allclose(m(rl.tensor(ids)).numpy(), golden, rtol=1e-4, atol=5e-5)
    most = np.abs(golden).max()
    with llama_cpp.model(file, context=64) as theirs:
        found = np.abs(theirs.logits(ids[0]) - golden[0, -1]).max() / most
    # ggml's GELU is a table of float16.
    assert found < (3e-3 if "gelu" in str(vars(m.config).get("hidden_act")) else 1e-3)
