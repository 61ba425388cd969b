"""The bytes of a vocabulary's tokens, which say what a token adds to a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.models.generation.answers.formats import MARKS as _MARKS

MARKS = frozenset(_MARKS)
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_chars() -> dict[str, int]:
    """The bytes by the characters that stand for them in byte-level vocabularies (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTES = _byte_chars()


class Vocabulary:
    """The tokens of a model as bytes: empty for ids that are no text, such as special tokens.

    tokenizer: says how its tokens are spelled; size: that of the model's vocabulary. ValueError for
    a tokenizer whose tokens are no fixed bytes.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self.size = size
        self.tokens: list[bytes] = [b""] * size
        self.special: dict[str, int] = {}  # the ids of tokens that are no text, by their spellings
        spelled = tokenizer.spellings()
        if spelled.raw is not None:
            for id, raw in spelled.raw.items():
                if id < size:
                    self.tokens[id] = raw
        else:
            to_bytes = _spelling(spelled.decoder)
            for id, token in enumerate(spelled.tokens[:size]):
                if token:
                    self.tokens[id] = to_bytes(token)
        for id, text, special in spelled.added:
            if id < size:
                # A token that marks a thought or a call is none of a text, special or not.
                marks = special or text in MARKS
                self.tokens[id] = b"" if marks else text.encode()
                if marks:
                    self.special[text] = id
        # No text has this byte; special tokens are spelled with it.
        self.tokens = [b"" if b"\xff" in token else token for token in self.tokens]
        self.engines: dict[str, Any] = {}  # what engines made of the vocabulary


_made: WeakKeyDictionary[Tokenizer, Vocabulary] = WeakKeyDictionary()


def vocabulary_of(tokenizer: Tokenizer, size: int) -> Vocabulary:
    """The vocabulary of a tokenizer, made once."""
    known = _made.get(tokenizer)
    if known is None or known.size != size:
        known = _made[tokenizer] = Vocabulary(tokenizer, size)
    return known


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict) and part.get("type") == "Sequence":
        for inner in part.get("decoders") or ():
            yield from _steps(inner)
    elif isinstance(part, dict):
        yield part


def _spelling(decoder: dict[str, Any] | None) -> Callable[[str], bytes]:
    """A function from a token's spelling to its bytes."""
    replaced: list[tuple[str, str]] = []
    fallback = byte_level = False
    for step in _steps(decoder):
        match step.get("type"):
            case "ByteLevel":
                byte_level = True
            case "ByteFallback":
                fallback = True
            case "Replace" if (step.get("pattern") or {}).get("String"):
                replaced.append((step["pattern"]["String"], step.get("content") or ""))
            case "Metaspace":
                replaced.append((step.get("replacement") or "\u2581", " "))
            case "Fuse" | "Strip":
                pass  # they change nothing between tokens
            case other:
                raise ValueError(
                    f"response_format: the tokenizer's decoder {other} is not supported, as its "
                    "tokens are no fixed texts; supported: byte-level and SentencePiece tokenizers"
                )

    def to_bytes(token: str) -> bytes:
        if byte_level:
            if all(char in _BYTES for char in token):
                return bytes(_BYTES[char] for char in token)
            return token.encode("utf-8", "replace")
        if fallback and (byte := _BYTE.fullmatch(token)):
            return bytes([int(byte[1], 16)])
        for old, new in replaced:
            token = token.replace(old, new)
        return token.encode("utf-8", "replace")

    return to_bytes
