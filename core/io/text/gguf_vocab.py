"""The vocabulary of a GGUF file's metadata, with checks of every list.

The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief

log = logging.getLogger("rushlight")
PREFIX = "tokenizer.ggml."
# Token types.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
MOST_TOKENS = 1 << 21
_LONGEST = 1024  # characters of a token whose merges are searched
# Characters of all merges that tokens imply, and per character of the tokens: those of Gemma's
# 256,000 tokens take 5 for each.
_FREE, _TIMES = 1 << 20, 32
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The checked lists of a file."""

    model: str
    pre: str
    tokens: list[str]
    types: list[int]  # empty, or one per token
    ids: dict[str, int]

    def special(self) -> list[tuple[int, int]]:
        """(id, type) of the tokens that are matched in a text first."""
        wanted = (UNKNOWN, CONTROL, USER_DEFINED)
        return [(i, kind) for i, kind in enumerate(self.types) if kind in wanted]


def of_type(key: str, value: Any, kind: type) -> Any:
    """`value` of the key `key`; FormatError unless it is of type `kind`, and text UTF-8."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FormatError(f"{key} is {brief(value)}, not of type {kind.__name__}")
    if isinstance(value, str):
        _check_text(key, value)
    return value


def _check_text(key: str, text: str) -> None:
    """Raise FormatError for text whose bytes are not UTF-8, which the reader keeps as halves."""
    if not text.isascii() and _HALF.search(text):
        raise FormatError(f"{key} is {brief(text)}, which is not UTF-8")


def flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    """A flag; `default` if the file does not have it.

    `metadata` is the file's, `key` without the prefix. Raises FormatError for another type.
    """
    value = metadata.get(PREFIX + key)
    return default if value is None else bool(of_type(PREFIX + key, value, bool))


def _texts(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(PREFIX + key)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise FormatError(f"{PREFIX}{key} is missing or not a list of strings")
    if len(value) > 2 * MOST_TOKENS:
        raise FormatError(f"{PREFIX}{key} has {len(value)} entries, which is too many")
    texts = list(value)
    if set(map(type, texts)) - {str}:
        raise FormatError(f"{PREFIX}{key} has an entry that is not a string")
    for i, text in enumerate(texts):
        _check_text(f"{PREFIX}{key}[{i}]", text)
    return texts


def numbers(metadata: Mapping[str, Any], key: str, count: int) -> list[Any]:
    """The numbers of an optional list, one per token.

    `metadata` is the file's, `key` without the prefix, `count` the number of tokens. Raises
    FormatError for another value.
    """
    value = metadata.get(PREFIX + key)
    if value is None:
        return []
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise FormatError(f"{PREFIX}{key} is {brief(value)}, not a list of numbers")
    if len(value) < count:
        raise FormatError(f"{PREFIX}{key} has {len(value)} entries for {count} tokens")
    numbers = value[:count].tolist() if hasattr(value, "tolist") else value[:count]
    if not isinstance(numbers, list) or set(map(type, numbers)) - {int, float}:
        raise FormatError(f"{PREFIX}{key} is {brief(value)}, not a list of numbers")
    return numbers


def read_vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """The lists of a file; FormatError for a missing, malformed or too large one."""
    model = of_type(f"{PREFIX}model", metadata.get(f"{PREFIX}model"), str)
    pre = of_type(f"{PREFIX}pre", metadata.get(f"{PREFIX}pre", ""), str)
    tokens = _texts(metadata, "tokens")
    if not tokens or len(tokens) > MOST_TOKENS:
        raise FormatError(f"{PREFIX}tokens has {len(tokens)} entries, from 1 to {MOST_TOKENS}")
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(tokens)]
    ids = {token: i for i, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for i, token in enumerate(tokens) if ids[token] != i)
        raise FormatError(f"{PREFIX}tokens has {twice!r} more than once")
    return Vocabulary(model, pre, tokens, numbers(metadata, "token_type", len(tokens)), ids)


def special_id(metadata: Mapping[str, Any], vocabulary: Vocabulary, key: str) -> int | None:
    """A special token's id; None if the file names none, or one out of range as -1 is.

    `metadata` is the file's, `key` without the prefix, `vocabulary` what ids are of. Raises
    FormatError for another type.
    """
    value = metadata.get(PREFIX + key)
    if value is None or not 0 <= of_type(PREFIX + key, value, int) < len(vocabulary.tokens):
        return None
    return int(value)


def note_ids(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Say which ids of special tokens are out of range: llama.cpp takes its defaults for them."""
    count = len(vocabulary.tokens)
    ids = {k: v for k, v in metadata.items() if k.startswith(PREFIX) and k.endswith("_token_id")}
    bad = [f"{k} {v}" for k, v in ids.items() if type(v) is int and not 0 <= v < count]
    if bad:
        log.warning("ids out of range for %d tokens name no token: %s", count, ", ".join(bad))


