"""SentencePiece's .model files, read as the metadata of a GGUF file, which has the same parts.

The file is a protocol buffer, described by sentencepiece_model.proto of google/sentencepiece. Every
length is checked against the bytes that are there before anything is taken.
"""

from __future__ import annotations

import struct
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.protobuf import fields
from rushlight.core.io.text.gguf_vocab import MOST_TOKENS, PREFIX, UNKNOWN

_KINDS = {1: "t5", 2: "llama"}  # Unigram and BPE, by their names in GGUF
_OTHER_KINDS = {3: "WORD", 4: "CHAR"}
# The trainer's fields that name special tokens: a key of GGUF, and its default.
_SPECIAL = {
    40: ("unknown_token_id", 0),
    41: ("bos_token_id", 1),
    42: ("eos_token_id", 2),
    43: ("padding_token_id", -1),
}


def _piece(data: memoryview, what: str) -> tuple[str, float, int]:
    text, score, kind = "", 0.0, 1
    for number, value in fields(data, what):
        if number == 1 and isinstance(value, memoryview):
            try:
                text = bytes(value).decode()
            except UnicodeDecodeError:
                raise FormatError(f"{what} is not UTF-8") from None
        elif number == 2 and isinstance(value, memoryview) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif number == 3 and isinstance(value, int):
            kind = value
    return text, score, kind


def read_sentencepiece(data: bytes, what: str = "the SentencePiece model") -> dict[str, Any]:
    """The metadata of a GGUF file with this vocabulary; see `gguf_tokenizer.from_gguf`.

    FormatError for bytes that are not a model, and for one of words or characters.
    """
    tokens: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    values: dict[str, Any] = {
        "model": "t5",
        "add_space_prefix": True,
        "remove_extra_whitespaces": True,
        "add_bos_token": False,
        "add_eos_token": False,
    }
    special = {key: default for key, default in _SPECIAL.values()}
    for number, value in fields(data, what):
        if not isinstance(value, memoryview):
            continue
        if number == 1:
            if len(tokens) >= MOST_TOKENS:
                raise FormatError(f"{what} has more than {MOST_TOKENS} tokens")
            text, score, kind = _piece(value, f"{what}: token {len(tokens)}")
            tokens.append(text)
            scores.append(score)
            kinds.append(kind)
        elif number == 2:
            for field, setting in fields(value, what):
                if field == 3:
                    _check_kind(setting, what)
                    values["model"] = _KINDS[setting]
                elif field == 35:
                    values["byte_fallback"] = bool(setting)
                elif field == 24 and setting:
                    raise FormatError(f"{what}: treat_whitespace_as_suffix is not supported")
                elif field in _SPECIAL and isinstance(setting, int):
                    # A negative number is of 64 bits; it means that there is no such token.
                    special[_SPECIAL[field][0]] = -1 if setting >> 31 else setting
        elif number == 3:
            _read_normalizer(value, what, values)
    if not tokens:
        raise FormatError(f"{what} has no tokens")
    # The types agree about what is unknown; the numbers may be of another vocabulary.
    if UNKNOWN in kinds:
        special["unknown_token_id"] = kinds.index(UNKNOWN)
    values |= {key: id for key, id in special.items() if 0 <= id < len(tokens)}
    values |= {"tokens": tokens, "scores": scores, "token_type": kinds}
    return {PREFIX + key: value for key, value in values.items()}


def _check_kind(kind: object, what: str) -> None:
    if kind not in _KINDS:
        name = _OTHER_KINDS.get(kind) if isinstance(kind, int) else None
        raise FormatError(
            f"{what}: model type {name or kind} is not supported; supported: UNIGRAM, BPE"
        )


def _read_normalizer(view: memoryview, what: str, found: dict[str, Any]) -> None:
    keys = {3: "add_space_prefix", 4: "remove_extra_whitespaces"}
    for number, value in fields(view, what):
        if number == 2 and isinstance(value, memoryview):
            found["precompiled_charsmap"] = bytes(value)
        elif number in keys:
            found[keys[number]] = bool(value)
        elif number == 5 and not value:
            raise FormatError(f"{what}: escape_whitespaces false is not supported")
