"""Make the goldens of questions about tables with the published implementation.

    python tests/parity/make_table_goldens.py

Needs torch, transformers, safetensors. Writes tests/models/data/tables.safetensors: of a tiny
TAPAS, whose parameters are those of tests/models/families.py, hidden states and scores of tokens
and operations; as metadata its config.json and names.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

MODELS = Path(__file__).resolve().parents[1] / "models"
CONFIG = {
    "num_aggregation_labels": 4,
    "aggregation_labels": {0: "NONE", 1: "SUM", 2: "AVERAGE", 3: "COUNT"},
    "temperature": 0.7,
    "max_num_rows": 4,
    "max_num_columns": 4,
}


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Compute and write them."""
    table, tables = _module(MODELS / "families.py"), _module(MODELS / "tables.py")
    config = transformers.TapasConfig(
        **table.ROWS["tapas"][1] | CONFIG, architectures=["TapasForQuestionAnswering"]
    )
    model = transformers.TapasForQuestionAnswering(config).eval()
    names = {n: list(t.shape) for n, t in model.state_dict().items()}
    values = {n: torch.from_numpy(table.values_of(n, tuple(s))) for n, s in names.items()}
    model.load_state_dict(values)
    ids, types, mask = (torch.from_numpy(x) for x in tables.inputs())
    found = {}
    for name, changes in tables.KINDS.items():
        for key, value in changes.items():
            setattr(model.config, key, value)
        with torch.no_grad():
            out = model(ids, attention_mask=mask, token_type_ids=types, output_hidden_states=True)
        found[f"{name}.hidden"] = out.hidden_states[-1].contiguous()
        found[f"{name}.cells"] = out.logits.contiguous()
        found[f"{name}.operations"] = out.logits_aggregation.contiguous()
    metadata = {"config": json.dumps(config.to_dict()), "names": json.dumps(names)}
    place = MODELS / "data" / "tables.safetensors"
    save_file(found, place, metadata=metadata)
    print(place.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
