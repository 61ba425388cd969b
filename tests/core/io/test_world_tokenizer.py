"""The tokenizer of RWKV's world models: longest matches, and files that are broken."""

from __future__ import annotations

import random

import pytest

import rushlight as rl
from rushlight.core.io.text.vocabularies.world import WORLD, WorldTokenizer
from rushlight.models.generation.generate import CausalLM
from rushlight.models.generation.streaming import Pieces

WORDS = [
    "\n\n",
    "ab",
    "abc",
    "abcde",
    "bc",
    " a",
    "'\"",
    "it's",
    "你",
    "你好",
    "\\n",
    "é",
    "\u2028",
]
TOKENS = [bytes([i]) for i in range(256)] + [word.encode() for word in WORDS]
TOKENS += [b"\xe4\xbd", b"\xf0\x9f", b"\xf0\x9f\x99"]


def vocabulary(tokens: list[bytes] = TOKENS) -> bytes:
    """The file: text where it can be, as Python writes it."""
    lines = []
    for i, token in enumerate(tokens, 1):
        try:
            value: str | bytes = token.decode()
        except UnicodeDecodeError:
            value = token
        lines.append(f"{i} {value!r} {len(token)}\n")
    return "".join(lines).encode()


def longest(text: str) -> list[int]:
    """Ids by the rule itself."""
    data, found = text.encode(), []
    while data:
        token = max((t for t in TOKENS if data.startswith(t)), key=len)
        found.append(TOKENS.index(token) + 1)
        data = data[len(token) :]
    return found


def test_the_longest_token_is_taken() -> None:
    tokenizer = WorldTokenizer(vocabulary())
    draws = random.Random(1)
    texts = ["", "abcd", "abcde it's\\n '\"", "你好你🙂é\u2028\x00"]
    texts += ["".join(draws.choices("abcde \n你好🙂é'\"\\n", k=40)) for _ in range(30)]
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert encoding.ids == longest(text) and tokenizer.decode(encoding.ids) == text
        assert not any(encoding.special)
    found = tokenizer.encode("a你好🙂b")
    assert found.offsets == [(0, 1), (1, 3), (3, 4), (3, 4), (4, 5)]
    assert len(tokenizer.encode("abc" * 9, max_length=4)) == 4
    assert tokenizer.vocab_size == len(TOKENS) + 1 and tokenizer.pad_id == 0
    assert tokenizer.decode([0, 99999]) == ""


def test_tokens_have_names() -> None:
    tokenizer = WorldTokenizer(vocabulary())
    assert tokenizer.token_to_id("你好") == TOKENS.index("你好".encode()) + 1
    assert tokenizer.id_to_token(TOKENS.index(b"\xe4\xbd") + 1) == "<0xE4><0xBD>"
    for id in range(1, len(TOKENS) + 1):
        name = tokenizer.id_to_token(id)
        assert name is not None and tokenizer.token_to_id(name) == id
    assert tokenizer.token_to_id("no such") is None and tokenizer.id_to_token(0) is None
    with pytest.raises(ValueError, match="not a token id"):
        tokenizer.id_to_token(-1)


def test_a_stream_gives_whole_characters() -> None:
    tokenizer = WorldTokenizer(vocabulary())
    pieces = Pieces(tokenizer, ())
    found = [pieces.add(id)[0] for id in tokenizer.encode("a🙂b").ids]
    assert found == ["a", "", "🙂", "b"]


@pytest.mark.native
def test_a_model_s_folder_may_have_it() -> None:
    class Plain(CausalLM):
        config, vocab_size = None, 65536

    config = {"tokenizer_config.json": b'{"tokenizer_class": "Rwkv6Tokenizer"}'}
    for files in ({WORLD: vocabulary()}, {"vocab.txt": vocabulary(), **config}):
        made = Plain()
        made.configure(files)
        assert made.tokenizer is not None and made.tokenizer.encode("abc").ids == [259]
    made = Plain()
    made.configure({"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nabc\n"})
    assert made.tokenizer is not None and not isinstance(made.tokenizer, WorldTokenizer)


@pytest.mark.native
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\xff", "can't decode"),
        (b"257 x 1", "line 257 is .* must be an id"),
        (b"257 'x' + 'y' 2", "must be an id"),
        (b"257 __import__('os') 2", "must be an id"),
        (b"257 'x\\q' 3", "must be an id"),
        (b"257 'xy' 3", "has 2 bytes, not 3"),
        (b"257 '' 0", "1 to 512"),
        (b"257 '%b' 513" % (b"x" * 513), "1 to 512"),
        (b"257 'a' 1", "repeated"),
        (b"256 'xy' 2", "repeated"),
        (b"99999999 'xy' 2", "out of range"),
        (b"257 '\\ud800' 3", "lone surrogate"),
        (b"257 b'\\u1234\xc3\xa9' 3", "not a string or bytes"),
    ],
)
def test_broken_lines_are_named(line: bytes, message: str) -> None:
    with pytest.raises(rl.FormatError, match=message):
        WorldTokenizer(vocabulary(TOKENS[:256]) + line)


@pytest.mark.native
def test_every_byte_must_be_a_token() -> None:
    with pytest.raises(rl.FormatError, match="no token is the byte 255"):
        WorldTokenizer(vocabulary(TOKENS[:255]))
