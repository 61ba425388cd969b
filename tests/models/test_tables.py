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
