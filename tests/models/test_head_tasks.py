"""fill-mask and text-classification: the answers of transformers' pipelines on tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables

pytestmark = pytest.mark.native

DATA = Path(__file__).parent / "data"
GOLDENS = json.loads((DATA / "tasks.json").read_text(encoding="utf-8"))


def model(row: str, table: ModuleType, **keys: Any) -> Any:
    found = open_tables(DATA / "heads" / f"{row}.safetensors")[0][1].metadata
    names = json.loads(found["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {
        "config.json": json.loads(found["config"]) | keys,
        "tokenizer.json": GOLDENS["tokenizer"],
    }
    return rl.models.assemble({n: json.dumps(v).encode() for n, v in files.items()}, tensors)


def same(found: Any, wanted: Any) -> None:
    """Lists, texts and whole numbers are equal, scores are close."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, dict):
        assert set(found) == set(wanted)
        for name, value in wanted.items():
            same(found[name], value)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    else:
        assert found == wanted


@pytest.mark.parametrize("call", GOLDENS["calls"], ids=lambda c: f"{c['row']}-{c['options']}")
def test_answers_are_those_of_the_published_pipelines(
    call: dict[str, Any], table: ModuleType
) -> None:
    pipe = rl.pipeline(call["task"], model(call["row"], table, **call["keys"]), **call["options"])
    same(pipe(call["given"]), call["answer"])
    same(pipe(call["given"], batch_size=1), call["answer"])
    if isinstance(call["given"], list):
        same(pipe(call["given"][0]), call["answer"][0])
        told: list[tuple[int, int]] = []
        pipe(call["given"], batch_size=2, progress=lambda *now: told.append(now))
        assert told[-1] == (len(call["given"]),) * 2
    assert pipe([]) == []


def test_what_cannot_be_answered_is_named(table: ModuleType) -> None:
    masked = model("bert-maskedlm", table)
    with pytest.raises(ValueError, match=r"text 1, 'w5', has no \[MASK\]"):
        rl.pipeline("fill-mask", masked)(["[MASK]", "w5"])
    with pytest.raises(ValueError, match="bert serves fill-mask; text-classification is not"):
        rl.pipeline("text-classification", masked)
    masked.mask_id = None
    with pytest.raises(ValueError, match="no token for a masked word"):
        rl.pipeline("fill-mask", masked)("w5")
    with pytest.raises(ValueError, match="top_k is 0"):
        rl.pipeline("text-classification", model("bert-sequenceclassification", table), top_k=0)
