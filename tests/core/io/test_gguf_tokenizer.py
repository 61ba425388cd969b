"""Tokenizers out of GGUF metadata: small vocabularies, and malformed ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.gguf_tokenizer import from_gguf, gguf_tokenizer, stop_ids

BYTES = [chr(b) for b in [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]]
BYTES += [chr(0x100 + i) for i in range(256 - len(BYTES))]
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def _byte_level(**more: Any) -> dict[str, Any]:
    pairs = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
    pairs += ["1 2", "12 3", "! !"]
    tokens = BYTES + [pair.replace(" ", "") for pair in pairs] + ["<s>", "</s>", "<tool>"]
    count = len(tokens)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([NORMAL] * (count - 3) + [CONTROL] * 2 + [USER]),
        "tokenizer.ggml.merges": pairs,
        "tokenizer.ggml.bos_token_id": count - 3,
        "tokenizer.ggml.eos_token_id": count - 2,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def _sentence_piece(**more: Any) -> dict[str, Any]:
    words = ["▁", "h", "i", "t", "e", "r", "hi", "▁hi", "th", "the", "re", "there"]
    words.append("▁there")
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *words]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(words)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": np.array([-float(i) for i in range(len(tokens))], np.float32),
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def _pieces(metadata: dict[str, Any], text: str, **options: Any) -> list[str | None]:
    tokenizer = gguf_tokenizer(metadata)
    return [tokenizer.id_to_token(i) for i in tokenizer.encode(text, **options).ids]


def test_byte_level() -> None:
    tokenizer = gguf_tokenizer(_byte_level())
    text = "hello world<tool>é 123!!</s>"
    encoding = tokenizer.encode(text)
    pieces = ["hello", "Ġworld", "<tool>", "Ã", "©", "Ġ", "123", "!!", "</s>"]
    assert [tokenizer.id_to_token(i) for i in encoding.ids] == pieces
    ends = [5, 11, 17, 18, 18, 19, 22, 24, 28]
    assert [end for _, end in encoding.offsets] == ends
    assert encoding.offsets[3:5] == [(17, 18), (17, 18)]
    assert not any(encoding.special)
    assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
    assert tokenizer.decode(encoding.ids) == text.removesuffix("</s>")


def test_start_and_end_tokens_by_flag() -> None:
    both = _byte_level(add_bos_token=True, add_eos_token=True)
    assert _pieces(both, "hello") == ["<s>", "hello", "</s>"]
    assert _pieces(both, "hello", add_special_tokens=False) == ["hello"]
    assert _pieces(_byte_level(), "hello") == ["hello"]
    # This one's default is a start token.
    assert _pieces(_byte_level(pre="llama-bpe"), "hello") == ["<s>", "hello"]
    assert _pieces(_byte_level(pre="llama-bpe", add_bos_token=False), "hello") == ["hello"]


def test_digits_apart() -> None:
    assert _pieces(_byte_level(), "123") == ["123"]
    assert _pieces(_byte_level(pre="smollm"), "123") == ["1", "2", "3"]
    assert _pieces(_byte_level(pre="qwen2"), "123") == ["1", "2", "3"]


def test_sentence_piece() -> None:
    tokenizer = gguf_tokenizer(_sentence_piece())
    encoding = tokenizer.encode("hi there é")
    assert [tokenizer.id_to_token(i) for i in encoding.ids] == [
        "<s>",
        "▁hi",
        "▁there",
        "▁",
        "<0xC3>",
        "<0xA9>",
    ]
    assert encoding.offsets == [(0, 0), (0, 2), (2, 8), (8, 9), (9, 10), (9, 10)]
    assert tokenizer.decode(encoding.ids) == "hi there é"
    # Bytes that are no whole character stand for themselves.
    assert "\ufffd" in tokenizer.decode(encoding.ids[:-1])
    bare = _sentence_piece(add_space_prefix=False, add_bos_token=False)
    assert _pieces(bare, "hi hi") == ["hi", "▁hi"]
    # Control tokens are not merged together out of text, though they can be written out.
    assert _pieces(_sentence_piece(), "</s>hi", add_special_tokens=False) == ["</s>", "▁hi"]


def test_gemma_4() -> None:
    metadata = _sentence_piece(model="gemma4", merges=["h i", "▁ hi", "▁hi ▁hi"])
    metadata["tokenizer.ggml.tokens"] += ["▁hi▁hi", "\n"]
    metadata["tokenizer.ggml.token_type"] = np.append(
        metadata["tokenizer.ggml.token_type"], [NORMAL] * 2
    )
    pieces = _pieces(metadata, " hi hi\n\nhi")
    assert pieces == ["▁hi▁hi", "\n", "\n", "hi"]
    tokenizer = gguf_tokenizer(metadata)
    assert tokenizer.decode(tokenizer.encode(" hi hi\n\nhi").ids) == " hi hi\n\nhi"


def test_word_piece() -> None:
    metadata = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hi", "er", "▁."],
        "tokenizer.ggml.token_type": np.array([3, 3, 3, 3, 1, 1, 1]),
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
    }
    tokenizer = gguf_tokenizer(metadata)
    encoding = tokenizer.encode("Hier. so")
    assert encoding.ids == [2, 4, 5, 6, 1, 3]
    assert encoding.offsets == [(0, 0), (0, 2), (2, 4), (4, 5), (6, 8), (0, 0)]
    assert tokenizer.decode([4, 5, 6]) == "hier."
    assert tokenizer.pad_id == 0


def test_the_config_names_the_special_tokens() -> None:
    metadata = _byte_level(padding_token_id=0) | {"tokenizer.chat_template": "{{ messages }}"}
    config = json.loads(from_gguf(metadata)[1])
    assert config["bos_token"] == "<s>" and config["eos_token"] == "</s>"
    assert config["pad_token"] == BYTES[0] and config["unk_token"] is None
    assert config["chat_template"] == "{{ messages }}"
    assert gguf_tokenizer(metadata).pad_id == 0


def test_tokens_that_end_an_answer() -> None:
    metadata = _byte_level(eot_token_id=5)
    eos = metadata["tokenizer.ggml.eos_token_id"]
    assert stop_ids(metadata) == {5, eos}
    metadata["tokenizer.ggml.tokens"][-3] = "<|im_end|>"
    assert stop_ids(metadata) == {5, eos, eos - 1}
    metadata["tokenizer.ggml.token_type"][-3] = NORMAL  # a word like any other
    assert stop_ids(metadata) == {5, eos}


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("plamo2", r" \(PLaMo 2's Aho-Corasick tables\)"),
        ("newest", ""),
    ],
)
def test_an_unsupported_kind_is_named(kind: str, method: str) -> None:
    supported = "supported: gpt2, llama, gemma4, bert, t5, rwkv\n  hint: .*tokenizer.json.*rl.load"
    message = f"^tokenizer.ggml.model: '{kind}' vocabularies{method} are not supported; {supported}"
    # Such a vocabulary has lists of its own: those that we know may be missing or odd.
    for metadata in (
        _byte_level(model=kind),
        _byte_level(model=kind, tokens=["a", "a"], merges=None),
        {"tokenizer.ggml.model": kind},
    ):
        with pytest.raises(FormatError, match=message):
            gguf_tokenizer(metadata)


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model is None, not of type str"),
    ({"model": "x" * 999}, "'x{100}' vocabularies are not supported"),
    ({"pre": 7}, "pre is 7, not of type str"),
    ({"pre": "newest"}, "pre-tokenizer 'newest' is not supported"),
    ({"tokens": None}, "tokens is missing or not a list"),
    ({"tokens": "abc"}, "tokens is missing or not a list"),
    ({"tokens": []}, "tokens has 0 entries"),
    ({"tokens": ["a", 5]}, "an entry that is not a string"),
    ({"tokens": ["a", "b", "a"]}, "'a' more than once"),
    ({"tokens": ["a"] * (5 << 20)}, "too many"),
    ({"token_type": [1]}, "token_type has 1 entries for"),
    ({"token_type": "111"}, "token_type is '111', not a list of numbers"),
    ({"token_type": [CONTROL] * 300, "tokens": [str(i) for i in range(300)]}, "is not a token"),
    ({"model": "gpt2\udcff"}, r"model is 'gpt2\\udcff', which is not UTF-8"),
    ({"tokens": ["a", "\udcc3b"]}, r"tokens\[1\] is '\\udcc3b', which is not UTF-8"),
    ({"model": np.arange(3)}, r"model is array\(\[0, 1, 2\]\), not of type str"),
    ({"token_type": np.zeros(300, bool)}, "token_type is array.*, not a list"),
    ({"merges": None}, "merges is missing or not a list"),
    ({"merges": ["h e", "ab"]}, r"merges\[1\] is 'ab', not two tokens"),
    ({"merges": ["h "]}, r"merges\[0\] is 'h ', not two tokens"),
    ({"merges": ["h zz"]}, "'zz' is not a token"),
    ({"merges": ["h z"]}, "'hz' is not a token"),
    ({"eos_token_id": "x"}, "eos_token_id is 'x', not of type int"),
    ({"eos_token_id": True}, "eos_token_id is True, not of type int"),
    ({"padding_token_id": 1.5}, "padding_token_id is 1.5, not of type int"),
    ({"add_bos_token": 1}, "add_bos_token is 1, not of type bool"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_a_malformed_vocabulary(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        gguf_tokenizer(_byte_level(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": None}, "a llama vocabulary has one per token"),
        ({"scores": np.zeros(3)}, "scores has 3 entries for"),
        ({"scores": np.full(400, np.nan)}, "a score that is not a number"),
        (
            {"tokens": ["<unk>", "<s>", "a" * 5000], "scores": [0.0] * 3, "token_type": None},
            "5000 characters",
        ),
        ({"unknown_token_id": "0"}, "unknown_token_id is '0', not of type int"),
        ({"precompiled_charsmap": "abc"}, "charsmap is 'abc', not a list of bytes"),
        ({"precompiled_charsmap": 5}, "charsmap is 5, not a list of bytes"),
        ({"precompiled_charsmap": np.arange(3)}, "charsmap is array.*, not a list of bytes"),
        ({"precompiled_charsmap": ["a"]}, r"charsmap is \['a'\], not a list of bytes"),
        (
            {
                "token_type": [CONTROL] * (1 << 17),
                "tokens": [f"{i}" for i in range(1 << 17)],
                "scores": [0.0] * (1 << 17),
            },
            "special tokens are too many",
        ),
    ],
)
def test_a_malformed_sentence_piece_vocabulary(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        gguf_tokenizer(_sentence_piece(**change))


@pytest.mark.parametrize("id", [-1, 4294967295, 9999, 10**30])
def test_an_id_out_of_range_names_no_token(id: int, caplog: pytest.LogCaptureFixture) -> None:
    """As in llama.cpp, which then takes its default; one note names the keys."""
    plain = _sentence_piece()
    wanted = gguf_tokenizer(plain).encode("hello").ids
    for key in (
        "bos_token_id",
        "eos_token_id",
        "unknown_token_id",
        "padding_token_id",
        "eot_token_id",
        "fim_pre_token_id",
    ):
        caplog.clear()
        changed = plain | {f"tokenizer.ggml.{key}": id}
        assert gguf_tokenizer(changed).encode("hello").ids == wanted
        assert [r.message for r in caplog.records if key in r.message] == [
            f"ids out of range for {len(plain['tokenizer.ggml.tokens'])} tokens name no token: "
            f"tokenizer.ggml.{key} {id}"
        ]
        assert all(0 <= i < 400 for i in stop_ids(changed))


def test_a_missing_end_token(caplog: pytest.LogCaptureFixture) -> None:
    metadata = _byte_level(add_eos_token=True, eos_token_id=None)
    metadata["tokenizer.ggml.tokens"] = [f"{i}" for i in range(10)]
    metadata["tokenizer.ggml.merges"] = []
    metadata["tokenizer.ggml.bos_token_id"] = 1
    assert gguf_tokenizer(metadata).encode("12").ids == [1, 2]
    assert "the file names none: none is added" in caplog.text


def _with_tokens(count: int) -> dict[str, Any]:
    metadata = _byte_level()
    metadata["tokenizer.ggml.tokens"] += [f"token{i}" for i in range(count)]
    types = metadata["tokenizer.ggml.token_type"]
    metadata["tokenizer.ggml.token_type"] = np.append(types, np.ones(count, np.int32))
    return metadata


@pytest.mark.native
def test_many_tokens_take_steps_in_proportion(count_steps: Callable[..., int]) -> None:
    few, many = _with_tokens(5_000), _with_tokens(20_000)
    gguf_tokenizer(few)  # warm
    assert count_steps(lambda: gguf_tokenizer(many)) < 4.5 * count_steps(
        lambda: gguf_tokenizer(few)
    )


@pytest.mark.native
def test_a_hundred_thousand_tokens() -> None:
    metadata = _with_tokens(100_000)
    tokenizer = gguf_tokenizer(metadata)
    assert tokenizer.vocab_size == len(metadata["tokenizer.ggml.tokens"])
    assert tokenizer.token_to_id("token99999") == tokenizer.vocab_size - 1


def test_a_world_vocabulary_that_lacks_a_byte_is_named() -> None:
    tokens = ["<s>", *(repr(bytes([i]))[2:-1] for i in range(255)), "ab"]
    whole = {"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": [*tokens, "\\xff"]}
    assert gguf_tokenizer(whole).encode("abc'\n").ids == [256, 100, 40, 11]
    with pytest.raises(FormatError, match="no token is the byte 255"):
        gguf_tokenizer(whole | {"tokenizer.ggml.tokens": tokens})
    with pytest.raises(FormatError, match="out of range or repeated"):
        gguf_tokenizer(whole | {"tokenizer.ggml.tokens": [*tokens, "\\xff", "\\x61"]})
