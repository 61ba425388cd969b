"""Functions as tools: the JSON Schema of a Python function, from its type hints and docstring.

The schemas are those of transformers 5.24 (`get_json_schema`).
"""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_TYPES: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
    list: "array",
    tuple: "array",
    dict: "object",
}
_SCALARS = (int, float, str, bool, type(None))
_SECTION = re.compile(r"^[ \t]*(Args|Returns|Raises):[ \t]*$", re.M)
_ARGUMENT = re.compile(r"([ \t]*)(\w+)(?:[ \t]*\([^()\n]*\))?:[ \t]*(.*)")
_CHOICES = re.compile(r"\(choices:\s*(\[[^\]]*\])\s*\)\s*\Z", re.I)


def schema_of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a function that a model may call, in the form of OpenAI's interface.

    The function has a docstring in Google's style, which describes each argument, and a type hint
    for each. Raises ValueError that names what is missing.
    """
    name = getattr(function, "__name__", "operation")
    text = inspect.getdoc(function)
    if not text:
        raise ValueError(f"tools: the function {name} has no docstring; describe it and its Args")
    said, about, returns = _sections(text.strip())
    hints = get_type_hints(function)
    properties: dict[str, Any] = {}
    required = []
    for i, (key, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if i == 0 and key in ("self", "cls") and key not in hints:
            continue
        if key not in hints:
            raise ValueError(f"tools: the argument {key} of {name} has no type hint")
        if key not in about:
            raise ValueError(f"tools: the docstring of {name} does not describe its argument {key}")
        schema, words = _schema(hints[key], f"{key} of {name}"), about[key]
        if (choices := _CHOICES.search(words)) is not None:
            values = json.loads(choices[1])
            schema["enum"] = [v.strip() if isinstance(v, str) else v for v in values]
            words = words[: choices.start()].strip()
        properties[key] = {**schema, "description": words}
        if parameter.default is inspect.Parameter.empty:
            required.append(key)
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    row: dict[str, Any] = {"name": name, "description": said, "parameters": parameters}
    if "return" in hints:
        try:
            row["return"] = _schema(hints["return"], f"what {name} returns")
        except ValueError:
            return {"type": "function", "function": row}  # the model does not write it
        if returns is not None:
            row["return"]["description"] = returns
    return {"type": "function", "function": row}


def _sections(text: str) -> tuple[str, dict[str, str], str | None]:
    """The description, those of the arguments, and that of the result, of a docstring."""
    marks = list(_SECTION.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)]
    bodies = {mark[1]: text[mark.end() : end] for mark, end in zip(marks, ends[1:], strict=True)}
    about: dict[str, str] = {}
    key, indent = "", -1
    for line in filter(str.strip, bodies.get("Args", "").split("\n")):
        match = _ARGUMENT.match(line)
        if match is not None and (indent < 0 or len(match[1]) <= indent):
            key, indent = match[2], len(match[1])
            about[key] = match[3].strip()
        elif key:
            about[key] = f"{about[key]} {line.strip()}".strip()
    returns = bodies.get("Returns")
    return text[: ends[0]].strip(), about, None if returns is None else returns.strip()


def _schema(hint: Any, what: str) -> dict[str, Any]:
    """The JSON Schema of a type hint."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is None and hint in _TYPES:
        return {"type": _TYPES[hint]}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _values([member.value for member in hint], what)
    if origin is Literal:
        return _values(list(args), what)
    if origin in (Union, types.UnionType):
        return _union([_schema(a, what) for a in args if a is not type(None)], type(None) in args)
    if origin is list:
        return {"type": "array", "items": _schema(args[0], what)}
    if origin is tuple and len(args) > 1 and ... not in args:
        return {"type": "array", "prefixItems": [_schema(a, what) for a in args]}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(args[1], what)}
    raise ValueError(
        f"tools: the type hint {hint} of {what} is not supported; supported: int, float, str, "
        "bool, Enum, Literal, and list, tuple, dict and Union of these; or give a JSON Schema"
    )


def _values(values: list[Any], what: str) -> dict[str, Any]:
    if not values or any(type(value) not in _SCALARS for value in values):
        raise ValueError(f"tools: the values {values} of {what} are not all numbers and texts")
    kinds = list(dict.fromkeys(_TYPES[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _union(schemas: list[dict[str, Any]], nullable: bool) -> dict[str, Any]:
    plain = all(row.keys() == {"type"} and isinstance(row["type"], str) for row in schemas)
    if len(schemas) == 1:
        schema = schemas[0]
    elif plain:
        kinds = sorted({row["type"] for row in schemas})
        schema = {"type": kinds[0] if len(kinds) == 1 else kinds}
    else:
        schema = {"anyOf": schemas}
    return {**schema, "nullable": True} if nullable else schema
