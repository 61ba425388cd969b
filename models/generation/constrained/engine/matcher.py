"""The matcher of our own engine, and the grammars of forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from rushlight.models.generation.constrained import forms
from rushlight.models.generation.constrained.engine.grammar import (
    END,
    Choice,
    Grammar,
    Leaf,
    Node,
    Threads,
)
from rushlight.models.generation.constrained.engine.regex import regex, texts
from rushlight.models.generation.constrained.engine.schema import schema_node
from rushlight.models.generation.constrained.engine.trie import Trie
from rushlight.models.generation.constrained.vocabulary import Vocabulary

Array = npt.NDArray[Any]


def trie_of(vocabulary: Vocabulary) -> Trie:
    """The trie of a vocabulary, made once; special tokens are bytes that no text has."""
    trie: Trie | None = vocabulary.engines.get("trie")
    if trie is None:
        tokens = list(vocabulary.tokens)
        for text, id in vocabulary.special.items():
            tokens[id] = special_bytes(text)
        trie = vocabulary.engines["trie"] = Trie(tokens)
        vocabulary.engines["spelled"] = tokens
    return trie


def special_bytes(text: str) -> bytes:
    """What stands for a special token in the trie."""
    return b"\xff" + text.encode() + b"\xff"


class OwnMatcher:
    """What of a form was said, and which tokens may follow.

    ValueError for what the engine does not support, by its name, and for a form that nothing
    satisfies.
    """

    def __init__(self, form: forms.Form, vocabulary: Vocabulary) -> None:
        trie = trie_of(vocabulary)
        self._tokens: list[bytes] = vocabulary.engines["spelled"]
        self._grammar = Grammar(node_of(form, vocabulary), trie)
        self._threads: Threads = self._grammar.start

    def copy(self) -> OwnMatcher:
        """Another matcher with the same past."""
        other = object.__new__(OwnMatcher)
        other._tokens, other._grammar, other._threads = self._tokens, self._grammar, self._threads
        return other

    @property
    def complete(self) -> bool:
        """Whether the answer may end here."""
        return END in self._threads

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return self._threads == {END}

    def allowed(self) -> Array:
        """Which tokens may follow, a boolean for each."""
        return self._grammar.allowed(self._threads)

    def accept(self, token: int) -> None:
        """Go on after a token; ValueError for one that may not follow."""
        threads = self._threads
        for byte in self._tokens[token]:
            threads = self._grammar.step(threads, byte)
        if not threads or not self._tokens[token]:
            raise ValueError(f"response_format: token {token} may not follow")
        self._threads = threads


def node_of(form: forms.Form, vocabulary: Vocabulary) -> Node:
    """The grammar of a form; ValueError for what the engine does not support."""
    match form:
        case forms.Text(text):
            return Leaf(texts([text.encode()]))
        case forms.Mark(text):
            known = text in vocabulary.special
            return Leaf(texts([special_bytes(text) if known else text.encode()]))
        case forms.Json(schema):
            return schema_node(schema)
        case forms.Pattern(pattern):
            return Leaf(regex(pattern))
        case forms.Joined(rows):
            return Choice([[node_of(row, vocabulary) for row in rows]])
        case forms.Either(rows):
            return _either(rows, vocabulary)
        case forms.Several(inner, between):
            first, middle = node_of(inner, vocabulary), node_of(between, vocabulary)
            more = Choice()
            more.rows = [[], [middle, first, more]]
            return Choice([[first, more]])
        case forms.Grammar(source, syntax):
            if syntax == "gbnf":
                from rushlight.models.generation.constrained.engine.gbnf import gbnf_node

                return gbnf_node(source)
            raise ValueError(
                "response_format: grammars in Lark's syntax need llguidance (pip install "
                '"rushlight[structured]"); without it give a schema, a regex, choices or GBNF'
            )
    raise ValueError(f"response_format: {type(form).__name__} is not supported")


def _either(rows: Sequence[forms.Form], vocabulary: Vocabulary) -> Node:
    words = [row.text.encode() for row in rows if isinstance(row, forms.Text)]
    if len(words) == len(rows):
        return Leaf(texts(words))
    return Choice([[node_of(row, vocabulary)] for row in rows])
