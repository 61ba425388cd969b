"""Kinds: the types of inputs and options, with their form in JSON, TypeScript and a shell."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.models.audio.inputs import is_audio
from rushlight.models.generation.constrained.forms import is_form
from rushlight.models.image.files import are_images, is_image


@dataclass(frozen=True)
class Kind:
    """A type of options and inputs, with its form in other languages."""

    words: str
    fits: Callable[[Any], bool]
    schema: Mapping[str, Any]  # JSON Schema
    script: str  # TypeScript
    flag: Any = None  # the type of the command line's flag; None: no flag
    received: Callable[[Any], Any] = lambda value: value  # a page's value -> Python's value
    fields: tuple[str, ...] = ()  # of an object of texts: a flag each
    parsed: Callable[[Any], Any] | None = None  # what the flag holds -> Python's value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, Collection) and all(map(_is_text, value)))


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_prompt(value: Any) -> bool:
    return _is_text(value) or _are_ints(value)


def _are_questions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return set(value) == set(_QUESTION) and all(map(_is_text, value.values()))
    return (
        not _is_text(value)
        and isinstance(value, Collection)
        and all(isinstance(question, Mapping) and _are_questions(question) for question in value)
    )


def _are_tables(value: Any) -> bool:
    """Whether a value is {"table", "query"} or a list of them."""
    if isinstance(value, Mapping):
        return (
            set(value) == set(_TABLE) and _is_table(value["table"]) and _are_texts(value["query"])
        )
    return isinstance(value, list | tuple) and all(
        isinstance(one, Mapping) and _are_tables(one) for one in value
    )


def _is_table(value: Any) -> bool:
    """Whether a value is columns of texts by name, or rows that are objects of texts."""
    if isinstance(value, Mapping):
        return all(
            _is_text(name) and not _is_text(cells) and _are_texts(cells)
            for name, cells in value.items()
        )
    return isinstance(value, list | tuple) and all(
        isinstance(row, Mapping) and all(map(_is_text, (*row, *row.values()))) for row in value
    )


def _are_ints(value: Any) -> bool:
    return not _is_text(value) and isinstance(value, Collection) and all(map(_is_int, value))


def _are_lists(value: Any) -> bool:
    return not _is_text(value) and isinstance(value, Collection) and all(map(_are_ints, value))


def _are_spans(value: Any) -> bool:
    def fits(one: Any) -> bool:
        if isinstance(one, Mapping):
            return (
                {"start", "end"} <= {*one} and _is_number(one["start"]) and _is_number(one["end"])
            )
        pair = not _is_text(one) and isinstance(one, Collection) and len(one) == 2
        return pair and all(map(_is_number, one))

    return not _is_text(value) and isinstance(value, Collection) and all(map(fits, value))


def _are_numbers(value: Any) -> bool:
    """Whether a value is numbers in lists, which may lie in lists of at most two levels."""

    def fits(one: Any, deep: int) -> bool:
        if _is_number(one):
            return True
        nested = isinstance(one, Collection) and not isinstance(one, str | bytes | Mapping)
        return nested and deep > 0 and all(fits(inner, deep - 1) for inner in one)

    return not _is_number(value) and fits(value, 3)


def _is_vector(value: Any) -> bool:
    """Whether a value is numbers, also in an array or a tensor, or a name or file of them."""
    return isinstance(value, str | Path) or hasattr(value, "__array__") or _are_numbers(value)


def _is_series(value: Any) -> bool:
    """Whether a value is numbers, some of them None, or such a list for each time."""

    def fits(one: Any, deep: int) -> bool:
        if one is None or _is_number(one):
            return True
        nested = isinstance(one, Collection) and not isinstance(one, str | bytes | Mapping)
        return nested and deep > 0 and all(fits(inner, deep - 1) for inner in one)

    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    return value is not None and not _is_number(value) and fits(value, 2)


def _are_messages(value: Any) -> bool:
    return isinstance(value, Collection) and all(isinstance(m, Mapping) for m in value)


def _are_tools(value: Any) -> bool:
    return isinstance(value, Collection) and all(
        isinstance(tool, Mapping) or inspect.isroutine(tool) for tool in value
    )


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _is_format(value: Any) -> bool:
    """Whether a value may say the form of an answer: an object, a class of pydantic, or a form."""
    return isinstance(value, Mapping) or hasattr(value, "model_json_schema") or is_form(value)


def _choice_of(text: str) -> Any:
    """The choice of a tool: one of the words, or the name of a function."""
    if text in ("auto", "none", "required"):
        return text
    return {"type": "function", "function": {"name": text}}


def json_of(text: str) -> Any:
    """The value of a text of JSON, or of the file of JSON that it names."""
    try:
        return json.loads(text)
    except ValueError:
        path = Path(text)
        if not path.is_file():
            raise ValueError(f"{text!r} is neither JSON nor a file of JSON") from None
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def _variables_of(texts: Collection[str]) -> dict[str, Any]:
    """The variables of texts, each NAME=VALUE, with a value in JSON or a text, or an object."""
    variables: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if text.lstrip().startswith("{"):
            values = json_of(text)
            variables |= values if isinstance(values, dict) else {}
        elif not sign or not name.isidentifier():
            raise ValueError(f"{text!r} is neither NAME=VALUE nor an object of JSON")
        else:
            try:
                variables[name] = json.loads(value)
            except ValueError:
                variables[name] = value
    return variables


_QUESTION, _TABLE = ("question", "context"), ("table", "query")
_STRING = {"type": "string"}
_STRINGS = {"anyOf": [_STRING, {"type": "array", "items": _STRING}]}
_PROMPT = {"anyOf": [_STRING, {"type": "array", "items": {"type": "integer"}}]}
_NUMBERS = {"type": "object", "additionalProperties": {"type": "number"}}
_ASKED = {
    "type": "object",
    "properties": dict.fromkeys(_QUESTION, _STRING),
    "required": [*_QUESTION],
}
_CELLS = {
    "anyOf": [
        {"type": "object", "additionalProperties": {"type": "array", "items": _STRING}},
        {"type": "array", "items": {"type": "object", "additionalProperties": _STRING}},
    ]
}
_OF_TABLE = {
    "type": "object",
    "properties": {"table": _CELLS, "query": _STRINGS},
    "required": [*_TABLE],
}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_FLAG = {"anyOf": [{"type": "boolean"}, _STRING]}

KINDS: dict[str, Kind] = {
    "bool": Kind(
        "true or false", lambda v: isinstance(v, bool), {"type": "boolean"}, "boolean", bool
    ),
    "int": Kind("a whole number", _is_int, {"type": "integer"}, "number", int),
    "float": Kind("a number", _is_number, {"type": "number"}, "number", float),
    "text": Kind("a text", _is_text, _STRING, "string", str),
    "texts": Kind(
        "a text or a list of texts", _are_texts, _STRINGS, "string | string[]", list[str]
    ),
    "prompt": Kind("a text or a list of token ids", _is_prompt, _PROMPT, "string | number[]", str),
    "questions": Kind(
        'an object of the texts "question" and "context", or a list of them',
        _are_questions,
        {"anyOf": [_ASKED, {"type": "array", "items": _ASKED}]},
        "Question | Question[]",
        fields=_QUESTION,
    ),
    "tables": Kind(
        'an object of a "table" (columns of texts by name, or objects of texts) and a "query", or '
        "a list of them",
        _are_tables,
        {"anyOf": [_OF_TABLE, {"type": "array", "items": _OF_TABLE}]},
        "TableQuestion | TableQuestion[]",
        fields=_TABLE,
        parsed=lambda given: {**given, "table": json_of(given["table"])},
    ),
    "ids": Kind(
        "a list of token ids",
        _are_ints,
        {"type": "array", "items": {"type": "integer"}},
        "number[]",
        list[int],
    ),
    "tokens": Kind(
        "a token id or a list of them",
        lambda v: _is_int(v) or _are_ints(v),
        {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
        "number | number[]",
        list[int],
    ),
    "token_lists": Kind(
        "a list of lists of token ids",
        _are_lists,
        {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "number[][]",
    ),
    "spans": Kind(
        "a list of [start, end] or {start, end}",
        _are_spans,
        {"type": "array"},
        "[number, number][] | { start: number, end: number }[]",
    ),
    "numbers": Kind(
        "numbers in lists", _are_numbers, {"type": "array"}, "(number | number[] | number[][])[]"
    ),
    "series": Kind(
        "numbers, or a list of numbers for each time",
        _is_series,
        {"type": "array"},
        "(number | null)[] | (number | null)[][]",
        str,
        parsed=json_of,
    ),
    "vector": Kind(
        "numbers, a name, or a file of numbers",
        _is_vector,
        {"anyOf": [_STRING, {"type": "array"}]},
        "string | Float32Array | number[]",
        str,
        received=lambda v: np.asarray(v) if isinstance(v, memoryview) else v,
    ),
    "messages": Kind("a list of messages", _are_messages, _OBJECTS, "ChatMessage[]"),
    "asked": Kind(
        "a text or a list of messages",
        lambda v: _is_text(v) or _are_messages(v),
        {"anyOf": [_STRING, _OBJECTS]},
        "string | ChatMessage[]",
        str,
    ),
    "tools": Kind(
        "a list of JSON Schemas of functions, or of functions",
        _are_tools,
        _OBJECTS,
        "Tool[]",
        str,
        parsed=json_of,
    ),
    "format": Kind(
        'an object such as {"type": "json_object"}, or a JSON Schema',
        _is_format,
        {"type": "object"},
        "ResponseFormat",
    ),
    "choice": Kind(
        "a text or an object",
        lambda v: _is_text(v) or isinstance(v, Mapping),
        {"anyOf": [_STRING, {"type": "object"}]},
        "ToolChoice",
        str,
        parsed=_choice_of,
    ),
    "documents": Kind(
        "a list of objects",
        _are_messages,
        _OBJECTS,
        "Record<string, unknown>[]",
        str,
        parsed=json_of,
    ),
    "variables": Kind(
        "an object",
        _is_object,
        {"type": "object"},
        "Record<string, unknown>",
        list[str],
        parsed=_variables_of,
    ),
    "continued": Kind(
        "true, false, or a key of the message",
        lambda v: isinstance(v, bool | str),
        _FLAG,
        "boolean | string",
        bool,
    ),
    "biases": Kind(
        "numbers by token",
        lambda v: isinstance(v, Mapping),
        _NUMBERS,
        "Record<number, number>",
        received=lambda v: {int(token): bias for token, bias in v.items()},  # keys arrive as texts
    ),
    "audio": Kind(
        "a file, its bytes, samples, or {samples, rate}",
        is_audio,
        {"type": "object"},
        "Float32Array | { samples: Float32Array, rate: number }",
        str,
    ),
    "recordings": Kind(
        "a list of recordings: files, their bytes, samples, or {samples, rate}",
        lambda v: isinstance(v, list | tuple) and all(is_audio(x) for x in v),
        {"type": "array", "items": {"type": "object"}},
        "(Float32Array | { samples: Float32Array, rate: number })[]",
        list[str],
    ),
    "images": Kind(
        "an image or a list of images: files, their bytes, pixels",
        are_images,
        {"type": "object"},
        "ImageData | ImageData[]",
        list[str],
    ),
    "image": Kind(
        "an image: a file, its bytes, pixels",
        is_image,
        {"type": "object"},
        "ImageData",
        str,
    ),
    "mask": Kind(
        "a boolean for each token",
        lambda v: not _is_text(v),
        {"type": "array", "items": {"type": "boolean"}},
        "boolean[] | Uint8Array",
        # JavaScript packs booleans as bytes.
        received=lambda v: np.asarray(v) != 0 if isinstance(v, memoryview) else v,
    ),
}
