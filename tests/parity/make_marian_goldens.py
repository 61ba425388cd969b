"""Make the goldens of Marian's own files, with tests/models/marian_reference.py.

    python tests/parity/make_marian_goldens.py

Needs this package only. Writes what make_family_goldens.py does.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.layers.seq2seq.marian_files import OPTIONS, rename_tensors

MODELS = Path(__file__).parents[1] / "models"


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Write both rows."""
    table, marian = (_module(MODELS / f"{name}.py") for name in ("families", "marian_reference"))
    for row in ("bergamot", "bergamot-attention"):
        config = table.ROWS[row][1]
        weights, names = marian.weights_of(attention=row != "bergamot"), {}
        for name, x in weights.items():
            one = {name: rl.tensor(x), OPTIONS: rl.zeros(1)}
            (new, _), *_ = rename_tensors(one).items()
            matrix = x.shape[0] > 1 and name != "Wemb"
            bias = x.shape[0] == 1 and new != "final_logits_bias"
            shape = x.shape[::-1] if matrix else x.shape[1:] if bias else x.shape
            names[new] = list(shape)
            values = table.values_of(new, tuple(shape))
            weights[name] = values.T if matrix else values.reshape(x.shape)
        ids, after = table.ids_of(config["vocab_size"]), table.decoder_ids_of(config["vocab_size"])
        found = {
            key: np.stack(
                [marian.logits_of(weights, *rows) for rows in zip(ids, after, seen, strict=True)]
            )
            for key, seen in (("out", [None] * 2), ("padded", table.mask_of()))
        }
        save_safetensors(
            {key: rl.tensor(x.astype(np.float32)) for key, x in found.items()},
            MODELS / "data" / "families" / f"{row}.safetensors",
            metadata={"config": json.dumps(config), "names": json.dumps(names)},
        )


if __name__ == "__main__":
    main()
