"""Vocabulary: the tokens of a GGUF file or of a tokenizer.json, a page of them at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_TEXT = 120  # the most characters of a token that a page gets
_KINDS = {2: "unknown", 3: "control", 4: "user defined", 5: "unused", 6: "byte"}  # ggml's numbers


class Vocabulary:
    """Tokens by id; None where an id has none. kinds: what is special about some."""

    def __init__(self, tokens: Sequence[str | None], kinds: Mapping[int, str]) -> None:
        self.tokens, self.kinds = tokens, kinds

    @staticmethod
    def of_gguf(metadata: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary of a GGUF file; empty if it has none."""
        tokens = metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
            return Vocabulary([], {})
        types = metadata.get("tokenizer.ggml.token_type")
        numbers = types.tolist() if isinstance(types, np.ndarray) else []
        kinds = {i: _KINDS[n] for i, n in enumerate(numbers[: len(tokens)]) if n in _KINDS}
        return Vocabulary(tokens, kinds)

    @staticmethod
    def of_json(tokenizer: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary of a tokenizer.json: BPE, WordPiece or Unigram, and the added tokens."""
        model = tokenizer.get("model")
        stored = model.get("vocab") if isinstance(model, dict) else None
        ids: dict[int, str] = {}
        kinds: dict[int, str] = {}
        if isinstance(stored, dict):
            ids = {i: text for text, i in stored.items() if type(i) is int}
        elif isinstance(stored, list):
            ids = {i: x[0] for i, x in enumerate(stored) if isinstance(x, list) and x}
        added = tokenizer.get("added_tokens")
        for row in added if isinstance(added, list) else ():
            i = row.get("id") if isinstance(row, dict) else None
            if type(i) is int and isinstance(row.get("content"), str):
                ids[i], kinds[i] = row["content"], "special" if row.get("special") else "added"
        # An id far above the others is damage: it makes no list of that length.
        good = sorted(i for i, t in ids.items() if 0 <= i < 2 * len(ids) and isinstance(t, str))
        tokens: list[str | None] = [None] * (good[-1] + 1 if good else 0)
        for i in good:
            tokens[i] = ids[i]
        return Vocabulary(tokens, kinds)

    def text(self, number: Any) -> str:
        """The token with this id; "" for anything else than an id."""
        known = type(number) is int and 0 <= number < len(self.tokens)
        return (self.tokens[number] or "") if known else ""

    def page(self, search: str, start: int, count: int) -> dict[str, Any]:
        """`count` rows (id, token, kind) from `start` on of the tokens that have `search` in them.

        "#7" finds the id 7. `total` is the number of all that were found.
        """
        if search[:1] == "#" and search[1:].isdecimal() and len(search) < 12:
            number = int(search[1:])
            ids: Sequence[int] = [number] if number < len(self.tokens) else []
        elif search:
            ids = [i for i, token in enumerate(self.tokens) if token and search in token]
        else:
            ids = range(len(self.tokens))
        rows = [[i, _cut(self.tokens[i]), self.kinds.get(i, "")] for i in ids[start:][:count]]
        return {"total": len(ids), "rows": rows}


def _cut(token: str | None) -> str:
    """A token as text: bytes that are no text, and what does not print, are spelled out."""
    token = token or ""
    short = token if len(token) <= _TEXT else f"{token[:_TEXT]}…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short)


def special(value: Any) -> str:
    """The text of a special token in a tokenizer_config.json: a text, or an object with one."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""
