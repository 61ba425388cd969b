"""Pairs of texts as one row of tokens: those of the `tokenizers` package, here and in the tab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.pairs import (
    PairEncoding,
    encode_pairs,
    pair_template,
    pair_windows,
    spans,
    windows,
)
from rushlight.core.io.text.tokenizer import Encoding, Tokenizer, load_tokenizer

pytestmark = pytest.mark.native

DATA = Path(__file__).parents[1] / "data"
PAIRS = [
    ("who gave light?", "The rush, and a little fat; don't you know"),
    ("", "a"),
    ("नमस्ते दुनिया", "漢字 и 😀 emoji 👨‍👩‍👧 e\u0301"),
    ("a b c d e f g h i j", "k l m"),
    ("one", ""),
]


def _template(*pieces: str) -> list[dict[str, Any]]:
    """Pieces such as "A:0" and "s:1"."""
    rows = [(name, int(kind)) for name, kind in (piece.split(":") for piece in pieces)]
    return [
        {"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": kind}}
        for name, kind in rows
    ]


def _processors() -> dict[str, Any]:
    ends: dict[str, Any] = {"cls": ["s", 1], "sep": ["e", 2]}
    special = {
        n: {"id": n, "ids": ids, "tokens": [n] * len(ids)} for n, ids in (("s", [1]), ("e", [2, 3]))
    }
    template = {
        "type": "TemplateProcessing",
        "special_tokens": special,
        "single": _template("s:0", "A:0", "e:0"),
        "pair": _template("s:2", "B:1", "e:0", "A:3", "e:1"),
    }
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return {
        "none": None,
        "bert": {"type": "BertProcessing", **ends},
        "template": template,
        "roberta": {
            "type": "RobertaProcessing",
            **ends,
            "trim_offsets": True,
            "add_prefix_space": False,
        },
        "byte_level": level,
        "several": {"type": "Sequence", "processors": [level, template]},
    }


PROCESSORS = _processors()


def _file(kind: str) -> dict[str, Any]:
    """A tokenizer.json; the Unigram has a token for each of a few words and letters."""
    if kind != "unigram":
        found: dict[str, Any] = json.loads((DATA / f"tiny_{kind}.json").read_text(encoding="utf-8"))
        return found
    pieces = ["<unk>", "▁", "▁the", "▁a", "▁light", "?", *"abcdehiknorstuvw"]
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "normalizer": None,
        "pre_tokenizer": mark,
        "decoder": mark,
        "added_tokens": [],
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [[piece, -float(i)] for i, piece in enumerate(pieces)],
        },
    }


def same(found: PairEncoding, wanted: tokenizers.Encoding) -> None:
    assert found.ids == wanted.ids
    assert found.types == wanted.type_ids
    assert found.offsets == wanted.offsets
    assert found.special == [flag == 1 for flag in wanted.special_tokens_mask]
    texts = [-1 if text is None else text for text in wanted.sequence_ids]
    if 1 in texts:  # without a post-processor it forgets them in further windows
        assert found.texts == texts
    words = list(zip(found.texts, found.words, strict=True))
    given = list(zip(found.texts, wanted.word_ids, strict=True))
    changes = [[a != b for a, b in zip(x, x[1:], strict=False)] for x in (words, given)]
    assert [a for a, s in zip(changes[0], found.special, strict=False) if not s] == [
        b for b, s in zip(changes[1], found.special, strict=False) if not s
    ]


@pytest.mark.parametrize("kind", ["byte_level", "word_piece", "unigram"])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_pairs_are_those_of_the_package(node: Any, kind: str, processor: str) -> None:
    file = _file(kind)
    file |= {"post_processor": PROCESSORS[processor], "padding": None, "truncation": None}
    text = json.dumps(file)
    package = tokenizers.Tokenizer.from_str(text)
    ours: list[Tokenizer] = [load_tokenizer(text.encode()), node.tokenizer(kind + processor, text)]
    assert ours[0].post_processor == ours[1].post_processor or processor != "none"
    assert [t.prefix for t in ours] == ["##" if kind == "word_piece" else ""] * 2
    for tokenizer in ours:
        for given, found in zip(PAIRS, encode_pairs(tokenizer, PAIRS), strict=True):
            same(found, package.encode(*given))
        for cut in ("longest_first", "only_first", "only_second"):
            for most in (8, 13, 16):
                package.enable_truncation(most, strategy=cut)
                for given in PAIRS:
                    try:
                        wanted = package.encode(*given)
                    except Exception:
                        with pytest.raises(ValueError, match="encode_pairs"):
                            list(encode_pairs(tokenizer, [given], max_length=most, truncation=cut))
                        continue
                    [found] = encode_pairs(tokenizer, [given], max_length=most, truncation=cut)
                    same(found, wanted)
        for most, stride in ((18, 0), (19, 2), (40, 5)):
            package.enable_truncation(most, strategy="only_second", stride=stride)
            for given in PAIRS:
                if len(tokenizer.encode_parts([given[0]])[0]) > 8:
                    continue
                wanted = package.encode(*given)
                parts = list(pair_windows(tokenizer, *given, max_length=most, stride=stride))
                for part, other in zip(parts, [wanted, *wanted.overflowing], strict=True):
                    same(part, other)
        package.no_truncation()


@pytest.mark.parametrize("kind", ["byte_level", "word_piece"])
def test_windows_of_one_text_and_joined_tokens(node: Any, kind: str) -> None:
    file = _file(kind)
    for part in (file["post_processor"] or {}).get("processors", [file["post_processor"]]):
        part["add_prefix_space"] = False  # at a window's first token it keeps the blank otherwise
    text = json.dumps(file)
    package = tokenizers.Tokenizer.from_str(text)
    package.no_padding()
    package.enable_truncation(7, stride=2)
    for tokenizer in (load_tokenizer(text.encode()), node.tokenizer(kind, text)):
        for given in (*PAIRS[0], PAIRS[2][1], ""):
            wanted = package.encode(given)
            parts = list(windows(tokenizer.encode(given), 7, 2))
            rows = [wanted, *wanted.overflowing]
            assert parts == [
                Encoding(r.ids, r.offsets, [m == 1 for m in r.special_tokens_mask]) for r in rows
            ]
            assert tokenizer.join(wanted.tokens) == package.decoder.decode(wanted.tokens)


def test_windows_share_the_stride_and_end() -> None:
    assert list(spans(10, 4, 2)) == [(0, 4), (2, 6), (4, 8), (6, 10)]
    assert list(spans(11, 4, 1)) == [(0, 4), (3, 7), (6, 10), (9, 11)]
    assert list(spans(4, 4, 3)) == [(0, 4)] and list(spans(0, 4, 0)) == [(0, 0)]
    rows = list(windows(Encoding([7] * 100_000, [(0, 1)] * 100_000, [False] * 100_000), 100, 50))
    assert len(rows) == 1999 and max(map(len, rows)) == 100


def test_what_cannot_be_joined_is_named() -> None:
    tokenizer = load_tokenizer((DATA / "tiny_word_piece.json").read_bytes())
    with pytest.raises(ValueError, match="lone surrogate U\\+D800 at index 1"):
        encode_pairs(tokenizer, [("a", "b\ud800")])
    with pytest.raises(ValueError, match="'first' is not supported; supported: longest_first"):
        encode_pairs(tokenizer, [("a", "b")], truncation="first")
    with pytest.raises(ValueError, match="no room for the other within \\d; shorten it"):
        long = ("the light , the", "b")
        list(encode_pairs(tokenizer, [long], max_length=4, truncation="only_second"))
    with pytest.raises(ValueError, match="room for 2 of the text, and neighbours share 2"):
        list(pair_windows(tokenizer, "a", "b", max_length=3, stride=2))
    template = PROCESSORS["template"]
    for wrong, message in (
        (template | {"pair": []}, "has 0 texts and 0 tokens"),
        (template | {"pair": _template("A:0", "A:0", "B:0")}, "has 3 texts"),
        (template | {"pair": _template("A:0", "x:0", "B:0")}, "malformed: KeyError"),
        (template | {"pair": [3]}, "malformed"),
        (PROCESSORS["bert"] | {"cls": 3}, "malformed"),
        ({"type": "Sequence", "processors": [template, template]}, "several templates"),
    ):
        with pytest.raises(FormatError, match=message):
            pair_template(wrong)
