"""Forms: what an answer may be, as texts, schemas, patterns and grammars put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Text:
    """This text."""

    text: str


@dataclass(frozen=True)
class Mark:
    """A text that is a token of the vocabulary if the vocabulary has it, else its letters."""

    text: str


@dataclass(frozen=True)
class Json:
    """JSON that a JSON Schema describes."""

    schema: Any


@dataclass(frozen=True)
class Pattern:
    """A text that a regular expression matches from its beginning to its end."""

    pattern: str


@dataclass(frozen=True)
class Grammar:
    """A text that a context-free grammar describes; syntax: "lark" or "gbnf"."""

    source: str
    syntax: str


@dataclass(frozen=True)
class Joined:
    """Forms one after the other."""

    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Either:
    """One of several forms."""

    forms: tuple[Form, ...]


@dataclass(frozen=True)
class Several:
    """A form, once or several times, with another between."""

    form: Form
    between: Form


Form = Text | Mark | Json | Pattern | Grammar | Joined | Either | Several


def is_form(value: object) -> bool:
    """Whether a value is a form."""
    return isinstance(value, Form)
