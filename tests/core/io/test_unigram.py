"""Unigram with what usually stands around it, as T5 and XLM-R have it: the package and the tab."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Package
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.tokenizer import NativeTokenizer, TabTokenizer

pytestmark = pytest.mark.native

Charsmap = Callable[[dict[str, str]], str]
HERE = Path(__file__).parent
STRINGS = json.loads((HERE.parent / "data" / "tokenizer_strings.json").read_text(encoding="utf-8"))
TEXTS = [s for s in STRINGS if isinstance(s, str)] + [
    "", " ", "  a  b ", "▁a▁▁b", "<s>x</s> y", "ε ζη θ", "the the <unk> candle",
    "ＡＢＣ①ﬁ½ ﷺ", "e\u0301 é ȩ\u0301", "a\r\nb\r\n\r\n", "x\u00adx\u200bx", "한국어 각",
    "ｶﾞ が", "न\u093c",
]  # fmt: skip
ROWS = {
    "Ａ": "A", "Ｂ": "B", "①": "1", "ﬁ": "fi", "ﷺ": "a b c", "e\u0301": "é", "\u00ad": "",
    "\r": " ", "\u0301": "'", "ｶ": "カ", "\u200b": " ", "\n": " ", "😀": ":)", "½": "1/2",
}  # fmt: skip


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    """A tokenizer.json that the package has trained."""
    package = Package(models.Unigram())
    package.pre_tokenizer = pre_tokenizers.Metaspace()
    package.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    words = (HERE.parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8").split("\n")
    package.train_from_iterator([line for line in words if line.isascii()], trainer)
    package.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    found: dict[str, Any] = json.loads(package.to_str())
    return found


def _compare(node: Any, file: dict[str, Any], texts: list[str] = TEXTS) -> list[list[int]]:
    """Check that both places agree on texts; their ids."""
    text = json.dumps(file)
    package, tab = NativeTokenizer(text.encode()), node.tokenizer("unigram", text)
    assert (tab.vocab_size, tab.pad_id) == (package.vocab_size, package.pad_id)
    expected = package.encode_batch(texts)
    for string, one, other in zip(texts, expected, tab.encode_batch(texts), strict=True):
        assert other == one, ascii(string)
        for skip in (True, False):
            decoded = package.decode(one.ids, skip_special_tokens=skip)
            assert tab.decode(one.ids, skip_special_tokens=skip) == decoded, ascii(string)
    return [e.ids for e in expected]


def test_trained_by_the_package(node: Any, trained: dict[str, Any]) -> None:
    ids = _compare(node, trained)
    assert len({i for row in ids for i in row}) > 60  # not only unknown ones


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("spaces", [True, False])
def test_metaspace(
    node: Any, trained: dict[str, Any], scheme: str, split: bool, spaces: bool
) -> None:
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    first = {"type": "WhitespaceSplit"}
    parts = {"type": "Sequence", "pretokenizers": [first, step]} if spaces else step
    _compare(node, trained | {"pre_tokenizer": parts, "decoder": step})


@pytest.mark.parametrize(
    "steps",
    [
        ["Precompiled"],
        ["NFKC", "Strip", "Lowercase"],
        ["Strip", "Precompiled", "blanks"],
        ["NFKD", "StripAccents"],
        ["NFD"],
        ["NFD", "StripAccents", "NFC"],
    ],
    ids="-".join,
)
def test_normalizers(
    node: Any, trained: dict[str, Any], charsmap: Charsmap, steps: list[str]
) -> None:
    blanks = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    parts = {
        "Precompiled": {"type": "Precompiled", "precompiled_charsmap": charsmap(ROWS)},
        "Strip": {"type": "Strip", "strip_left": True, "strip_right": True},
        "blanks": blanks,
    }
    chosen = [parts.get(name, {"type": name}) for name in steps]
    _compare(node, trained | {"normalizer": {"type": "Sequence", "normalizers": chosen}})


@pytest.mark.parametrize("form", ["NFD", "NFKD", "NFKC", "StripAccents", "Precompiled"])
def test_normalizers_in_every_script(node: Any, charsmap: Charsmap, form: str) -> None:
    part = {"type": form}
    if form == "Precompiled":
        part["precompiled_charsmap"] = charsmap(ROWS)
    # Every character is a token, so ids and offsets show what each became.
    codes = [
        c
        for c in (
            *range(0x3400),
            *range(0xA000, 0xD800, 7),
            *range(0xF900, 0x12000),
            *range(0x1D000, 0x1F300),
        )
        if not 0xD800 <= c < 0xE000
    ]
    model = {
        "type": "Unigram",
        "unk_id": 0,
        "byte_fallback": True,
        "vocab": [["<unk>", 0.0], *([chr(c), -1.0] for c in codes[32:])],
    }
    file = {"model": model, "normalizer": part, "added_tokens": []}
    texts = [f"a{chr(c)}\u0301b{chr(c)} \u0345{chr(c)}" for c in codes]
    text = json.dumps(file)
    package, tab = NativeTokenizer(text.encode()), node.tokenizer("script", text)
    expected, found = package.encode_batch(texts), tab.encode_batch(texts)
    wrong = [t for t, a, b in zip(texts, expected, found, strict=True) if a != b]
    assert not wrong, f"{len(wrong)} differ, first {ascii(wrong[:5])}"


@pytest.mark.parametrize("complete", [True, False])
def test_unknown_characters_by_their_bytes(
    node: Any, trained: dict[str, Any], complete: bool
) -> None:
    vocab = trained["model"]["vocab"]
    tokens = [[f"<0x{byte:02X}>", -20.0] for byte in range(256 if complete else 200)]
    model = trained["model"] | {"byte_fallback": True, "vocab": [*vocab, *tokens]}
    steps = [
        {"type": "ByteFallback"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    ]
    decoder = {"type": "Sequence", "decoders": steps}
    _compare(node, trained | {"model": model, "decoder": decoder})


def test_the_unknown_token_in_a_text_is_worth_its_own_score(node: Any) -> None:
    """The library gives it the score of an unknown character."""
    vocab = [["<unk>", 0.0], ["<", -1.0], ["u", -1.0], ["n", -1.0], ["k", -1.0], [">", -1.0]]
    file = {"model": {"type": "Unigram", "unk_id": 0, "vocab": vocab}, "added_tokens": []}
    assert _compare(node, file, ["<unk>", "n<unk><unk>k", "x<unk>y"])[0] == [0]


def test_nothing_known_and_no_unknown_token(node: Any) -> None:
    text = json.dumps({"model": {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]]}})
    for made in (NativeTokenizer(text.encode()), node.tokenizer("bare", text)):
        assert made.encode("aa").ids == [0, 0]
        with pytest.raises(FormatError, match=r"tokenizer\.json: .*unk_id"):
            made.encode("ab")


def test_a_long_text_takes_steps_in_proportion(counting_node: Any, trained: dict[str, Any]) -> None:
    """One word of all of it, as `split: false` has it; the library takes 20 us a character."""
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    counting_node("load", "long", json.dumps(trained | {"pre_tokenizer": step}))
    text = "the candle that anybody could afford " * 400
    quarter = counting_node("steps", "encodeAll", "long", [text[: len(text) // 4]])
    whole = counting_node("steps", "encodeAll", "long", [text])
    assert 0 < whole < 5 * quarter
    assert whole < 100 * len(text)


def test_the_likeliest_way_is_found(trained: dict[str, Any], node: Any) -> None:
    """Against all ways of cutting short words, in float64."""
    scores = dict(trained["model"]["vocab"])
    worst = min(scores.values()) - 10
    tab: TabTokenizer = node.tokenizer("best", json.dumps(trained | {"pre_tokenizer": None}))

    def best(word: str) -> float:
        if not word:
            return 0.0
        return max(
            float(scores.get(word[:k], worst if k == 1 else -math.inf)) + best(word[k:])
            for k in range(1, len(word) + 1)
        )

    for word in ("candle", "tensors", "the", "gradient", "loading"):
        tokens = [tab.id_to_token(i) for i in tab.encode(word, add_special_tokens=False).ids]
        assert math.isclose(sum(scores[str(t)] for t in tokens), best(word))
