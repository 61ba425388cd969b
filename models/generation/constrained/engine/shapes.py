"""What the values of a schema's keywords must be; the first that is not is named in an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _schemas(value: Any) -> bool:
    return isinstance(value, list) and all(map(_schema, value))


def _named(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_schema, value.values()))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return _number(value) and value == int(value) and value >= 0


_SHAPES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("properties patternProperties $defs definitions", _named, "an object of schemas"),
    ("prefixItems", _schemas, "a list of schemas"),
    ("anyOf allOf oneOf", lambda v: _schemas(v) and bool(v), "a list of at least one schema"),
    ("items", lambda v: _schema(v) or _schemas(v), "a schema"),
    ("additionalProperties additionalItems", _schema, "a schema"),
    ("required", _texts, "a list of names"),
    ("enum", lambda v: isinstance(v, list), "a list of values"),
    ("pattern format $ref", _text, "a text"),
    (
        "minItems maxItems minLength maxLength minProperties maxProperties",
        _count,
        "a whole number that is not negative",
    ),
    ("minimum maximum exclusiveMinimum exclusiveMaximum", _number, "a number"),
    ("type", lambda v: _text(v) or (_texts(v) and bool(v)), "a name or a list of names"),
)
SHAPES = {key: (fits, words) for keys, fits, words in _SHAPES for key in keys.split()}


def check_shapes(schema: dict[str, Any]) -> None:
    """Raise ValueError for a keyword of a schema whose value is of another type than it must be."""
    for key, value in schema.items():
        if key in SHAPES and not SHAPES[key][0](value):
            shown = repr(value)
            shown = shown if len(shown) < 60 else shown[:57] + "..."
            raise ValueError(
                f"response_format: {key!r} of the schema is {shown}; it must be {SHAPES[key][1]}"
            )
