"""Make tests/models/data/sentences.json: what sentence-transformers gives for tests' folders.

    python tests/parity/make_sentence_goldens.py

Needs torch, sentence-transformers (6.2) and this package. The rows are those of
tests/models/sentence_folders.py.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer, SparseEncoder

MODELS = Path(__file__).parents[1] / "models"


def _table() -> Any:
    spec = importlib.util.spec_from_file_location("folders", MODELS / "sentence_folders.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _vectors(model: Any, texts: list[str], call: dict[str, Any]) -> Any:
    if isinstance(model, SparseEncoder):
        return model.encode(texts, convert_to_sparse_tensor=False).numpy()
    given: dict[str, Any] = {k: v for k, v in call.items() if k.startswith("prompt")}
    dim = call.get("dim")
    normal = call.get("normalize", dim is not None)
    sides = {"query": model.encode_query, "document": model.encode_document}
    encode = sides.get(call.get("side", ""), model.encode)
    return encode(texts, truncate_dim=dim, normalize_embeddings=normal, **given)


def main() -> None:
    table, found = _table(), {}
    for name, row in table.ROWS.items():
        with tempfile.TemporaryDirectory() as folder:
            table.write(Path(folder), name)
            kind = SparseEncoder if row.get("masked") else SentenceTransformer
            model: Any = kind(folder, device="cpu")
            calls = [_vectors(model, table.TEXTS, call) for call in row["calls"]]
            first = calls[0].astype(np.float64)
            alike = model.similarity(first[:2], first).numpy()
        rounded = [np.round(np.asarray(x, np.float64), 5).tolist() for x in (*calls, alike)]
        found[name] = {"calls": rounded[:-1], "alike": rounded[-1]}
        print(name, [np.shape(x) for x in calls])
    text = json.dumps(found, separators=(",", ":"))
    (MODELS / "data" / "sentences.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