def merges(
    metadata: Mapping[str, Any], vocabulary: Vocabulary
) -> list[str] | list[tuple[str, str]]:
    """The pairs to merge, in order, both parts and their result in the vocabulary.

    Where the split is unambiguous, the pairs are the file's own strings, with a space between the
    parts, which are in memory already.
    """
    known, texts = vocabulary.ids, _texts(metadata, "merges")
    # A part may start with a space, but not be empty.
    if all(
        (space := text.find(" ", 1)) > 0
        and (left := text[:space]) in known
        and (right := text[space + 1 :]) in known
        and left + right in known
        for text in texts
    ):
        if all(text.count(" ") == 1 for text in texts):
            return list(dict.fromkeys(texts))
        pairs = [
            (text[:space], text[space + 1 :]) for text in texts if (space := text.find(" ", 1))
        ]
        return list(dict.fromkeys(pairs))
    for i, text in enumerate(texts):
        left, _, right = text[1:].partition(" ")
        left = text[:1] + left
        if not right:
            raise FormatError(
                f"{PREFIX}merges[{i}] is {text!r}, not two tokens with a space between"
            )
        for token in (left, right, left + right):
            if token not in known:
                raise FormatError(f"{PREFIX}merges[{i}] is {text!r}; {token!r} is not a token")
    raise AssertionError("unreachable")


class Implied:
    """Counts the characters of the merges that tokens imply, which may be the square of theirs."""

    def __init__(self, where: str, tokens: Iterable[str | bytes]) -> None:
        self.where, self.most = where, _FREE + _TIMES * sum(map(len, tokens))
        self.left = self.most

    def take(self, token: str | bytes) -> None:
        """Count a merge that makes `token`; FormatError where there are too many."""
        self.left -= len(token)
        if self.left < 0:
            raise FormatError(
                f"{self.where}: the tokens can be merged from each other in so many ways that the "
                f"merges have more than {self.most} characters"
            )


def scored_merges(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """SentencePiece's merges, which the file implies: any two tokens that form a third.

    It merges the neighbours whose result has the highest score: a merge ranks by its result.
    """
    tokens, ids = vocabulary.tokens, vocabulary.ids
    scores = numbers(metadata, "scores", len(tokens))
    if not scores:
        raise FormatError(f"{PREFIX}scores: a llama vocabulary has one per token")
    if any(score != score for score in scores):
        raise FormatError(f"{PREFIX}scores has a score that is not a number")
    types = vocabulary.types or [1] * len(tokens)
    mergeable = [i for i, kind in enumerate(types) if kind not in (UNKNOWN, CONTROL, BYTE)]
    implied = Implied(f"{PREFIX}tokens", tokens)
    ranked: list[tuple[float, int, int, int, str, str]] = []
    for i in mergeable:
        token = tokens[i]
        if len(token) > _LONGEST:
            raise FormatError(f"{PREFIX}tokens[{i}] has {len(token)} characters, too many")
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                implied.take(token)
                # Equal scores are ordered by the longer left part first, as in transformers.
                ranked.append((-scores[i], i, -cut, ids[left], left, right))
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]
