"""Configurations of diffusers' parts: dataclasses whose fields are the keys of config.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import checked, same

C = TypeVar("C")


def read_part(cls: type[C], values: Mapping[str, Any]) -> C:
    """A `cls` from a part's config.json; keys that begin with _ are diffusers' own.

    A key is a field of `cls`, or in `cls.neutral` with the values that change nothing, () for any.
    FormatError for another key, another value, or one of another type, by name.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    neutral = getattr(cls, "neutral", {})
    known: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith("_"):
            continue
        if name in fields:
            value = tuple(value) if isinstance(value, list) else value
            known[name] = checked(f"config.json: {name}", name, str(fields[name].type), value)
        elif name not in neutral:
            raise FormatError(
                f"config.json: {name} is {brief(value)}, a key that is not supported; "
                f"{cls.__name__} reads {', '.join(fields)}"
            )
        elif neutral[name] and not any(same(value, fine) for fine in neutral[name]):
            raise FormatError(
                f"config.json: {name} {brief(value)} is not supported; supported: "
                f"{', '.join(map(str, neutral[name]))}"
            )
    return cls(**known)


def each(name: str, value: Any, count: int) -> list[Any]:
    """`count` values of a key: a list of them, or one for all; FormatError for another length."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise FormatError(f"config.json: {name} is {brief(value)}; it must have {count} values")
    return list(value)


def known(name: str, value: Any, supported: tuple[Any, ...]) -> None:
    """Raise FormatError if a key's value is none of the supported ones."""
    if value not in supported:
        raise FormatError(
            f"config.json: {name} {brief(value)} is not supported; supported: "
            f"{', '.join(map(str, supported))}"
        )
