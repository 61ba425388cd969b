"""Heads of encoders: their goldens, what they serve, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.layers.heads import KINDS, labels_of

DATA = Path(__file__).parent / "data" / "heads"
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}


def model(row: str, table: ModuleType, device: str = "cpu", without: str = "-", **keys: Any) -> Any:
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    tensors = {
        n: rl.tensor(table.values_of(n, tuple(shape)))
        for n, shape in json.loads(found["names"]).items()
        if without not in n
    }
    config = json.loads(found["config"]) | keys
    return rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors, device=device)


def test_every_head_agrees(table: ModuleType) -> None:
    assert {path.stem for path in DATA.glob("*.safetensors")} == set(table.HEADS)
    ids, mask = rl.tensor(table.ids_of(50)), table.mask_of()
    for row, (architecture, _) in table.HEADS.items():
        m, golden = model(row, table), load_safetensors(DATA / f"{row}.safetensors")
        assert m.tasks == tuple(task for kind, task in KINDS.items() if kind in architecture)
        with rl.no_grad():
            out = m.logits(ids).numpy()
            padded = m.logits(ids, rl.tensor(mask)).numpy()
        np.testing.assert_allclose(out, golden["out"].numpy(), err_msg=row, **CLOSE)
        seen = mask if padded.ndim == 3 else slice(1)  # the second row's first place is padding
        found = golden["padded"].numpy()
        np.testing.assert_allclose(padded[seen], found[seen], err_msg=row, **CLOSE)


def test_heads_on_the_device(device: str, table: ModuleType) -> None:
    ids = rl.tensor(table.ids_of(50), device=device)
    for row in ("bert-sequenceclassification", "roberta-maskedlm"):
        with rl.no_grad():
            out = model(row, table, device).logits(ids).numpy()
        golden = load_safetensors(DATA / f"{row}.safetensors")["out"].numpy()
        np.testing.assert_allclose(out, golden, **CLOSE)


def test_a_head_that_the_checkpoint_lacks_is_named(
    table: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """What is below the head loads and says so; a task of the head is refused by the tensor."""
    ids = rl.tensor(table.ids_of(50))
    for row, part, task in (
        ("bert-tokenclassification", "classifier", "token-classification"),
        ("bert-questionanswering", "qa_outputs", "question-answering"),
        ("roberta-maskedlm", "lm_head.dense", "fill-mask"),
        ("bert-sequenceclassification", "pooler.dense", "text-classification"),
    ):
        caplog.clear()
        m = model(row, table, without=part)
        assert f"the checkpoint has no {part}" in caplog.text and task in caplog.text
        assert m.tasks == ("feature-extraction",)
        with rl.no_grad():
            assert np.array_equal(m(ids).numpy(), model(row, table)(ids).numpy())
        with pytest.raises(rl.LoadError, match=f'{task}: the checkpoint has no tensor "{part}'):
            rl.pipeline(task, m)
    model("bert-maskedlm", table, architectures=["BertForMultipleChoice"])
    assert "BertForMultipleChoice is loaded as BertModel; 5 tensors of the ch" in caplog.text
    with pytest.raises(rl.LoadError, match="embeddings.LayerNorm.weight"):
        model("bert-maskedlm", table, without="embeddings.LayerNorm")


def test_missing_labels_are_named() -> None:
    assert labels_of({}) == ("LABEL_0", "LABEL_1")
    assert labels_of({"id2label": {"1": "b", "0": "a"}}) == ("a", "b")
    for wrong, message in (
        ({"id2label": {"0": "a", "2": "c"}}, "no text for class 1"),
        ({"id2label": []}, "id2label"),
        ({"id2label": {"0": 3}}, "class 0"),
        ({"num_labels": -1}, "num_labels is -1"),
    ):
        with pytest.raises(rl.FormatError, match=message):
            labels_of(wrong)
