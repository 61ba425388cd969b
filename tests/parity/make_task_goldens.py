"""Make the goldens of the tasks of encoders' heads: the answers of transformers' pipelines.

    python tests/parity/make_task_goldens.py

Needs torch, transformers 4 (5 has no question answering) and sentence-transformers, whose
CrossEncoder ranks. Writes tests/models/data/tasks.json: a tokenizer of words and one of pieces, and
for each row of CALLS the table's row, the task, the input, the options and the pipeline's answer.
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
from sentence_transformers import CrossEncoder

MODELS = Path(__file__).parents[1] / "models"
SPECIAL = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3, "[UNK]": 4}
AROUND = [
    {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
    {"Sequence": {"id": "A", "type_id": 0}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
]
PAIR = [
    *AROUND,
    {"Sequence": {"id": "B", "type_id": 1}},
    {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
]
WORDS: dict[str, Any] = {
    "version": "1.0", "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
    "added_tokens": [
        {"id": i, "content": name, "special": True, "lstrip": False, "rstrip": False,
         "single_word": False, "normalized": False} for name, i in SPECIAL.items()
    ],
    "post_processor": {
        "type": "TemplateProcessing", "pair": PAIR, "single": AROUND,
        "special_tokens": {n: {"id": n, "ids": [SPECIAL[n]], "tokens": [n]}
                           for n in ("[CLS]", "[SEP]")},
    },
    "model": {"type": "WordLevel", "unk_token": "[UNK]",
              "vocab": {**SPECIAL, **{f"w{i}": i for i in range(5, 50)}}},
}  # fmt: skip
# Pieces of words in several scripts, two of them of two units of UTF-16.
SPELLED = (
    "w5 w6 w7 w8 anna ##li ##se lives in par ##is , नम ##स्ते दुनि ##या 漢 字 мос ##ква "
    "😀 𐍈 ##𐍉 re ##d ##s ? who a ##b c ##d . ! the ##x"
).split()
PIECES: dict[str, Any] = {
    **WORDS,
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {**SPECIAL, **{w: i for i, w in enumerate(SPELLED, 5)}},
    },
}
TOKENIZERS = {"words": WORDS, "pieces": PIECES}
NAMES = ["Annalise lives in Paris, नमस्ते!", "😀 𐍈𐍉 漢字 Москва мосzz", "reds", "", "w5 w6 w7 w8 w5"]
LONG = "who lives in Paris? the reds 😀 Annalise, Москва . abcd 漢字 a b c नमस्ते the thex re reds 𐍈𐍉"
ASKED = [
    {"question": "who lives?", "context": "Annalise lives in Paris, 😀 𐍈𐍉!"},
    {"question": "w5", "context": LONG},
    {"question": "漢字?", "context": "नमस्ते दुनिया"},
]
NLI = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}
FIRST = {"id2label": {0: "ENTAILMENT", 1: "not_entailment"}}
RANK = {"id2label": {0: "LABEL_0"}}
IDENTITY = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
GROUPS = ("none", "simple", "first", "average", "max")
CHOICES = {"candidate_labels": ["reds", "paris", "the thex"]}
TEXTS = ["w5 w6 w7", "w9", "w10 w11 w12 w13 w5"]
ONE, TWO = ["w5 [MASK] w7", "[MASK] w9 w10 w11 w8"], "w5 [MASK] w20 [MASK]"
LIMIT = 16
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
    *[("bert-tokenclassification", "token-classification", NAMES,
       {"aggregation_strategy": one}, {}) for one in GROUPS],
    ("distilbert-tokenclassification", "token-classification", [LONG, NAMES[0]],
     {"aggregation_strategy": "simple", "stride": 4, "ignore_labels": ["B-B"]}, {}),
    ("mpnet-tokenclassification", "token-classification", [*TEXTS, "w5zz  w6"],
     {"aggregation_strategy": "max", "ignore_labels": []}, {}),
    ("bert-questionanswering", "question-answering", ASKED, {}, {}),
    ("bert-questionanswering", "question-answering", ASKED,
     {"top_k": 3, "max_answer_len": 4, "doc_stride": 2, "handle_impossible_answer": True}, {}),
    ("roberta-questionanswering", "question-answering", ASKED,
     {"max_seq_len": 12, "doc_stride": 1, "align_to_words": False}, {}),
    ("distilbert-questionanswering", "question-answering", ASKED,
     {"top_k": 5, "max_seq_len": 13, "doc_stride": 3}, {}),
    ("bert-sequenceclassification", "zero-shot-classification", NAMES[:3], CHOICES, NLI),
    ("bert-sequenceclassification", "zero-shot-classification", [*NAMES[:3], LONG],
     {**CHOICES, "multi_label": True, "hypothesis_template": "the {} ?"}, FIRST),
    ("roberta-sequenceclassification", "zero-shot-classification", NAMES[:2],
     {"candidate_labels": "reds"}, NLI),
    ("distilbert-sequenceclassification", "zero-shot-classification", NAMES[:2],
     {"candidate_labels": "reds, paris"}, NLI),
    ("bert-sequenceclassification", "text-ranking", [*NAMES, LONG],
     {"query": "who lives in Paris?"}, RANK),
    ("roberta-sequenceclassification", "text-ranking", NAMES,
     {"query": LONG, "top_k": 2, "return_documents": True}, {**RANK, **IDENTITY}),
]  # fmt: skip
WORDED = ("fill-mask", "text-classification")  # and MPNet's row


def answer_of(task: str, folder: str, model: Any, tokenizer: Any, given: Any, more: Any) -> Any:
    """What the published pipeline gives, in plain values."""
    if task == "text-ranking":
        ranker = CrossEncoder(folder, device="cpu")
        ranker.tokenizer = tokenizer
        found = ranker.rank(more["query"], given, **{n: v for n, v in more.items() if n != "query"})
        return [{**one, "score": float(one["score"])} for one in found]
    found = transformers.pipeline(task, model=model, tokenizer=tokenizer)(given, **more)
    return json.loads(json.dumps(found, default=float))


def main() -> None:
    spec = importlib.util.spec_from_file_location("families", MODELS / "families.py")
    assert spec is not None and spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    calls: list[dict[str, Any]] = []
    for row, task, given, options, keys in CALLS:
        architecture, settings = table.HEADS[row]
        kind = getattr(transformers, architecture)
        config = kind.config_class(**{**settings, **keys}, architectures=[architecture])
        config.label2id = {label: i for i, label in (config.id2label or {}).items()}
        spelling = "words" if task in WORDED or row.startswith("mpnet") else "pieces"
        with tempfile.TemporaryDirectory() as folder:
            kind(config).save_pretrained(folder)
            file = Path(folder) / "model.safetensors"
            found = {
                n: torch.from_numpy(table.values_of(n, tuple(t.shape)))
                for n, t in load_file(file).items()
            }
            save_file(found, file, metadata={"format": "pt"})
            (Path(folder) / "tokenizer.json").write_text(
                json.dumps(TOKENIZERS[spelling]), encoding="utf-8"
            )
            named = {f"{n.strip('[]').lower()}_token": n for n in SPECIAL}
            tokenizer = transformers.PreTrainedTokenizerFast(
                tokenizer_file=f"{folder}/tokenizer.json", model_max_length=LIMIT, **named
            )
            if not row.startswith("bert"):
                tokenizer.model_input_names = ["input_ids", "attention_mask"]
            model = kind.from_pretrained(folder).eval()
            answer = answer_of(task, folder, model, tokenizer, given, options)
        calls.append({"row": row, "task": task, "given": given, "options": options, "keys": keys,
                      "spelling": spelling, "answer": answer})  # fmt: skip
    place = MODELS / "data" / "tasks.json"
    text = json.dumps(
        {"tokenizers": TOKENIZERS, "limit": LIMIT, "calls": calls}, separators=(",", ":")
    )
    place.write_text(text + "\n", encoding="utf-8")
    print(place.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
