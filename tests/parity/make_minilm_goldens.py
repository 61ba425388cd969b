"""Make the golden embeddings of all-MiniLM-L6-v2 with the published implementation.

    python tests/parity/make_minilm_goldens.py FOLDER

FOLDER holds the checkpoint (`rushlight fetch all-minilm-l6-v2` prints where it is). Needs torch,
transformers and safetensors; the tests that read the result need none of them. Mean pooling and
normalisation follow the model card; texts are cut off at max_seq_length of the checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

DATA = Path(__file__).parent / "data"


def main(folder: Path) -> None:
    texts = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))
    limit = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        batch = tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        rows.append(torch.nn.functional.normalize(hidden.mean(1), dim=-1)[0])
    save_file({"embeddings": torch.stack(rows).contiguous()}, DATA / "minilm.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
