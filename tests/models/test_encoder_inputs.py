"""What some encoders take beside ids, and how older files of theirs are read."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

Array = npt.NDArray[Any]


def made(config: dict[str, Any], names: dict[str, Any], table: ModuleType) -> Any:
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble({"config.json": json.dumps(config).encode()}, tensors)


def run(m: Any, ids: Array, **more: Array) -> Array:
    with rl.no_grad():
        out: Array = m(rl.tensor(ids), **{n: rl.tensor(x) for n, x in more.items()}).numpy()
    return out


def test_boxes_are_inputs_of_a_page(table: ModuleType, rows: ModuleType) -> None:
    m, ids = rows.model("layoutlm", table), table.ids_of(50)
    box = np.zeros((*ids.shape, 4), np.int64)
    plain = run(m, ids)
    assert np.array_equal(run(m, ids, bbox=box), plain)
    box[0, 3] = (2, 4, 9, 7)
    moved = run(m, ids, bbox=box)
    assert np.abs(moved[0] - plain[0]).max() > 1e-2 and np.array_equal(moved[1], plain[1])
    with pytest.raises(ValueError, match="bbox is"):
        run(m, ids, bbox=box[:, :4])
    with pytest.raises(TypeError, match="bbox is not an input"):
        run(rows.model("bert", table), ids, bbox=box)


def test_tokens_that_see_all(table: ModuleType, rows: ModuleType) -> None:
    """The last token reaches the first past the windows if it is one of them."""
    m, ids = rows.model("longformer", table), table.ids_of(50)
    other, wide = ids.copy(), np.zeros(ids.shape, np.int64)
    other[:, -1] = 7
    assert np.array_equal(run(m, ids, global_attention_mask=wide), run(m, ids))
    assert np.array_equal(run(m, ids)[:, 0], run(m, other)[:, 0])
    wide[:, -1] = 1
    found = [run(m, x, global_attention_mask=wide)[:, 0] for x in (ids, other)]
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_stored_frequencies_of_older_files(table: ModuleType, rows: ModuleType) -> None:
    """Those of the first layer are read; a file without any has those of rope_theta."""
    config, names = rows.metadata("esm")
    [stored] = [n for n in names if n.endswith("inv_freq")]
    ids = table.ids_of(50)
    end = "attention.self.rotary_embeddings.inv_freq"
    given = 10000.0 ** (-np.arange(6) / 6.0)
    tensors = {n: rl.tensor(table.values_of(n, tuple(s))) for n, s in names.items() if n != stored}
    files = {"config.json": json.dumps(config).encode()}
    older = {f"encoder.layer.{i}.{end}": rl.tensor(given.astype(np.float32)) for i in (0, 1)}
    found = run(rl.models.assemble(files, tensors | older), ids)
    np.testing.assert_allclose(
        found, run(rl.models.assemble(files, tensors), ids), rtol=1e-4, atol=1e-5
    )


def test_a_window_and_a_theta_of_each_layer(table: ModuleType, rows: ModuleType) -> None:
    """As the published files of UltraBERT say what `layer_types` and `rope_parameters` say."""
    config, names = rows.metadata("ultrabert")
    ids = table.ids_of(50)
    wanted = run(rows.model("ultrabert", table), ids)
    keys = ("layer_types", "rope_parameters", "sliding_window")
    older = {n: v for n, v in config.items() if n not in keys}
    thetas = [config["rope_parameters"][kind]["rope_theta"] for kind in config["layer_types"]]
    windows = [2 * (kind == "sliding_attention") for kind in config["layer_types"]]
    found = made(older | {"attention_windows": windows, "rope_theta": thetas}, names, table)
    np.testing.assert_allclose(run(found, ids), wanted, rtol=1e-5, atol=1e-6)


def test_a_language_must_be_said(table: ModuleType, rows: ModuleType) -> None:
    config, names = rows.metadata("xmod")
    with pytest.raises(rl.FormatError, match="default_language is None"):
        made(config | {"default_language": None}, names, table)
