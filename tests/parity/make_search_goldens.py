"""Make the golden rankings of the search page with the published implementation.

    python tests/parity/make_search_goldens.py FOLDER

FOLDER holds all-minilm-l6-v2 (`rushlight fetch all-minilm-l6-v2` prints where it is). Needs torch
and transformers; the tests that read the result need neither.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

DATA = Path(__file__).parents[1] / "browser" / "data"


def main(folder: Path) -> None:
    passages = (DATA / "passages.txt").read_text(encoding="utf-8").strip().split("\n\n")
    queries = json.loads((DATA / "queries.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in [*passages, *queries]:
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        rows.append(torch.nn.functional.normalize(hidden.mean(1), dim=-1)[0].double())
    vectors = torch.stack(rows)
    scores = vectors[len(passages) :] @ vectors[: len(passages)].T
    golden = [
        {"query": query, "top": int(row.argmax()), "scores": [round(x, 6) for x in row.tolist()]}
        for query, row in zip(queries, scores, strict=True)
    ]
    text = json.dumps(golden, indent=None).replace("}, ", "},\n")
    (DATA / "search.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
