"""Tokenizers as this place runs them (the package or, in a tab, JavaScript) against the package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.tokenizer import (
    Encoding,
    Tokenizer,
    load_tokenizer,
    load_tokenizer_async,
    pad_batch,
    unpack_rows,
)

DATA = Path(__file__).parents[1] / "data"
KINDS = ("word_piece", "byte_level")


def _file(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"tiny_{kind}.json").read_text(encoding="utf-8"))
    return found


def _load(kind: str, config: bytes | None = None) -> Tokenizer:
    return load_tokenizer((DATA / f"tiny_{kind}.json").read_bytes(), config)


def _strings() -> list[str]:
    given = json.loads((DATA / "tokenizer_strings.json").read_text(encoding="utf-8"))
    return [s if isinstance(s, str) else s["repeat"] * s["times"] for s in given]


@pytest.mark.parametrize("kind", KINDS)
def test_gives_what_the_package_gives(kind: str) -> None:
    tokenizer = _load(kind)
    cases = json.loads((DATA / "tiny_expected.json").read_text(encoding="utf-8"))[kind]
    assert len(cases) > 80
    for case, batched in zip(
        cases, tokenizer.encode_batch([c["text"] for c in cases]), strict=True
    ):
        expected = Encoding(
            case["ids"],
            [(a, b) for a, b in case["offsets"]],
            [flag == 1 for flag in case["special"]],
        )
        assert tokenizer.encode(case["text"]) == expected, case["text"]
        assert batched == expected, case["text"]
        assert tokenizer.decode(expected.ids) == case["decoded"]


def test_bytes_come_back_exactly() -> None:
    tokenizer = _load("byte_level")
    # "<mask>" takes the blanks before it along, which is the one thing that is lost.
    strings = [s for s in _strings() if "<mask>" not in s]
    assert len(strings) == 200
    for string in strings:
        ids = tokenizer.encode(string, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == string


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_lie_in_the_text_and_rise(kind: str) -> None:
    tokenizer = _load(kind)
    for string in _strings():
        encoding = tokenizer.encode(string, add_special_tokens=False)
        assert not any(encoding.special)
        assert all(0 <= a <= b <= len(string) for a, b in encoding.offsets)
        assert encoding.offsets == sorted(encoding.offsets)


def test_offsets_count_code_points() -> None:
    text = "😀 the cafe\u0301 word"
    for kind in KINDS:
        tokenizer = _load(kind)
        encoding = tokenizer.encode(text)
        found = {text[a:b] for a, b in encoding.offsets}
        assert {"😀", "word"} <= found
        assert encoding.offsets[0] == encoding.offsets[-1] == (0, 0)
    assert _load("word_piece").encode(text).offsets[3] == (6, 10)  # the accent is dropped


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_in_nothing_out(kind: str) -> None:
    tokenizer = _load(kind)
    assert tokenizer.encode("").special == [True, True]
    assert tokenizer.encode("", add_special_tokens=False) == Encoding([], [], [])
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_length", [2, 3, 5, 7, 8, 100])
def test_truncation_keeps_the_special_tokens(kind: str, max_length: int) -> None:
    tokenizer = _load(kind)
    whole = tokenizer.encode("the quick fox")
    cut = tokenizer.encode("the quick fox", max_length=max_length)
    length = min(max_length, len(whole))
    assert len(cut) == length
    assert cut.ids == whole.ids[: length - 1] + whole.ids[-1:]
    assert cut.offsets == whole.offsets[: length - 1] + whole.offsets[-1:]
    assert cut.special == [True] + [False] * (length - 2) + [True]
    assert tokenizer.encode_batch(["the quick fox"], max_length=max_length) == [cut]
    plain = tokenizer.encode("the quick fox", max_length=max_length, add_special_tokens=False)
    assert plain.ids == whole.ids[1:-1][:max_length]


def test_a_file_that_truncates_and_pads_does_neither() -> None:
    assert _file("word_piece")["truncation"]["max_length"] == 16
    assert len(_load("word_piece").encode("a")) == 3
    assert len(_load("word_piece").encode("a " * 50)) == 52


def test_no_room_for_the_special_tokens() -> None:
    with pytest.raises(ValueError, match="max_length 1 has no room for the 2 special tokens"):
        _load("word_piece").encode("a", max_length=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00"])
def test_a_lone_surrogate_is_named(kind: str, text: str) -> None:
    at = re.search("[\ud800-\udfff]", text)
    assert at is not None
    message = rf"lone surrogate U\+{ord(at[0]):04X} at index {at.start()}"
    tokenizer = _load(kind)
    with pytest.raises(ValueError, match=f"encode: .*{message}"):
        tokenizer.encode(text)
    with pytest.raises(ValueError, match=f"encode_batch: .*{message}"):
        tokenizer.encode_batch(["fine", text])
    with pytest.raises(ValueError, match=f"token_to_id: .*{message}"):
        tokenizer.token_to_id(text)


def test_a_text_is_a_str() -> None:
    tokenizer = _load("word_piece")
    with pytest.raises(TypeError, match="a text must be a str, not bytes"):
        tokenizer.encode(b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="texts is one str"):
        tokenizer.encode_batch("abc")


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_tokens(kind: str) -> None:
    tokenizer, file = _load(kind), _file(kind)
    vocab = file["model"]["vocab"] | {t["content"]: t["id"] for t in file["added_tokens"]}
    assert tokenizer.vocab_size == len(vocab)
    for token, id in vocab.items():
        assert tokenizer.token_to_id(token) == id
        assert tokenizer.id_to_token(id) == token
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.id_to_token(len(vocab)) is None
    assert tokenizer.decode([len(vocab), 2**32 - 1]) == ""
    for id in (-1, 2**32):
        with pytest.raises(ValueError, match=f"decode: {id} is not a token id"):
            tokenizer.decode([id])
        with pytest.raises(ValueError, match=f"id_to_token: {id} is not a token id"):
            tokenizer.id_to_token(id)


def test_special_tokens_can_be_decoded() -> None:
    tokenizer = _load("word_piece")
    ids = tokenizer.encode("hello , world").ids
    assert tokenizer.decode(ids) == "hello, world"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "[CLS] hello, world [SEP]"
    assert tokenizer.decode(np.array(ids)) == "hello, world"


def test_where_the_padding_token_is_named() -> None:
    assert _load("word_piece").pad_id == 0  # in tokenizer.json
    byte_level = _load("byte_level")
    mask, pad = byte_level.token_to_id("<mask>"), byte_level.token_to_id("<pad>")
    assert byte_level.pad_id == pad  # the usual name
    assert _load("byte_level", b'{"pad_token": "<mask>"}').pad_id == mask
    assert _load("byte_level", b'{"pad_token": {"content": "<mask>"}}').pad_id == mask
    assert _load("byte_level", b'{"pad_token": null}').pad_id == pad
    assert _load("byte_level", b'{"pad_token": "none such"}').pad_id is None
    file = _file("byte_level")
    file["added_tokens"] = [t for t in file["added_tokens"] if t["content"] != "<pad>"]
    assert load_tokenizer(json.dumps(file).encode()).pad_id is None


def test_padding() -> None:
    tokenizer = _load("word_piece")
    rows = tokenizer.encode_batch(["a b c", "", "a"])
    ids, mask = pad_batch(rows, 9)
    assert ids.dtype == np.int64 and mask.dtype == np.bool_
    assert ids.shape == mask.shape == (3, 5)
    assert ids[1].tolist() == [2, 3, 9, 9, 9]
    assert mask.sum(1).tolist() == [5, 2, 3]
    assert [row[keep].tolist() for row, keep in zip(ids, mask, strict=True)] == [
        r.ids for r in rows
    ]
    assert pad_batch(rows, 9, length=8)[0].shape == (3, 8)
    assert pad_batch([], 9)[0].shape == (0, 0)
    with pytest.raises(ValueError, match="a row has 5 tokens, more than length 4"):
        pad_batch(rows, 9, length=4)


@pytest.mark.parametrize(
    "broken", [b"", b"{", b"[]", b"null", b"{}", b'{"model": {"type": "WordPiece"}}', b"\xff\xfe"]
)
def test_a_broken_file_is_a_format_error(broken: bytes) -> None:
    with pytest.raises(FormatError, match="tokenizer.json"):
        load_tokenizer(broken)


@pytest.mark.parametrize(
    "broken",
    [b"{", b"[]", b"\xff", b"[" * 100_000 + b"]" * 100_000],
    ids=["cut", "no object", "not text", "deep"],
)
def test_a_broken_config_is_a_format_error(broken: bytes) -> None:
    with pytest.raises(FormatError, match="tokenizer_config.json"):
        _load("byte_level", broken)


def test_unigram_with_replaced_characters(charsmap: Callable[[dict[str, str]], str]) -> None:
    vocab = [["<unk>", 0.0], ["▁", -1.0], ["a", -2.0], ["▁a", -2.5], ["b", -3.0], ["ab", -4.0]]
    table = charsmap({"ａ": "a", "e\u0301": "b", "①": "ab"})
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    file = {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab},
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": table},
        "pre_tokenizer": mark,
        "decoder": mark,
        "post_processor": None,
        "added_tokens": [],
    }
    tokenizer = load_tokenizer(json.dumps(file).encode())
    found = tokenizer.encode("ａb e\u0301 xy①")
    # " " and "ab", which together are likelier than " a" and "b"; of "xy" one unknown token
    assert found.ids == [1, 5, 1, 4, 1, 0, 5]
    assert found.offsets == [(0, 1), (0, 2), (2, 3), (3, 4), (5, 6), (6, 8), (8, 9)]
    assert tokenizer.decode(found.ids, skip_special_tokens=False) == "ab b <unk>ab"


def test_rows_are_unpacked() -> None:
    packed = [2, 5, 6, 0, 1, 1, 3, 1, 0, 0, 1, 7, 0, 0, 1]
    assert unpack_rows(packed) == [
        Encoding([5, 6], [(0, 1), (1, 3)], [True, False]),
        Encoding([], [], []),
        Encoding([7], [(0, 0)], [True]),
    ]


@pytest.mark.native  # a tab's event loop runs already
def test_loading_can_be_awaited() -> None:
    import asyncio

    tokenizer = asyncio.run(load_tokenizer_async((DATA / "tiny_word_piece.json").read_bytes()))
    assert tokenizer.encode("hello") == _load("word_piece").encode("hello")
