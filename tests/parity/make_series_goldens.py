"""Make the goldens of models of time series with transformers, from their table.

    python tests/parity/make_series_goldens.py [ROW ...]

Writes tests/models/data/series/ROW.safetensors: the forecasts of whole series under "out", with
missing numbers under "missing"; as metadata config.json, names and shapes.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

MODELS = Path(__file__).parents[1] / "models"


def main(rows: list[str]) -> None:
    spec = importlib.util.spec_from_file_location("series", MODELS / "series.py")
    assert spec is not None and spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    for row in rows or table.ROWS:
        architecture, settings = table.ROWS[row]
        if architecture.startswith("Chronos"):
            from chronos import chronos_bolt as source  # the package chronos-forecasting
        else:
            source = transformers
        kind = getattr(source, architecture)
        config = kind.config_class(**settings, architectures=[architecture])
        model = kind(config).eval()
        names = {}
        for name, t in model.state_dict().items():
            if name.endswith(("num_batches_tracked", "inv_timescales", "embed_tokens.weight")):
                continue
            names[name] = list(t.shape)
            t.copy_(torch.from_numpy(table.values_of(name, tuple(t.shape))))
        series, known = table.series_of(settings), table.known_of(settings)
        with torch.no_grad():
            out, missing = (forecast(model, series * k, k) for k in (np.ones_like(known), known))
        metadata = {"config": json.dumps(config.to_dict()), "names": json.dumps(names)}
        place = MODELS / "data" / "series" / f"{row}.safetensors"
        save_file({"out": out, "missing": missing}, place, metadata=metadata)
        print(row, place.stat().st_size, "bytes")


def forecast(model: Any, series: Any, known: Any) -> Any:
    """(2, horizon, channels, 1 + quantiles) of numbers and whether each is known."""
    values, mask = torch.from_numpy(series), torch.from_numpy(known)
    if hasattr(model, "chronos_config"):
        found = model(torch.where(mask > 0, values, torch.nan)[..., 0]).quantile_preds
        return torch.cat([found[:, 1:2], found], 1).transpose(1, 2).unsqueeze(2).contiguous()
    if hasattr(model, "horizon_ff_layer"):  # a series without its missing beginning
        given = [row[m > 0] for row, m in zip(values[..., 0], mask[..., 0], strict=True)]
        return model(past_values=given).full_predictions.unsqueeze(2).contiguous()
    found = model(past_values=values, past_observed_mask=mask).prediction_outputs
    return found.unsqueeze(-1).contiguous()


if __name__ == "__main__":
    main(sys.argv[1:])
