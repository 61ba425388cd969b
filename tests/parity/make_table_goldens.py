"""Make the goldens of questions about tables with the published implementation.

    python tests/parity/make_table_goldens.py

Needs torch, transformers, pandas, safetensors. Writes tests/models/data/tables.safetensors: of a
tiny TAPAS, whose parameters are those of tests/models/families.py, hidden states and scores of
tokens and operations; as metadata its config.json and names. Writes table_questions.json, too: of
the tables of tests/models/table_questions.py the tokens and the pipeline's answers.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
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


def _questions(table: Any) -> None:
    """Write tokens and answers of questions in words."""
    pandas: Any = importlib.import_module("pandas")

    words = _module(MODELS / "table_questions.py")
    config = transformers.TapasConfig(**words.CONFIG, architectures=["TapasForQuestionAnswering"])
    model = transformers.TapasForQuestionAnswering(config).eval()
    names = {n: list(t.shape) for n, t in model.state_dict().items()}
    model.load_state_dict(
        {
            n: torch.from_numpy(table.values_of(n, tuple(s))) * words.FACTORS.get(n, 1.0)
            for n, s in names.items()
        }
    )
    calls = []
    for cells, query, options, keys in words.CALLS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vocab.txt"
            file.write_text("\n".join(words.VOCABULARY), encoding="utf-8")
            tokenizer = transformers.TapasTokenizer(str(file), **keys)
        frame = pandas.DataFrame(cells)
        rows = [
            tokenizer(frame, one, truncation="drop_rows_to_fit")
            for one in ([query] if isinstance(query, str) else query)
        ]
        pipe = transformers.pipeline("table-question-answering", model=model, tokenizer=tokenizer)
        answer = pipe(table=frame, query=query, **options)
        calls.append(
            {
                "ids": [row["input_ids"] for row in rows],
                "types": [row["token_type_ids"] for row in rows],
                "answer": answer,
            }
        )
    place = MODELS / "data" / "table_questions.json"
    told = {"config": config.to_dict(), "names": names, "calls": calls}
    place.write_text(json.dumps(told, separators=(",", ":")) + "\n", encoding="utf-8")
    print(place.stat().st_size, "bytes")


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
    _questions(table)


if __name__ == "__main__":
    main()
