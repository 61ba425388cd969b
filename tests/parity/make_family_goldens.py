"""Make the goldens of families with the published implementation, from the rows of their table.

    python tests/parity/make_family_goldens.py [ROW ...]

Needs torch, transformers and safetensors. Writes tests/models/data/families/ROW.safetensors for
each row of tests/models/families.py, data/heads for rows with a head: the logits,
or hidden states, of its ids under "out" and of the same with padding under "padded"; as metadata
config.json and the checkpoint's names and shapes.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "models"


def _table() -> Any:
    spec = importlib.util.spec_from_file_location("families", MODELS / "families.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _checkpoint(model: Any, table: Any, folder: Path) -> dict[str, list[int]]:
    """Save the model as transformers does, with the table's values; the names and shapes."""
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    tensors = {n: table.values_of(n, tuple(t.shape)) for n, t in load_file(file).items()}
    save_file({n: torch.from_numpy(t) for n, t in tensors.items()}, file, metadata={"format": "pt"})
    return {n: list(t.shape) for n, t in tensors.items()}


def main(rows: list[str]) -> None:
    table = _table()
    for row in rows or [*table.ROWS, *table.HEADS]:
        headed = row in table.HEADS
        architecture, settings = (table.HEADS if headed else table.ROWS)[row]
        kind = getattr(transformers, architecture)
        config = kind.config_class(**settings, architectures=[architecture])
        with tempfile.TemporaryDirectory() as folder:
            names = _checkpoint(kind(config), table, Path(folder))
            model = kind.from_pretrained(folder, attn_implementation="eager").eval()
            stored = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        ids = torch.from_numpy(table.ids_of(settings["vocab_size"]))
        mask = torch.from_numpy(table.mask_of())
        given: dict[str, Any] = {"attention_mask": mask.long()}
        more = []
        if settings["model_type"] in table.TEXT_TO_TEXT:
            vocab = settings.get("decoder_vocab_size", settings["vocab_size"])
            more = [torch.from_numpy(table.decoder_ids_of(vocab))]
            given["decoder_input_ids"] = more[0]
        decoder = hasattr(model, "lm_head") or "ForCausalLM" in architecture
        alone = decoder and not more and not headed
        if alone and "position_ids" in inspect.signature(model.forward).parameters:
            given["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            found = [model(ids, decoder_input_ids=more[0]) if more else model(ids),
                     model(ids, **given)]  # fmt: skip
        if "QuestionAnswering" in architecture:
            both = [torch.stack((x.start_logits, x.end_logits), -1) for x in found]
        else:
            both = [x.logits if decoder or headed else x.last_hidden_state for x in found]
        out, padded = both
        metadata = {"config": json.dumps(stored), "names": json.dumps(names)}
        place = MODELS / "data" / ("heads" if headed else "families") / f"{row}.safetensors"
        tensors = {"out": out.contiguous(), "padded": padded.contiguous()}
        save_file(tensors, place, metadata=metadata)
        print(row, place.stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
