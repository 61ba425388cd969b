"""Make the goldens of the tasks of encoders' heads: the answers of transformers' pipelines.

    python tests/parity/make_task_goldens.py

Needs torch and transformers. Writes tests/models/data/tasks.json: a tokenizer of words, and for
each row of CALLS the table's row, the task, the input, the options and the pipeline's answer.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = Path(__file__).parents[1] / "models"
SPECIAL = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3, "[UNK]": 4}
AROUND = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
          {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]  # fmt: skip
WORDS: dict[str, Any] = {
    "version": "1.0", "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
    "added_tokens": [
        {"id": i, "content": name, "special": True, "lstrip": False, "rstrip": False,
         "single_word": False, "normalized": False} for name, i in SPECIAL.items()
    ],
    "post_processor": {
        "type": "TemplateProcessing", "pair": [], "single": AROUND,
        "special_tokens": {n: {"id": n, "ids": [SPECIAL[n]], "tokens": [n]}
                           for n in ("[CLS]", "[SEP]")},
    },
    "model": {"type": "WordLevel", "unk_token": "[UNK]",
              "vocab": {**SPECIAL, **{f"w{i}": i for i in range(5, 50)}}},
}  # fmt: skip
TEXTS = ["w5 w6 w7", "w9", "w10 w11 w12 w13 w5"]
ONE, TWO = ["w5 [MASK] w7", "[MASK] w9 w10 w11 w8"], "w5 [MASK] w20 [MASK]"
KEEP: dict[str, Any] = {"top_k": None}
# A row of the table's heads, a task, an input, options, and keys of config.json.
CALLS: list[tuple[str, str, Any, dict[str, Any], dict[str, Any]]] = [
    ("bert-maskedlm", "fill-mask", ONE, {"top_k": 3}, {}),
    ("distilbert-maskedlm", "fill-mask", TWO, {"top_k": 2}, {}),
    ("bert-sequenceclassification", "text-classification", TEXTS, KEEP, {}),
    ("distilbert-sequenceclassification", "text-classification", TEXTS, {"top_k": 2},
     {"problem_type": "multi_label_classification"}),
    ("bert-sequenceclassification", "text-classification", TEXTS, KEEP,
     {"problem_type": "regression"}),
    ("bert-sequenceclassification", "text-classification", TEXTS,
     {"top_k": None, "function_to_apply": "sigmoid"}, {}),
]  # fmt: skip


def main() -> None:
    spec = importlib.util.spec_from_file_location("families", MODELS / "families.py")
    assert spec is not None and spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    calls: list[dict[str, Any]] = []
    for row, task, given, options, keys in CALLS:
        architecture, settings = table.HEADS[row]
        kind = getattr(transformers, architecture)
        config = kind.config_class(**settings, **keys, architectures=[architecture])
        with tempfile.TemporaryDirectory() as folder:
            kind(config).save_pretrained(folder)
            file = Path(folder) / "model.safetensors"
            found = {n: torch.from_numpy(table.values_of(n, tuple(t.shape)))
                     for n, t in load_file(file).items()}  # fmt: skip
            save_file(found, file, metadata={"format": "pt"})
            (Path(folder) / "tokenizer.json").write_text(json.dumps(WORDS), encoding="utf-8")
            named = {f"{n.strip('[]').lower()}_token": n for n in SPECIAL}
            tokenizer = transformers.PreTrainedTokenizerFast(
                tokenizer_file=f"{folder}/tokenizer.json", **named
            )
            model = kind.from_pretrained(folder).eval()
            answer = transformers.pipeline(task, model=model, tokenizer=tokenizer)(given, **options)
        calls.append({"row": row, "task": task, "given": given, "options": options, "keys": keys,
                      "answer": answer})  # fmt: skip
    place = MODELS / "data" / "tasks.json"
    text = json.dumps({"tokenizer": WORDS, "calls": calls}, separators=(",", ":"))
    place.write_text(text + "\n", encoding="utf-8")
    print(place.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
