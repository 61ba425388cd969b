"""Broken and hostile tokenizer.json: FormatError or a result, in bounded steps, in both places."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.tokenizer import NativeTokenizer

pytestmark = pytest.mark.native

DATA = Path(__file__).parents[1] / "data"
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def _tiny(kind: str, **parts: Any) -> dict[str, Any]:
    file: dict[str, Any] = json.loads((DATA / f"tiny_{kind}.json").read_text(encoding="utf-8"))
    return file | parts


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _split(pattern: str) -> dict[str, Any]:
    kind = {"Regex": pattern}
    return {"type": "Split", "pattern": kind, "behavior": "Isolated", "invert": False}


def _sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def _template(*pieces: dict[str, Any], **tokens: Any) -> dict[str, Any]:
    return {
        "type": "TemplateProcessing",
        "single": list(pieces),
        "pair": [],
        "special_tokens": tokens,
    }


def _text(id: str) -> dict[str, Any]:
    return {"Sequence": {"id": id, "type_id": 0}}


def _model(kind: str, **entries: Any) -> dict[str, Any]:
    file = _tiny(kind)
    file["model"] |= entries
    return file


def _added(content: str, **flags: bool) -> dict[str, Any]:
    file = _tiny("word_piece")
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    token = {"id": len(file["model"]["vocab"]), "content": content, **dict.fromkeys(names, False)}
    return file | {"added_tokens": [*file["added_tokens"], token | flags]}


TENFOLD = _replace({"String": "a"}, "a" * 10)
MANY = {"id": "[CLS]", "ids": [2] * 600, "tokens": ["[CLS]"] * 600}
ADDED = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
# Files that ended the library by a panic, or that it works on without end; what their error says
# in a process and in the tab.
HOSTILE: dict[str, tuple[dict[str, Any], str, str]] = {
    "merge": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}, "added_tokens": []},
        "range end index",
        r"model\.merges\[0\]: aa is not in the vocabulary",
    ),
    "length": (
        _tiny("byte_level", pre_tokenizer={"type": "FixedLength", "length": 0}),
        "FixedLength has length 0",
        "FixedLength length 0 is not supported",
    ),
    "no text": (
        _tiny("word_piece", post_processor=_template(_text("B"))),
        r"template has the texts \['B'\]",
        r"template has the texts \['B'\]",
    ),
    "two texts": (
        _tiny("word_piece", post_processor=_template(_text("A"), _text("A"))),
        "template has the texts",
        "template",
    ),
    "many tokens": (
        _tiny("word_piece", post_processor=_template(ADDED, _text("A"), ADDED, **{"[CLS]": MANY})),
        "adds 1200 tokens",
        "adds 1200 tokens",
    ),
    "tenfold": (
        _tiny("byte_level", normalizer=_sequence(*[TENFOLD] * 9)),
        "normalizer can make a text over 64 times",
        "normalizer can make a text over 64",
    ),
    "tenfold by regex": (
        _tiny("byte_level", normalizer=_sequence(*[_replace({"Regex": "[ab]"}, "ababab")] * 9)),
        "normalizer can make a text",
        "normalizer can make a text",
    ),
    "two letters": (
        _tiny("byte_level", normalizer=_sequence(*[_replace({"String": "ab"}, "ab" * 4)] * 9)),
        "normalizer can make a text",
        "normalizer can make a text",
    ),
    "prefixes": (
        _tiny("byte_level", normalizer={"type": "Prepend", "prepend": "a" * 1000}),
        "normalizer can make a text",
        "normalizer can make a text",
    ),
    "bytes of bytes": (
        _tiny("byte_level", pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES] * 30}),
        "can make a text",
        "pre_tokenizer after ByteLevel",
    ),
    "decoder": (
        _tiny("byte_level", decoder={"type": "Sequence", "decoders": [TENFOLD] * 9}),
        "decoder can make a text",
        "decoder can make a text",
    ),
    "nothing replaced": (
        _tiny("byte_level", normalizer=_replace({"String": ""}, "x")),
        "Replace has an empty pattern",
        "Replace has an empty pattern",
    ),
    "charsmap": (
        _tiny("byte_level", normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        "precompiled_charsmap",
        "precompiled_charsmap has 3 bytes and a trie of 0",
    ),
    "long words": (
        _model("word_piece", max_input_chars_per_word=10**9),
        "max_input_chars_per_word 1000000000",
        "max_input_chars_per_word 1000000000",
    ),
    "blanks after a blank": (
        _added(" x", rstrip=True),
        "' x' is blank where",
        "' x' is blank where",
    ),
    "blanks before a blank": (
        _added("x\u3000", lstrip=True),
        "is blank where it takes",
        "is blank where it takes",
    ),
    "dropout": (_model("byte_level", dropout=33), "Dropout should be", "with dropout 33"),
    "regex": (_tiny("byte_level", pre_tokenizer=_split("(a")), "unmatched", "closing bracket"),
}
SHORT = "BAAAAAAAAAAA"  # a trie of one unit, which leads outside
# Files whose error comes with a text.
IN_USE: dict[str, tuple[dict[str, Any], str]] = {
    "exponential": (_tiny("byte_level", pre_tokenizer=_split("(a+)+b")), "a" * 60),
    "exponential replace": (
        _tiny("byte_level", normalizer=_replace({"Regex": "(a+)+b"}, "x")),
        "a" * 60,
    ),
    "unknown": (_model("word_piece", unk_token="none"), "ΩΩ"),
    "trie": (
        _tiny("byte_level", normalizer={"type": "Precompiled", "precompiled_charsmap": SHORT}),
        "abc",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(node: Any, name: str) -> None:
    file, native, tab = HOSTILE[name]
    text = json.dumps(file)
    with pytest.raises(FormatError, match=f"tokenizer.json: .*{native}"):
        NativeTokenizer(text.encode())
    with pytest.raises(FormatError, match=f"tokenizer.json: .*{tab}"):
        node.tokenizer("hostile", text)


@pytest.mark.parametrize("name", IN_USE)
def test_errors_in_use_are_format_errors(node: Any, name: str) -> None:
    """A panic is no Exception, so nothing else would catch it."""
    file, text = IN_USE[name]
    with pytest.raises(FormatError, match=r"tokenizer\.json: encode: "):
        NativeTokenizer(json.dumps(file).encode()).encode(text)
    tab = node.tokenizer("hostile", json.dumps(file))
    if name.startswith("exponential"):  # linear there
        assert tab.encode(text).ids
    else:
        with pytest.raises(FormatError, match=r"tokenizer\.json: encode: "):
            tab.encode(text)


@pytest.mark.parametrize(
    "steps",
    [
        [_replace({"String": char}, "xyz"[: 1 + i % 3]) for i, char in enumerate("…¼½¾–—“”‘’")],
        [_replace({"Regex": r"\s+"}, " "), {"type": "NFKC"}, {"type": "Lowercase"}],
        [{"type": "Prepend", "prepend": "▁"}, _replace({"String": " "}, "▁")],
    ],
    ids=["several", "usual", "sentencepiece"],
)
def test_usual_steps_are_not_taken_for_growth(node: Any, steps: list[dict[str, Any]]) -> None:
    text = json.dumps(_tiny("byte_level", normalizer=_sequence(*steps)))
    expected = NativeTokenizer(text.encode()).encode("a… ½ “b”")
    assert node.tokenizer("usual", text).encode("a… ½ “b”") == expected


# --- malformed files ----------------------------------------------------------------------------

OTHERS: list[Any] = [None, True, -1, 0, 1.5, 2**40, "", "x", [], [1], {}, {"type": "x"}]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value, with a few of each vocabulary."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)[:40]
    elif isinstance(value, list):
        keys = list(range(min(len(value), 3)))
    return [path, *(p for key in keys for p in _places(value[key], (*path, key)))]


def _unigram() -> dict[str, Any]:
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    vocab = [["<unk>", 0.0], ["▁", -1.0], ["a", -2.0], ["▁a", -2.5]]
    strip = {"type": "Strip", "strip_left": True, "strip_right": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": _sequence(strip, _replace({"Regex": " {2,}"}, " ")),
        "post_processor": None,
        "pre_tokenizer": step,
        "decoder": step,
        "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False},
    }


@pytest.mark.parametrize("kind", ["word_piece", "byte_level", "unigram"])
def test_any_entry_may_be_malformed(node: Any, kind: str) -> None:
    file = _unigram() if kind == "unigram" else _tiny(kind)
    numbers = random.Random(5)
    texts = ["the quick", "", "é ΩΩ [MASK]"]
    refused = 0
    for path in _places(file):
        for other in numbers.sample(OTHERS, 4):
            changed = copy.deepcopy(file)
            place: Any = changed
            for key in path[:-1]:
                place = place[key]
            if path:
                place[path[-1]] = other
            text = json.dumps(changed if path else other)
            for make in (lambda t: NativeTokenizer(t.encode()), lambda t: node.tokenizer("bad", t)):
                try:
                    made = make(text)
                    made.encode_batch(texts)
                    made.decode([0, 1, 2, 5])
                except FormatError as error:
                    assert str(error).startswith("tokenizer.json: "), (path, other)
                    assert not {"undefined", "not a function"} & set(str(error).split()), str(error)
                    refused += 1
    assert refused > 100


# --- long texts ---------------------------------------------------------------------------------

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "pattern": _split(LLAMA),
    "triples": _split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|[^\p{N}]+"),
    "exponential": _split(r"(a+)+b|(?:\s*\s*)*x|."),
    "ByteLevel": BYTES,
    "BertPreTokenizer": {"type": "BertPreTokenizer"},
    "WhitespaceSplit": {"type": "WhitespaceSplit"},
    "Metaspace": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    "Digits": {"type": "Digits", "individual_digits": True},
    "Punctuation": {"type": "Punctuation", "behavior": "Isolated"},
}


def _pre_tokenizing(name: str) -> str:
    """A file with the pre-tokenizer of this name, then bytes."""
    steps = [PRE_TOKENIZERS[name]]
    if name != "ByteLevel":
        steps.append(BYTES | {"add_prefix_space": False, "use_regex": False})
    parts = {"type": "Sequence", "pretokenizers": steps}
    return json.dumps(_tiny("byte_level", pre_tokenizer=parts))


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
@pytest.mark.parametrize("part", ["a", " ", "1", "!", "ab ", "\n ", "é", "漢"])
def test_pre_tokenizers_take_steps_in_proportion(counting_node: Any, name: str, part: str) -> None:
    text = _pre_tokenizing(name)
    for _ in range(3):  # the engine may drop counts of code that it throws away meanwhile
        steps = []
        for length in (1000, 4000):
            counting_node("load", "long", text)
            counting_node("encodeAll", "long", [part * 8])  # states are made when they are needed
            try:
                steps.append(counting_node("steps", "encodeAll", "long", [part * length]))
            except RuntimeError as error:
                assert name == "exponential" and "steps a character" in str(error)
                return
        if 0 < steps[1] < 5 * steps[0]:
            return
    raise AssertionError(f"{steps} steps for 1000 and 4000 repetitions")


MORE = [
    {"type": "Whitespace"},
    {"type": "UnicodeScripts"},
    {"type": "FixedLength", "length": 3},
    {"type": "CharDelimiterSplit", "delimiter": "a"},
]


def test_half_a_million_characters(node: Any) -> None:
    """Every pre-tokenizer comes to an end, here and in the tab, with the same tokens.

    Of one kind, which is what takes a pattern far: of many words there are only as many as tell
    steps in their square from steps in proportion.
    """
    few = "ab 12! " * 500 + "1" * 2000 + " " * 2000 + "a" * 2000
    text = few + "ab 12! " * 2**14 + "1" * 2**19
    for name in sorted(PRE_TOKENIZERS.keys() - {"exponential", "triples"}):
        file = _pre_tokenizing(name)
        package, tab = NativeTokenizer(file.encode()), node.tokenizer("long", file)
        assert tab.encode(few) == package.encode(few)
        node("encodeAll", "long", [text])
        assert package.encode(text).offsets[-2][1] <= len(text)
    for step in MORE:
        file = json.dumps(_tiny("byte_level", pre_tokenizer=step))
        assert NativeTokenizer(file.encode()).encode(text).offsets[-2][1] <= len(text)


def test_a_digit_takes_no_more_steps_than_a_letter(counting_node: Any) -> None:
    counting_node("load", "digits", _pre_tokenizing("pattern"))
    letters, digits = (
        counting_node("steps", "encodeAll", "digits", [text * 500]) for text in ("abc ", "123 ")
    )
    assert digits < 2 * letters


@pytest.mark.parametrize("pattern", ["a*b|a", "(?:a|b|ab)*c|."])
def test_a_pattern_that_looks_far_ahead_is_refused_in_the_tab(node: Any, pattern: str) -> None:
    tab = node.tokenizer("far", json.dumps(_tiny("byte_level", pre_tokenizer=_split(pattern))))
    assert tab.encode("ab" * 40).ids
    with pytest.raises(FormatError, match="takes more than 64 steps a character"):
        tab.encode("a" * 30_000)


def test_a_long_word_takes_steps_in_proportion_in_word_piece(counting_node: Any) -> None:
    """The library looks for every part of a word, up to its whole rest."""
    counting_node("load", "words", json.dumps(_model("word_piece", max_input_chars_per_word=1000)))
    steps = [counting_node("steps", "encodeAll", "words", ["z" * n]) for n in (250, 1000)]
    assert 0 < steps[1] < 5 * steps[0]
