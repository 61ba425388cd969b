"""Tokens that stand only beside tokenizer.json: as transformers' fast tokenizers add them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.io.text.vocabularies.vocabulary_files import tokenizer_json

TEXT = "a <x> <y> <z> b <pad>"
BASE = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}


def token(text: str, **flags: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"content": text, **plain, **flags}


VOCABULARY = {"a": 0, "b": 1, "<unk>": 2, "<s>": 3, "</s>": 4}
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
    "added_tokens": [
        {"id": 3, **token("<s>", special=True)}, {"id": 4, **token("</s>", special=True)},
        {"id": 5, **token("<x>", normalized=True)},
    ],
    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": VOCABULARY},
}  # fmt: skip


def made(**files: Any) -> tuple[dict[int, tuple[str, bool, bool, bool]], list[int]]:
    """(content, special, lstrip, normalized) of the added tokens by id; the ids of TEXT."""
    found = {f"{n}.json": json.dumps(v).encode() for n, v in files.items()}
    data = tokenizer_json(found | {"tokenizer.json": json.dumps(TOKENIZER).encode()})
    assert data is not None
    tokens = json.loads(data)["added_tokens"]
    ids = load_tokenizer(data, found.get("tokenizer_config.json")).encode(TEXT).ids
    kept = {t["id"]: (t["content"], t["special"], t["lstrip"], t["normalized"]) for t in tokens}
    return kept, ids


# What transformers 5.24 gives for the same files, with words as ids.
OWN = {
    3: ("<s>", True, False, False),
    4: ("</s>", True, False, False),
    5: ("<x>", False, False, True),
}
UNK = {2: ("<unk>", True, False, False)}


@pytest.mark.parametrize(
    ("files", "added", "ids"),
    [
        ({}, {}, [0, 5, 2, 2, 1, 2]),
        ({"tokenizer_config": BASE}, UNK, [0, 5, 2, 2, 1, 2]),
        (
            {
                "tokenizer_config": BASE
                | {
                    "added_tokens_decoder": {
                        "9": token("<y>"),
                        "5": token("<x>", lstrip=True, special=True),
                        "1": token("b", special=True),
                        "7": token("<z>"),
                    }
                }
            },
            UNK
            | {
                1: ("b", True, False, False),
                5: ("<x>", True, True, False),
                6: ("<z>", False, False, False),
                7: ("<y>", False, False, False),
            },
            [0, 5, 7, 6, 1, 2],
        ),
        (
            {
                "tokenizer_config": BASE
                | {"pad_token": "<pad>", "additional_special_tokens": ["<y>"]}
            },
            UNK | {6: ("<pad>", True, False, False), 7: ("<y>", True, False, False)},
            [0, 5, 7, 2, 1, 6],
        ),
        (
            {"tokenizer_config": BASE, "added_tokens": {"<z>": 8, "<y>": 6}},
            UNK | {6: ("<y>", False, False, True), 7: ("<z>", False, False, True)},
            [0, 5, 6, 7, 1, 2],
        ),
        (
            {
                "tokenizer_config": BASE,
                "added_tokens": {"<z>": 8, "<y>": 6},
                "special_tokens_map": {"pad_token": "<pad>"},
            },
            UNK
            | {
                6: ("<y>", False, False, True),
                7: ("<z>", False, False, True),
                8: ("<pad>", True, False, False),
            },
            [0, 5, 6, 7, 1, 8],
        ),
        (
            {
                "tokenizer_config": BASE | {"added_tokens_decoder": {}},
                "added_tokens": {"<z>": 8},
                "special_tokens_map": {"pad_token": "<pad>"},
            },
            UNK,
            [0, 5, 2, 2, 1, 2],
        ),
        (
            {
                "tokenizer_config": BASE
                | {
                    "extra_special_tokens": {"image_token": "<y>"},
                    "pad_token": token("<pad>", lstrip=True),
                }
            },
            UNK | {6: ("<pad>", True, True, False), 7: ("<y>", True, False, False)},
            [0, 5, 7, 2, 1, 6],
        ),
        (
            {"tokenizer_config": BASE | {"bos_token": "<x>"}},
            UNK | {5: ("<x>", True, False, True)},
            [0, 5, 2, 2, 1, 2],
        ),
        (
            {"tokenizer_config": BASE | {"added_tokens_decoder": {"9": {"content": "<y>"}}}},
            UNK | {6: ("<y>", False, False, True)},
            [0, 5, 6, 2, 1, 2],
        ),
    ],
)
def test_tokens_of_other_files(files: Any, added: Any, ids: list[int]) -> None:
    assert made(**files) == (OWN | added, ids)


def test_a_file_that_says_the_same_is_the_same_bytes() -> None:
    data = json.dumps(TOKENIZER).encode()
    table = {"5": token("<x>", normalized=True), "3": token("<s>", special=True)}
    config = {"bos_token": "<s>", "added_tokens_decoder": table}
    files = {"tokenizer.json": data, "tokenizer_config.json": json.dumps(config).encode()}
    assert tokenizer_json(files) is data


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_config": {"bos_token": "\ud800"}}, "tokenizer_config.json: bos_token is"),
        (
            {"tokenizer_config": {"added_tokens_decoder": {"5": token("a\udc00")}}},
            r"added_tokens_decoder\[5\] is .*, not a token",
        ),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": token("a")}}}, "has 'x', not an id"),
        ({"tokenizer_config": {"added_tokens_decoder": {"5": 3}}}, r"\[5\] is 3, not a token"),
        ({"tokenizer_config": []}, "tokenizer_config.json holds a list"),
        ({"added_tokens": {"<y>": "1"}}, "added_tokens.json: '<y>' is '1', not an id"),
        ({"added_tokens": [1]}, "added_tokens.json holds a list"),
        ({"special_tokens_map": {"pad_token": {"content": 3}}}, "pad_token is .*, not a token"),
    ],
)
def test_what_is_no_token_is_named(files: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        made(**files)
