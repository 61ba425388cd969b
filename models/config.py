"""Configurations: dataclasses whose fields are the keys of Hugging Face's config.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from rushlight.core.errors import FormatError
from rushlight.core.jsontext import parse_json

C = TypeVar("C")

# Above any published model: a number beyond these is a damaged file, and would only cost time.
LARGEST = {"num_hidden_layers": 1024}
LARGEST_SIZE = 1 << 28
DEEPEST = 16


def parse_object(name: str, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`; FormatError naming the file where there is something else."""
    value = parse_json(data, name, depth=DEEPEST)
    if not isinstance(value, dict):
        raise FormatError(f"{name} holds a {type(value).__name__}, not an object")
    return value


def read_config(cls: type[C], values: Mapping[str, Any]) -> C:
    """A `cls` from the keys of config.json that it has; others are left alone.

    Raises FormatError where a key is missing, of another type, or out of range.
    """
    known: dict[str, Any] = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in values:
            known[field.name] = _checked(field.name, str(field.type), values[field.name])
        elif field.default is dataclasses.MISSING:
            raise FormatError(f"config.json has no {field.name!r}")
    return cls(**known)


def _checked(name: str, kind: str, value: Any) -> Any:
    wanted: dict[str, tuple[type, ...]]
    wanted = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
    if value is None and "None" in kind:
        return value
    accepted = wanted.get(kind.partition(" ")[0])
    if accepted is not None:
        if not isinstance(value, accepted) or (kind != "bool" and isinstance(value, bool)):
            raise FormatError(f"config.json: {name} is {value!r}; it must be of type {kind}")
        if isinstance(value, int) and not 0 <= value <= LARGEST.get(name, LARGEST_SIZE):
            raise FormatError(f"config.json: {name} is {value}, out of range")
    return value
