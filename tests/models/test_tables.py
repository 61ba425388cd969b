"""Questions about tables: TAPAS's cells and operations, as the published library has them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables
from rushlight.models.layers.blocks.tables import TableReader

HERE = Path(__file__).parent
DATA = HERE / "data" / "tables.safetensors"
CLOSE: Any = {"rtol": 1e-4, "atol": 5e-5}


def _tables() -> Any:
    spec = importlib.util.spec_from_file_location("rushlight_tests_tables", HERE / "tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _reader(table: ModuleType, changes: dict[str, Any]) -> Any:
    stored = open_tables(DATA)[0][1].metadata
    names = json.loads(stored["names"]).items()
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names}
    config = json.dumps(json.loads(stored["config"]) | changes).encode()
    return rl.models.assemble({"config.json": config}, tensors)


def test_cells_and_operations_agree(table: ModuleType) -> None:
    tables, golden = _tables(), load_safetensors(DATA)
    ids, types, mask = (rl.tensor(x) for x in tables.inputs())
    for name, changes in tables.KINDS.items():
        m = _reader(table, changes)
        assert isinstance(m, TableReader)
        assert m.operations == ("NONE", "SUM", "AVERAGE", "COUNT")
        with rl.no_grad():
            hidden, answer = m(ids, mask, types), m.answer(ids, mask, types)
            again = m.logits(ids, mask, types)
        real = mask.numpy() != 0
        np.testing.assert_allclose(
            hidden.numpy()[real], golden[f"{name}.hidden"].numpy()[real], err_msg=name, **CLOSE
        )
        cells = golden[f"{name}.cells"].numpy()
        np.testing.assert_allclose(answer.cells.numpy()[real], cells[real], err_msg=name, **CLOSE)
        assert np.array_equal(again.numpy(), answer.cells.numpy())
        operations = golden[f"{name}.operations"].numpy()
        assert answer.operations is not None
        np.testing.assert_allclose(answer.operations.numpy(), operations, **CLOSE)
        assert (cells[real] > -1000).any()  # a column was chosen, or none may be


def test_types_of_another_shape_are_named(table: ModuleType) -> None:
    ids, types, _ = (rl.tensor(x) for x in _tables().inputs())
    m = _reader(table, {"num_aggregation_labels": 0, "select_one_column": False})
    with pytest.raises(ValueError, match="token_type_ids are"):
        m(ids, None, types[..., 0])
    with rl.no_grad():
        answer = m.answer(ids, None, types)
    assert answer.operations is None and answer.cells.shape == ids.shape


# --- questions in words -------------------------------------------------------------------------

SPEC = importlib.util.spec_from_file_location("table_questions", HERE / "table_questions.py")
assert SPEC is not None and SPEC.loader is not None
WORDS: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(WORDS)
ANSWERS = json.loads((HERE / "data" / "table_questions.json").read_text(encoding="utf-8"))


def _answering(table: ModuleType, keys: dict[str, Any], device: str = "cpu") -> Any:
    tensors = {
        n: rl.tensor(table.values_of(n, tuple(s)) * np.float32(WORDS.FACTORS.get(n, 1.0)))
        for n, s in ANSWERS["names"].items()
    }
    settings = {"tokenizer_class": "TapasTokenizer", "do_lower_case": True, **keys}
    files = {
        "config.json": json.dumps(ANSWERS["config"]).encode(),
        "vocab.txt": "\n".join(WORDS.VOCABULARY).encode(),
        "tokenizer_config.json": json.dumps(settings).encode(),
    }
    return rl.models.assemble(files, tensors, device=device)


@pytest.mark.parametrize("number", range(len(WORDS.CALLS)))
def test_questions_about_tables_are_answered_as_transformers_answers(
    number: int, table: ModuleType
) -> None:
    cells, query, options, keys = WORDS.CALLS[number]
    golden = ANSWERS["calls"][number]
    m = _answering(table, keys)
    assert m.tasks[0] == "table-question-answering"
    names = list(cells) if isinstance(cells, dict) else list(cells[0])
    columns = cells if isinstance(cells, dict) else {n: [row[n] for row in cells] for n in names}
    tokens = m.tables(names, list(zip(*columns.values(), strict=True)))
    asked = [query] if isinstance(query, str) else query
    for text, ids, types in zip(asked, golden["ids"], golden["types"], strict=True):
        row = tokens.asked(text)
        assert row.ids.tolist() == ids
        assert row.types.tolist() == types
    ask = rl.pipeline("table-question-answering", m)
    given = {"table": cells, "query": query}
    assert ask(given, **options) == golden["answer"]
    assert ask([given], batch_size=1, **options) == [golden["answer"]]


def test_tables_that_cannot_be_read_are_refused_by_name(table: ModuleType) -> None:
    ask = rl.pipeline("table-question-answering", _answering(table, {"model_max_length": 24}))
    for cells, words in (
        ({"a": ["1"], "b": []}, "columns of table 0 have"),
        ([{"a": "1"}, {"b": "1"}], "has no 'b'"),
        ({"a": []}, "table 0 is empty"),
        ({f"{i}": ["1"] for i in range(12)}, "fewer than 12"),
        ({"a b " * 40: ["1"]}, ""),
    ):
        if words:
            with pytest.raises(ValueError, match=words):
                ask({"table": cells, "query": "who?"})
        else:
            assert set(ask({"table": cells, "query": "who?"})) >= {"answer", "cells"}
    with pytest.raises(ValueError, match="query is empty"):
        ask({"table": {"a": ["1"]}, "query": ""})
    with pytest.raises(TypeError, match="tables"):
        ask({"table": {"a": [1]}, "query": "who?"})
    with pytest.raises(ValueError, match="reads 96"):
        ask({"table": {"a": ["1"]}, "query": "who? " * 60})
