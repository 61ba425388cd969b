"""Make the goldens of families with the published implementation, from the rows of their table.

    python tests/parity/make_family_goldens.py [ROW ...]

Needs torch, transformers and safetensors. Writes tests/models/data/families/ROW.safetensors for
each row of tests/models/families.py: the logits, or hidden states, of its ids under "out" and of
the same with padding under "padded"; as metadata config.json and the checkpoint's names and shapes.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

MODELS = Path(__file__).parents[1] / "models"


def _table() -> Any:
    spec = importlib.util.spec_from_file_location("families", MODELS / "families.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(rows: list[str]) -> None:
    table = _table()
    for row in rows or table.ROWS:
        architecture, settings = table.ROWS[row]
        kind = getattr(transformers, architecture)
        model = kind(kind.config_class(**settings, architectures=[architecture])).eval()
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(torch.from_numpy(table.values_of(name, tuple(p.shape))))
        ids = torch.from_numpy(table.ids_of(settings["vocab_size"]))
        mask = torch.from_numpy(table.mask_of())
        given: dict[str, Any] = {"attention_mask": mask.long()}
        decoder = hasattr(model, "lm_head") or "ForCausalLM" in architecture
        if decoder:
            given["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            found = [model(ids), model(ids, **given)]
        out, padded = (x.logits if decoder else x.last_hidden_state for x in found)
        metadata = {
            "config": json.dumps(model.config.to_dict()),
            "names": json.dumps({n: list(p.shape) for n, p in model.named_parameters()}),
        }
        place = MODELS / "data" / "families" / f"{row}.safetensors"
        tensors = {"out": out.contiguous(), "padded": padded.contiguous()}
        save_file(tensors, place, metadata=metadata)
        print(row, place.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
