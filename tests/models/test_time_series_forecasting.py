"""Time series: transformers' forecasts, missing numbers, longer forecasts, errors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

HERE = Path(__file__).parent
DATA = HERE / "data" / "series"
spec = importlib.util.spec_from_file_location("rushlight_tests_series", HERE / "series.py")
assert spec is not None and spec.loader is not None
table: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)


def metadata(row: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """config.json, and the checkpoint's names and shapes."""
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    return json.loads(found["config"]), json.loads(found["names"])


def model(row: str, device: Any = "cpu", **changes: Any) -> Any:
    """The model of a row of the table."""
    config, names = metadata(row)
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    files = {"config.json": json.dumps(config | changes).encode()}
    return rl.models.assemble(files, tensors, device=device)


def forecasts(m: Any, row: str) -> tuple[Any, Any]:
    """Those of whole series, and of series with missing numbers."""
    config = metadata(row)[0]
    series, known = table.series_of(config), table.known_of(config)
    with rl.no_grad():
        found = [
            m.forecast(rl.tensor(series * k, device=m.device), rl.tensor(k, device=m.device))
            for k in (np.ones_like(known), known)
        ]
    return found[0].numpy(), found[1].numpy()


@pytest.mark.parametrize("case", list(table.ROWS))
def test_forecasts_are_transformers(case: str, device: Any) -> None:
    m, golden = model(case, device), load_safetensors(DATA / f"{case}.safetensors")
    assert m.tasks == ("time-series-forecasting",)
    for found, name in zip(forecasts(m, case), ("out", "missing"), strict=True):
        wanted = golden[name].numpy()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_every_row_has_a_small_golden() -> None:
    files = {path.stem: path.stat().st_size for path in DATA.glob("*.safetensors")}
    assert set(files) == set(table.ROWS) and max(files.values()) <= 50 << 10


def test_a_series_is_continued() -> None:
    pipe = rl.pipeline("time-series-forecasting", model("timesfm"))
    numbers = table.series_of(metadata("timesfm")[0])[0, :, 0].tolist()
    wanted = load_safetensors(DATA / "timesfm.safetensors")["out"].numpy()[0, :, 0]
    answer = pipe(numbers)
    assert answer["values"] == pytest.approx(wanted[:, 0].tolist(), rel=1e-4)
    assert list(answer["quantiles"]) == ["0.1", "0.5", "0.9"]
    assert answer["quantiles"]["0.9"] == pytest.approx(wanted[:, 3].tolist(), rel=1e-4)
    assert pipe(numbers, prediction_length=3)["values"] == answer["values"][:3]
    # What is before the context is not read; later numbers follow the forecast ones.
    longer = pipe([5.0, *numbers], prediction_length=12)["values"]
    assert longer[:7] == answer["values"] and len(longer) == 12
    again = pipe([*numbers, *answer["values"]])["values"]
    assert longer[7:] == pytest.approx(again[:5], rel=1e-3)


def test_channels_and_missing_numbers() -> None:
    pipe = rl.pipeline("time-series-forecasting", model("patchtst"))
    config = metadata("patchtst")[0]
    series = table.series_of(config)[1]
    wanted = load_safetensors(DATA / "patchtst.safetensors")["missing"].numpy()[1, :, :, 0]
    gaps = np.where(table.known_of(config)[1] > 0, series, np.nan)
    for given in (gaps, gaps[9:], [[None] * 3, *series[9:].tolist()]):
        answer = pipe(given if isinstance(given, list) else given.tolist())
        assert "quantiles" not in answer
        np.testing.assert_allclose(answer["values"], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ([[1.0, 2.0]], "the series has 2 channels; the model reads 3"),
        ([1.0, 2.0], "the series has 1 channels"),
        ([], "they must be numbers, or a list of numbers for each time"),
    ],
)
def test_other_numbers_are_refused(values: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        rl.pipeline("time-series-forecasting", model("patchtst"))(values)
    with pytest.raises(TypeError, match="it must be numbers"):
        rl.pipeline("time-series-forecasting", model("patchtst"))([[[1.0]]])


@pytest.mark.parametrize(
    ("case", "changes", "wrong"),
    [
        ("patchtst", {"loss": "nll"}, "loss 'nll' is not supported"),
        ("patchtst", {"share_projection": False}, "share_projection False is not supported"),
        ("patchtst", {"patch_length": 23}, "patches of 23 every 3 in 23 numbers"),
        ("timesfm", {"context_length": 22}, "patches of 4 numbers do not divide a context of 22"),
    ],
)
def test_what_is_not_supported_is_named(case: str, changes: Any, wrong: str) -> None:
    with pytest.raises(rl.FormatError, match=wrong):
        model(case, **changes)
