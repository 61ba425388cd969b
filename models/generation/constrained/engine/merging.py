"""JSON Schemas as one: what `allOf` and keywords beside `$ref` and `anyOf` say together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rushlight.models.generation.constrained.engine.shapes import check_shapes

Schema = dict[str, Any]
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_HIGHEST = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
_LOWEST = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")


class Unsatisfiable(Exception):
    """Nothing satisfies two schemas together."""


def types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a schema allows; integers are apart from other numbers."""
    named = schema.get("type", _TYPES)
    names = {named} if isinstance(named, str) else {*named}
    unknown = sorted(str(name) for name in names - {*_TYPES})
    if unknown:
        raise ValueError(
            f"response_format: type {unknown[0]!r} is not supported; supported: {', '.join(_TYPES)}"
        )
    return frozenset(names | ({"integer"} if "number" in names else set()))


def merged(a: Any, b: Any) -> Any:
    """A schema that both schemas describe together; Unsatisfiable if there is none.

    ValueError for keywords that cannot be put together.
    """
    if a is True or b is True or a == b:
        return b if a is True else a
    if a is False or b is False:
        raise Unsatisfiable
    check_shapes(a)
    check_shapes(b)
    answer: Schema = dict(a)
    for key, value in b.items():
        if key not in a:
            answer[key] = value
        elif a[key] != value:
            answer[key] = _both(key, a[key], value, a, b)
    if "properties" in a or "properties" in b:
        answer["properties"] = _properties(a, b)
    if "additionalProperties" in a and "additionalProperties" in b:
        answer["additionalProperties"] = _optional(
            a["additionalProperties"], b["additionalProperties"]
        )
    return answer


def _optional(a: Any, b: Any) -> Any:
    """Two schemas as one; false if nothing satisfies both."""
    try:
        return merged(a, b)
    except Unsatisfiable:
        return False


def _properties(a: Schema, b: Schema) -> Schema:
    rows: Schema = {}
    mine, others = a.get("properties", {}), b.get("properties", {})
    for name in [*mine, *(name for name in others if name not in mine)]:
        rows[name] = _optional(
            mine.get(name, a.get("additionalProperties", True)),
            others.get(name, b.get("additionalProperties", True)),
        )
    return rows


def _both(key: str, first: Any, second: Any, a: Schema, b: Schema) -> Any:
    if key == "type":
        names = types_of(a) & types_of(b)
        if not names:
            raise Unsatisfiable
        return sorted(names - ({"integer"} if "number" in names else set()))
    if key in _HIGHEST:
        return max(first, second)
    if key in _LOWEST:
        return min(first, second)
    if key == "required":
        return [*first, *(name for name in second if name not in first)]
    if key in ("enum", "const"):
        return _values(key, first, second)
    if key in ("items",):
        return _optional(first, second)
    if key in ("anyOf", "oneOf", "allOf", "patterns"):
        if key == "patterns":
            return [*first, *second]
        return first  # the second one goes to "also", see `resolved`
    if key in ("properties", "additionalProperties"):
        return first  # put together by `merged`
    if key in ("title", "description", "default", "examples", "$id", "$comment", "$schema"):
        return first
    raise ValueError(
        f"response_format: two different {key!r} that must both hold are not supported"
    )


def _values(key: str, first: Any, second: Any) -> Any:
    if key == "const":
        raise Unsatisfiable  # they differ
    known = {json.dumps(value, sort_keys=True) for value in second}
    rows = [value for value in first if json.dumps(value, sort_keys=True) in known]
    if not rows:
        raise Unsatisfiable
    return rows
