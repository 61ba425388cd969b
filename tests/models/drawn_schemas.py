"""JSON Schemas drawn at random with the features that published ones have, by a seed."""

from __future__ import annotations

import random
from typing import Any

NAMES = ("id", "name", "größe", "tags", "is_ok", "a b", 'q"', "x.y", "items", "type", "$n", "z")
PATTERNS = (
    "^[A-Z]{2}[0-9]{3}$",
    "^(red|green|blue)$",
    "[0-9]+",
    "^\\d{4}-\\d{2}$",
    "^\\S+@\\S+$",
    "^[^\\s]{1,12}$",
    '^["a-c]+$',
)
FORMATS = ("date", "time", "date-time", "email", "uuid", "ipv4", "hostname", "uri", "duration")


def drawn(seed: int) -> dict[str, Any]:
    """A schema; definitions refer to each other and to themselves."""
    draw = random.Random(seed)
    schema = _schema(draw, 0)
    if seed % 3 == 0:
        tree = {
            "type": "object",
            "properties": {
                "value": _leaf(draw),
                "left": {"$ref": "#/$defs/tree"},
                "more": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
        schema = {
            "type": "object",
            "properties": {"top": schema, "tree": {"$ref": "#/$defs/tree"}},
            "required": draw.choice(([], ["top"], ["tree", "top"])),
            "$defs": {"tree": tree},
            "additionalProperties": draw.choice((False, False, True)),
        }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "t", **schema}


def _schema(draw: random.Random, depth: int) -> dict[str, Any]:
    if depth > 3 or draw.random() < 0.3:
        return _leaf(draw)
    kind = draw.choice(("object", "object", "object", "array", "array", "anyOf", "oneOf", "allOf"))
    if kind == "object":
        return _object(draw, depth)
    if kind == "array":
        return _array(draw, depth)
    if kind == "anyOf":
        return {"anyOf": [_schema(draw, depth + 1) for _ in range(draw.randint(1, 3))]}
    if kind == "oneOf":
        if draw.random() < 0.5:
            parts: list[Any] = [{"type": "integer"}, {"type": "null"}, {"type": "string"}]
            return {"oneOf": draw.sample(parts, 2)}
        rows = []
        for name in ("circle", "square"):
            inner = _object(draw, depth + 2)
            inner["properties"] = {"kind": {"const": name}, **inner["properties"]}
            inner["required"] = ["kind", *inner.get("required", [])]
            rows.append(inner)
        return {"oneOf": rows}
    first, second = _object(draw, depth + 2), _object(draw, depth + 2)
    for part in (first, second):
        part.pop("additionalProperties", None)
    common = second["properties"].keys() & first["properties"].keys()
    second["properties"] = {k: v for k, v in second["properties"].items() if k not in common}
    second["required"] = [n for n in second["required"] if n in second["properties"]]
    return {"allOf": [first, second]}


def _object(draw: random.Random, depth: int) -> dict[str, Any]:
    names = draw.sample(NAMES, draw.randint(0, 5))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _schema(draw, depth + 1) for name in names},
        "required": [name for name in names if draw.random() < 0.5],
    }
    chance = draw.random()
    if chance < 0.5:
        schema["additionalProperties"] = False
    elif chance < 0.65:
        schema["additionalProperties"] = _leaf(draw)
    return schema


def _array(draw: random.Random, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(draw, depth + 1)}
    if draw.random() < 0.5:
        schema["minItems"] = draw.randint(0, 2)
    if draw.random() < 0.5:
        schema["maxItems"] = draw.randint(2, 4)
    if draw.random() < 0.25:
        schema["prefixItems"] = [_leaf(draw) for _ in range(draw.randint(1, 2))]
        if draw.random() < 0.5:
            schema["items"] = False
            schema.pop("maxItems", None)
            schema["minItems"] = len(schema["prefixItems"])
    return schema


def _leaf(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(
        ("string", "short", "pattern", "format", "enum", "const", "integer", "number")
        + ("bounds", "bounds", "types", "boolean")
    )
    if kind == "short":
        least = draw.randint(0, 3)
        return {"type": "string", "minLength": least, "maxLength": least + draw.randint(0, 6)}
    if kind == "pattern":
        return {"type": "string", "pattern": draw.choice(PATTERNS)}
    if kind == "format":
        return {"type": "string", "format": draw.choice(FORMATS)}
    if kind == "enum":
        return {"enum": draw.sample(["a", "b\n", "c d", 1, 2.5, None, True, "é"], 3)}
    if kind == "const":
        return {"const": draw.choice(["fixed", 7, None, [1, "x"], {"k": [True]}])}
    if kind == "bounds":
        low = draw.choice((-20, -1, 0, 3, 0.25, -7.5))
        whole = draw.random() < 0.5
        schema: dict[str, Any] = {"type": "integer" if whole else "number"}
        schema[draw.choice(("minimum", "exclusiveMinimum"))] = low
        if draw.random() < 0.6:
            key = draw.choice(("maximum", "exclusiveMaximum"))
            schema[key] = low + draw.choice((2, 5, 1000, 99.5))
        return schema
    if kind == "types":
        return {"type": draw.sample(["string", "integer", "null", "boolean"], 2)}
    return {"type": kind}


_JUNK: tuple[Any, ...] = (
    3,
    -1,
    "x",
    None,
    True,
    [],
    {},
    [3],
    {"a": 3},
    "#/$defs/x",
    [[]],
    0.5,
    "(",
    10**30,
)
_KEYWORDS = (
    "properties required items prefixItems enum const minItems maxItems minLength maxLength "
    "pattern minimum maximum exclusiveMinimum anyOf allOf oneOf $ref $defs additionalProperties "
    "type format minProperties maxProperties patternProperties"
).split()


def damaged(seed: int) -> dict[str, Any]:
    """A drawn schema in which a keyword has a value that need not be one of its own."""
    draw = random.Random(seed)
    schema = drawn(seed % 50)
    nodes: list[dict[str, Any]] = []
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            nodes.append(value)
        waiting += value.values() if isinstance(value, dict) else value
        waiting = [row for row in waiting if isinstance(row, dict | list)]
    draw.choice(nodes)[draw.choice(_KEYWORDS)] = draw.choice(_JUNK)
    return schema
