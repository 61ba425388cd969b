"""What callers ask for: `response_format` in the spellings of OpenAI, vLLM and llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.models.generation.constrained.forms import (
    Either,
    Form,
    Grammar,
    Json,
    Pattern,
    Text,
    is_form,
)

TYPES = ("text", "json_object", "json_schema", "regex", "choice", "grammar")
SYNTAXES = ("lark", "gbnf")
# Bytes of a schema, a pattern or a grammar, and choices.
LONGEST, MOST_CHOICES = 1 << 20, 10_000
# Levels of a schema.
DEEPEST = 64
# Keywords of which an object without "type" is a schema.
_SCHEMA = frozenset("$ref $defs anyOf allOf oneOf enum const properties items".split())
_FIELDS = {
    "text": (),
    "json_object": (),
    "json_schema": ("json_schema", "schema"),
    "regex": ("pattern", "regex"),
    "choice": ("choices", "choice"),
    "grammar": ("grammar", "syntax"),
}


def form_of(asked: Any) -> Form | None:
    """The form that `response_format` asks for; None for a text of any form.

    asked: {"type": "json_object"}; {"type": "json_schema", "json_schema": {"schema": ...}}, or with
    "schema" beside the type; a JSON Schema itself; {"type": "regex", "pattern": ...}; {"type":
    "choice", "choices": [...]}; {"type": "grammar", "grammar": ..., "syntax": "lark" or "gbnf"}; a
    class of pydantic; or a form. ValueError or TypeError that says what is wrong.
    """
    if asked is None or is_form(asked):
        return asked  # type: ignore[no-any-return]
    schema_of = getattr(asked, "model_json_schema", None)
    if callable(schema_of):  # a class of pydantic
        asked = {"type": "json_schema", "schema": schema_of()}
    if not isinstance(asked, Mapping):
        raise TypeError(
            f"response_format is {type(asked).__name__}; it must be an object, such as "
            '{"type": "json_object"}, a JSON Schema, or a class of pydantic'
        )
    kind = asked.get("type")
    if kind not in TYPES:
        if _SCHEMA & {*asked} or kind in _JSON_TYPES or isinstance(kind, list):
            return Json(_checked(asked))
        raise ValueError(
            f"response_format: type {kind!r} is not supported; supported: {', '.join(TYPES)}, or a "
            "JSON Schema"
        )
    if kind != "json_schema" or "json_schema" in asked:
        # A schema may say more than OpenAI's fields where it stands beside the type.
        more = sorted({*asked} - {"type", *_FIELDS[kind]})
        if more:
            raise ValueError(f"response_format: {more[0]!r} is no field of type {kind!r}")
    match kind:
        case "text":
            return None
        case "json_object":
            return Json({"type": "object"})
        case "json_schema":
            named = asked.get("json_schema", asked)
            if not isinstance(named, Mapping) or "schema" not in named:
                raise ValueError(
                    "response_format: json_schema has no schema; give "
                    '{"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}'
                )
            return Json(_checked(named["schema"]))
        case "regex":
            return Pattern(_text(asked, "regex", "pattern", "regex"))
        case "choice":
            return _choices(asked.get("choices", asked.get("choice")))
    syntax = asked.get("syntax")
    source = _text(asked, "grammar", "grammar")
    if syntax is None:
        syntax = "gbnf" if "::=" in source else "lark"
    if syntax not in SYNTAXES:
        raise ValueError(
            f"response_format: syntax {syntax!r} is not supported; supported: lark, gbnf"
        )
    return Grammar(source, syntax)


_JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def _text(asked: Mapping[str, Any], kind: str, *names: str) -> str:
    value = next((asked[name] for name in names if name in asked), None)
    if not isinstance(value, str) or not value:
        raise ValueError(f"response_format: type {kind!r} needs {names[0]!r}, a text")
    if len(value) > LONGEST:
        raise ValueError(
            f"response_format: the {names[0]} has {len(value)} characters; at most {LONGEST}"
        )
    return value


def _choices(rows: Any) -> Form:
    texts = isinstance(rows, Sequence) and not isinstance(rows, str)
    if not texts or not rows or not all(isinstance(row, str) and row for row in rows):
        raise ValueError(
            "response_format: type 'choice' needs 'choices', a list of texts that are not empty"
        )
    if len(rows) > MOST_CHOICES:
        raise ValueError(f"response_format: there are {len(rows)} choices; at most {MOST_CHOICES}")
    return Either(tuple(Text(row) for row in dict.fromkeys(rows)))


def _checked(schema: Any) -> Any:
    """A schema that is JSON, of a bounded size and depth."""
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"response_format: the schema is not JSON: {error}") from None
    if not isinstance(schema, Mapping | bool):
        raise TypeError(
            f"response_format: the schema is {type(schema).__name__}; it must be an object"
        )
    waiting = [(schema, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"response_format: the schema has more than {DEEPEST} levels")
        if isinstance(value, Mapping | list | tuple):
            inner = list(value.values()) if isinstance(value, Mapping) else value
            waiting += [(row, depth + 1) for row in inner]
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"response_format: the schema is not JSON: {error}") from None
    if size > LONGEST:
        raise ValueError(f"response_format: the schema has {size} bytes; at most {LONGEST}")
    if schema is False:
        raise ValueError("response_format: the schema is false, which nothing satisfies")
    return json.loads(json.dumps(schema))
