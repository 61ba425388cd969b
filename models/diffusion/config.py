"""Configurations of the parts of a diffusion model: dataclasses of config.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import checked, same

C = TypeVar("C")


def read_part(cls: type[C], values: Mapping[str, Any]) -> C:
    """A `cls` from the keys of a part's config.json; an absent key has the field's default.

    A key is a field of `cls`, begins with an underscore, or has one of the values in `cls.neutral`,
    () for any. Raises FormatError for another key, and for a value of another type or range.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    neutral = getattr(cls, "neutral", {})
    known: dict[str, Any] = {}
    for name, value in values.items():
        if name in fields:
            known[name] = checked(f"config.json: {name}", name, str(fields[name].type), value)
        elif not name.startswith("_") and (
            name not in neutral
            or (neutral[name] and not any(same(value, allowed) for allowed in neutral[name]))
        ):
            raise FormatError(
                f"config.json: {name} is {brief(value)}, which is not supported; supported keys: "
                f"{', '.join(fields)}"
            )
    return cls(**known)
