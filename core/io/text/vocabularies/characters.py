"""Tokenizers without a vocabulary: the characters of CANINE, the bytes of Perceiver and ByT5."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rushlight.core.io.text.tokenizer import Encoding, Spellings, Tokenizer

# CANINE's special tokens are characters for private use.
_PAD, _FIRST, _LAST = 0, 0xE000, 0xE001
_NAMED = {
    _PAD: "[PAD]", _FIRST: "[CLS]", _LAST: "[SEP]", 0xE002: "[BOS]", 0xE003: "[MASK]",
    0xE004: "[RESERVED]",
}  # fmt: skip
# Tokens before the bytes, what stands around a text, and how many numbered tokens follow.
_BYTES: dict[str, tuple[tuple[str, ...], str, str, int]] = {
    "Perceiver": (("[PAD]", "[BOS]", "[EOS]", "[MASK]", "[CLS]", "[SEP]"), "[CLS]", "[SEP]", 0),
    "ByT5": (("<pad>", "</s>", "<unk>"), "", "</s>", 125),
}
_MOST_NUMBERED = 1 << 12


class CharacterTokenizer(Tokenizer):
    """A token is a character, and its id the code point; [CLS] and [SEP] stand around a text."""

    def __init__(self) -> None:
        self.vocab_size, self.pad_id = 0x110000, _PAD
        ends = {"[CLS]": _FIRST, "[SEP]": _LAST}
        first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ends)
        texts = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
        self.post_processor = {
            "type": "TemplateProcessing",
            "single": [first, texts[0], last],
            "pair": [first, texts[0], last, texts[1], last],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ends.items()},
        }

    def token_to_id(self, token: str) -> int | None:
        """The code point of a character, or the id of a special token's name; None for others."""
        if len(token) == 1:
            return ord(token)
        return next((id for id, name in _NAMED.items() if name == token), None)

    def id_to_token(self, id: int) -> str | None:
        """The character, or the name of a special token; None past the last character."""
        return _NAMED.get(id) or (chr(id) if 0 <= id < self.vocab_size else None)

    def join(self, tokens: list[str]) -> str:
        """The characters together."""
        return "".join(tokens)

    def spellings(self) -> Spellings:
        """The names of the special tokens alone: every other token is its character."""
        tokens: list[str | None] = [None] * (max(_NAMED) + 1)
        return Spellings(tokens, None, [(id, name, True) for id, name in _NAMED.items()])

    def _encode(
        self, texts: list[str], add_special_tokens: bool, *, words: bool = False
    ) -> list[Encoding]:
        rows = []
        for text in texts:
            n, ids = len(text), [ord(char) for char in text]
            row = Encoding(ids, [(i, i + 1) for i in range(n)], [False] * n)
            if words:
                row.words.extend(_words(text))
            if add_special_tokens:
                row = Encoding(
                    [_FIRST, *row.ids, _LAST],
                    [(0, 0), *row.offsets, (0, 0)],
                    [True, *row.special, True],
                    [-1, *row.words, -1] if words else [],
                )
            rows.append(row)
        return rows

    def _decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        real = (id for id in ids if id < self.vocab_size and not 0xD800 <= id < 0xE000)
        return "".join(chr(id) for id in real if not (skip_special_tokens and id in _NAMED))


def _words(text: str) -> list[int]:
    """The number of each character's word; -1 for blanks."""
    numbers, word, before = [], -1, " "
    for char in text:
        word += before.isspace() and not char.isspace()
        numbers.append(-1 if char.isspace() else word)
        before = char
    return numbers


def byte_tokenizer(kind: str, config: Mapping[str, Any], alphabet: list[str]) -> bytes | None:
    """A tokenizer.json whose tokens are bytes, for a class that reads these; None for another.

    kind: the class without its ending. config: tokenizer_config.json. alphabet: GPT-2's character
    for each byte. It raises nothing.
    """
    if kind not in _BYTES:
        return None
    named, first, last, numbered = _BYTES[kind]
    count = config.get("extra_ids", numbered)
    count = min(count, _MOST_NUMBERED) if type(count) is int and count > 0 else 0
    vocabulary = {name: i for i, name in enumerate(named)}
    vocabulary |= {char: i for i, char in enumerate(alphabet, len(vocabulary))}
    more = {f"<extra_id_{i}>": len(vocabulary) + i for i in range(count if numbered else 0)}
    ids = {name: vocabulary[name] for name in (first, last) if name}

    def special(name: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def around(*texts: str) -> list[dict[str, Any]]:
        pieces: list[dict[str, Any]] = [special(first)] if first else []
        for text in texts:
            pieces += [{"Sequence": {"id": text, "type_id": 0}}, special(last)]
        return pieces

    added = {**{name: vocabulary[name] for name in named}, **more}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    level = {**level, "use_regex": False}
    blanks = kind == "ByT5"  # those around its tokens belong to them
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [
                {"id": id, "content": name, "special": True, "normalized": False,
                 "single_word": False, "lstrip": blanks and name not in more,
                 "rstrip": blanks and name not in more}
                for name, id in added.items()
            ],
            "normalizer": None,
            "pre_tokenizer": level,
            "post_processor": {
                "type": "TemplateProcessing", "single": around("A"), "pair": around("A", "B"),
                "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ids.items()},
            },
            "decoder": level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        }
    ).encode()  # fmt: skip
