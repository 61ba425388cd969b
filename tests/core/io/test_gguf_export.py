"""Tokenizers written to GGUF: read back they give the same tokens, or they are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.text.gguf_export import tokenizer_metadata
from rushlight.core.io.text.gguf_tokenizer import from_gguf, gguf_tokenizer
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.io.weights.gguf import load_gguf

pytestmark = pytest.mark.native

T = "tokenizer.ggml."
TOKENS = [*"abcdehlnorw \u0120\u0123123'", "he", "\u0120w", "ca", "can"]
GPT2_STEP = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
BARE = {**GPT2_STEP, "use_regex": False}
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def file(pre: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A byte-level tokenizer.json with these steps."""
    tokens = list(dict.fromkeys(TOKENS))
    model = {
        "type": "BPE",
        "vocab": {t: i for i, t in enumerate(tokens)},
        "merges": ["h e", "\u0120 w", "c a", "ca n"],
        **changes.pop("model", {}),
    }
    return {
        "model": model,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre},
        "decoder": GPT2_STEP,
        "added_tokens": [],
        **changes,
    }


def written(tokenizer: dict[str, Any], rows: int = 40, **files: bytes) -> dict[str, Any]:
    given = {"tokenizer.json": json.dumps(tokenizer).encode()}
    return tokenizer_metadata(
        given | {name.replace("__", "."): data for name, data in files.items()}, rows
    )


@pytest.mark.parametrize(
    ("pre", "whole_words", "name"),
    [
        ([{**GPT2_STEP, "use_regex": True}], False, "gpt-2"),
        ([{"type": "Digits", "individual_digits": True}, GPT2_STEP], False, "smollm"),
        ([split(LLAMA3), BARE], True, "llama-bpe"),
        ([split(LLAMA3.replace("{1,3}", "")), BARE], False, "qwen2"),
    ],
)
def test_pre_tokenizers_as_published_have_names(
    pre: list[dict[str, Any]], whole_words: bool, name: str
) -> None:
    found = written(file(pre, model={"ignore_merges": whole_words}))
    assert found[f"{T}pre"] == name and found[f"{T}model"] == "gpt2"
    assert found[f"{T}merges"] == ["h e", "\u0120 w", "c a", "ca n"]
    tokens = found[f"{T}tokens"]
    assert len(tokens) == len(found[f"{T}token_type"]) == 40
    unused = [i for i, kind in enumerate(found[f"{T}token_type"]) if kind == 5]
    assert [tokens[i] for i in unused] == [f"[PAD{i}]" for i in unused] and unused[-1] == 39
    assert found[f"{T}add_bos_token"] is found[f"{T}add_eos_token"] is False


def test_special_tokens_and_templates() -> None:
    n = len(dict.fromkeys(TOKENS))
    added = [
        {
            "id": n + i,
            "content": token,
            "special": special,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for i, (token, special) in enumerate([("<s>", True), ("<end>", True), ("<tool>", False)])
    ]
    around = {
        "type": "TemplateProcessing",
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [n], "tokens": ["<s>"]}},
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
    }
    around["pair"] = [*around["single"], {"Sequence": {"id": "B", "type_id": 0}}]
    steps = {"type": "Sequence", "processors": [GPT2_STEP, around]}
    config = {
        "eos_token": {"content": "<end>"},
        "pad_token": "<end>",
        "bos_token": None,
        "unk_token": "nowhere",
        "chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}],
    }
    given = file([GPT2_STEP], added_tokens=added, post_processor=steps)
    found = written(given, tokenizer_config__json=json.dumps(config).encode())
    assert {k.removeprefix(T): v for k, v in found.items() if k.endswith(("_id", "_token"))} == {
        "bos_token_id": n,
        "eos_token_id": n + 1,
        "padding_token_id": n + 1,
        "add_bos_token": True,
        "add_eos_token": False,
    }
    assert found[f"{T}token_type"][n : n + 3].tolist() == [3, 3, 4]
    assert found["tokenizer.chat_template"] == "y"
    assert written(given, chat_template__jinja=b"z")["tokenizer.chat_template"] == "z"
    assert gguf_tokenizer(found).encode("can<tool>").ids[0] == n
    assert tokenizer_metadata({}, 3) == {f"{T}model": "none"}


@pytest.mark.parametrize("name", ["gpt-2", "llama-spm", "bert-bge"])
def test_published_vocabularies_survive(llama_cpp_models: Path, name: str) -> None:
    """GGUF to tokenizer.json and back: the same tokens, types, merges and ids of texts."""
    _, given = load_gguf(llama_cpp_models / f"ggml-vocab-{name}.gguf")
    tokenizer, config = from_gguf(given)
    files = {"tokenizer.json": tokenizer, "tokenizer_config.json": config}
    rows = len(given[f"{T}tokens"])
    found = tokenizer_metadata(files, rows)
    assert found[f"{T}model"] == given[f"{T}model"] and found[f"{T}tokens"] == given[f"{T}tokens"]
    kinds = np.asarray(given[f"{T}token_type"])
    assert np.array_equal(found[f"{T}token_type"], np.where(kinds == 5, 1, kinds))
    assert found.get(f"{T}merges") == given.get(f"{T}merges")
    for key in ("cls", "seperator", "padding", "unknown"):
        if name.endswith("bge"):
            assert found[f"{T}{key}_token_id"] == given[f"{T}{key}_token_id"]
    ours, theirs = load_tokenizer(tokenizer), gguf_tokenizer(found)
    text = (llama_cpp_models / f"ggml-vocab-{name}.gguf.inp").read_text(encoding="utf-8")
    for part in text.split("\n__ggml_vocab_test__\n"):
        assert ours.encode(part).ids == theirs.encode(part).ids


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {
                "model": {
                    "type": "WordLevel",
                    "unk_token": "a",
                    "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 100,
                }
            },
            "models of type 'WordLevel' cannot be written to GGUF",
        ),
        ({"model": {"vocab": []}}, "tokenizer.json: "),
        (
            {
                "pre_tokenizer": {
                    "type": "Metaspace",
                    "replacement": "_",
                    "split": True,
                    "prepend_scheme": "always",
                }
            },
            "pre-tokenizer 'Metaspace' has no form in GGUF",
        ),
        ({"pre_tokenizer": split("x+")}, r"has no name for a pre-tokenizer of \('x\+',\)"),
        (
            {"normalizer": {"type": "Lowercase"}},
            "it would give other tokens, as for .Hello, world!",
        ),
        ({"model": {"merges": ["h x"]}}, "tokenizer.json: "),
        ({"model": {"merges": None}}, "tokenizer.json: "),
        ({"added_tokens": [{"id": 99}]}, "tokenizer.json: "),
        ({"post_processor": {"type": "TemplateProcessing", "single": 3}}, "tokenizer.json: "),
    ],
)
def test_what_gguf_cannot_say_is_named(changes: dict[str, Any], message: str) -> None:
    given = file([GPT2_STEP], **{k: v for k, v in changes.items() if k == "model"})
    with pytest.raises(rl.FormatError, match=message):
        written(given | {k: v for k, v in changes.items() if k != "model"})


def test_more_tokens_than_rows_are_named() -> None:
    with pytest.raises(rl.FormatError, match="has id 10; the model has 10 rows"):
        written(file([GPT2_STEP]), rows=10)
