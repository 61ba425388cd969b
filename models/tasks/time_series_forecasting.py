"""The task time-series-forecasting: the numbers that come after those of a series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import brief
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import from_numpy
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task


def run(model: Any, values: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"values"}: the next numbers, a list for each channel if there are channels, and "quantiles"
    by their shares, of a model that gives these.

    The last numbers of the context are read; a shorter series and numbers that are None or NaN are
    taken as missing. Past its horizon a model reads what it has forecast. ValueError for numbers of
    another shape, and for other channels than the model has.
    """
    steps = options["prediction_length"] or model.horizon
    series = _table(values)
    single = series.ndim == 1
    series = series[:, None] if single else series
    if model.channels not in (None, series.shape[1]):
        raise ValueError(
            f"time-series-forecasting: the series has {series.shape[1]} channels; the model reads "
            f"{model.channels}"
        )
    parts: list[Any] = []
    while sum(map(len, parts)) < steps:
        window = np.full((model.context_length, series.shape[1]), np.nan, np.float32)
        recent = series[-model.context_length :]
        window[len(window) - len(recent) :] = recent
        known = ~np.isnan(window)
        with autograd.no_grad():
            found = model.forecast(
                from_numpy(np.where(known, window, 0.0).astype(np.float32)[None]).to(model.device),
                from_numpy(known.astype(np.float32)[None]).to(model.device),
            )
        part = np.asarray((yield found.float().readback()))[0]
        parts.append(part)
        series = np.concatenate([series, part[..., 0]])
        yield Progress("forecast", min(sum(map(len, parts)), steps), steps)
    whole = np.concatenate(parts)[:steps]

    def told(numbers: Any) -> Any:
        rows = numbers[:, 0] if single else numbers
        return np.round(rows.astype(np.float64), 6).tolist()

    answer: dict[str, Any] = {"values": told(whole[..., 0])}
    if model.quantiles:
        answer["quantiles"] = {
            f"{share:g}": told(whole[..., 1 + i]) for i, share in enumerate(model.quantiles)
        }
    return answer


def _table(values: Any) -> Any:
    """(length,) or (length, channels) of float32, NaN for what is missing."""
    try:
        series = np.array(values, dtype=np.float32)
    except (TypeError, ValueError):
        series = np.zeros(0, np.float32)
    if series.ndim not in (1, 2) or not series.size:
        raise ValueError(
            f"time-series-forecasting: values are {brief(values)}; they must be numbers, or a list "
            "of numbers for each time"
        )
    return series


TASK = Task(
    name="time-series-forecasting",
    summary="Say which numbers come next.",
    input=Input("values", "series", "The numbers so far, or a list of numbers for each time."),
    output="value",
    run=run,
    options=(
        Option("prediction_length", "int", None, "Numbers to give; else the model's own.", least=1),
    ),
    command=Command("forecast", ""),
)
