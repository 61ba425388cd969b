"""Make the goldens of searches: the answers of transformers' generate on tiny models.

    python tests/parity/make_text_to_text_goldens.py

Needs torch and transformers. Writes tests/models/data/text_to_text.json: for each row and search of
tests/models/searches.py the answers to all sources, and the scores that draws are made from.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "models"


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _model(row: str, table: Any) -> Any:
    architecture, settings = table.ROWS[row]
    kind = getattr(transformers, architecture)
    config = kind.config_class(**settings, architectures=[architecture])
    with tempfile.TemporaryDirectory() as folder:
        kind(config).save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        found = {
            n: torch.from_numpy(table.values_of(n, tuple(t.shape)))
            for n, t in load_file(file).items()
        }
        save_file(found, file, metadata={"format": "pt"})
        return kind.from_pretrained(folder, attn_implementation="eager").eval()


def _answers(model: Any, sources: list[list[int]], options: dict[str, Any]) -> Any:
    pad = model.config.pad_token_id
    width = max(map(len, sources))
    ids = torch.tensor([row + [pad] * (width - len(row)) for row in sources])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in sources])
    # Its caches assume as many layers in the decoder as in the encoder.
    given = {"num_beams": 1, "eos_token_id": None, "use_cache": False, **options}
    model.generation_config = transformers.GenerationConfig(pad_token_id=pad, **given)
    with torch.no_grad():
        found = model.generate(
            ids, attention_mask=mask, return_dict_in_generate=True, output_scores=True
        )
    ends = given["eos_token_id"]
    ends = set() if ends is None else set(ends) if isinstance(ends, list) else {ends}
    rows = []
    for row in found.sequences.tolist():
        new = row[1:]
        last = next((i for i, t in enumerate(new) if t in ends), len(new) - 1)
        rows.append(new[: last + 1])
    scores = getattr(found, "sequences_scores", None)
    return {"ids": rows, "scores": None if scores is None else scores.tolist()}


def main() -> None:
    transformers.utils.logging.set_verbosity_error()
    table, searches = _module("families"), _module("searches")
    found: dict[str, Any] = {}
    for row in searches.ROWS:
        model = _model(row, table)
        found[row] = {
            name: _answers(model, searches.SOURCES, options)
            for name, options in searches.SEARCHES.items()
        }
    scores = np.random.default_rng(5).normal(size=(3, 12)).astype(np.float32) * 2
    draws = []
    for options in searches.DRAWS:
        config = transformers.GenerationConfig(
            do_sample=True,
            **{
                "num_beams": 1,
                "top_k": 50,
                "eos_token_id": [1],
                "decoder_start_token_id": 0,
                **options,
            },
        )
        model._prepare_special_tokens(config, False, device="cpu")
        rules = model._get_logits_processor(config, 1, device="cpu")
        ids = torch.zeros((3, 1), dtype=torch.long)
        kept = rules(ids, torch.from_numpy(scores).log_softmax(-1))
        draws.append(
            [[None if not np.isfinite(x) else round(x, 5) for x in row] for row in kept.tolist()]
        )
    place = MODELS / "data" / "text_to_text.json"
    text = json.dumps({"answers": found, "draws": draws}, separators=(",", ":"))
    place.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")
    print(place.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
