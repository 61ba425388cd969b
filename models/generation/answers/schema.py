"""The tools that an answer may call, and the types that their schemas give to arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.chat.functions import schema_of_function
from rushlight.models.generation.answers.literals import literal_of

DEEPEST = 64
_OF_TYPE: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
    "string": (str,),
}
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_WORDS = {"True": True, "False": False, "None": None}


def json_of(text: str) -> Any:
    """The value of a text of JSON; None if it is not JSON, or for null."""
    try:
        value = parse_json(text.strip().encode("utf-8", "replace"), "tool call", depth=DEEPEST)
    except FormatError:
        return None
    return _characters(value) if _HALF.search(text) else value


def _characters(value: Any) -> Any:
    """A value whose texts have U+FFFD for lone surrogates, which are no characters."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_characters(item) for item in value]
    if isinstance(value, dict):
        return {_characters(key): _characters(item) for key, item in value.items()}
    return value


class Tools:
    """The names and the arguments' types of tools; any name is known if `tools` is True."""

    def __init__(self, tools: bool | Sequence[Any] | None) -> None:
        self.wanted = bool(tools)
        self.given = not isinstance(tools, bool) and bool(tools)
        self.types: dict[str, dict[str, Any]] = {}
        for tool in tools if self.given and not isinstance(tools, bool) and tools else ():
            if inspect.isroutine(tool):
                tool = schema_of_function(tool)
            inner = tool.get("function") if isinstance(tool, Mapping) else None
            row = inner if isinstance(inner, Mapping) else tool
            if isinstance(row, Mapping) and isinstance(row.get("name"), str):
                schema = row.get("parameters", row.get("input_schema"))
                fields = schema.get("properties") if isinstance(schema, Mapping) else None
                self.types[row["name"]] = dict(fields) if isinstance(fields, Mapping) else {}

    def knows(self, name: str) -> bool:
        """Whether a tool of this name was given."""
        return name in self.types

    def typed(self, name: str, arguments: Mapping[str, Any], texts: bool) -> dict[str, Any]:
        """Arguments in the types of the tool's schema.

        texts: all values are texts, as in XML: without a schema a text of JSON is its value.
        """
        types = self.types.get(name, {})
        return {
            key: _typed(value, _names(types.get(key)), texts) if isinstance(value, str) else value
            for key, value in arguments.items()
        }


def _names(schema: Any) -> set[str]:
    """The names of JSON types that a schema allows; none if it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    kinds = schema.get("type")
    names = {kinds} if isinstance(kinds, str) else set()
    if isinstance(kinds, list):
        names |= {kind for kind in kinds if isinstance(kind, str)}
    for key in ("anyOf", "oneOf", "allOf"):
        rows = schema.get(key)
        for row in rows if isinstance(rows, list) else ():
            kind = row.get("type") if isinstance(row, Mapping) else None
            names |= {kind} if isinstance(kind, str) else set()
    values = schema.get("enum")
    if not names and isinstance(values, list):
        names = {n for n, t in _OF_TYPE.items() for v in values if type(v) in t}
    return {str(kind).lower() for kind in names}


def _typed(text: str, names: set[str], texts: bool) -> Any:
    if names == {"string"} or (not names and not texts):
        return text
    value: Any = _WORDS[text.strip()] if text.strip() in _WORDS else json_of(text)
    if value is None and names & {"object", "array"}:
        value = literal_of(text)  # some models write a dict of Python
    if value is None and text.strip() not in ("null", "None"):
        return text
    if not names:
        # A text in quotes was meant as one that is not JSON.
        return text if isinstance(value, str) else value
    for name in names - {"string"}:
        fits = type(value) in _OF_TYPE.get(name, ())
        if fits or (name == "integer" and isinstance(value, float) and value.is_integer()):
            return int(value) if name == "integer" else value
    return text
