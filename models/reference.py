"""The keys of config.json that the reference implementation knows, by model_type, with defaults.

families/keys.txt holds them; tools/config_keys.py writes it from the classes of transformers.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Reference:
    """The keys of one model_type.

    keys: the fields of the class, with defaults. asked: what else its code reads by name, with the
    defaults that it states. alias: other names of keys. parts: the model_type of the configuration
    within a key. own: the family's fields are all there is. free: all keys count, as there is no
    list.
    """

    keys: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    alias: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    own: bool = False
    free: bool = False

    def knows(self, name: str) -> bool:
        """Whether the reference reads a key of this name."""
        return self.free or name in self.keys or name in self.asked

    def reads(self, name: str) -> bool:
        """Whether a key of this name counts, be it another name of one."""
        return self.knows(name) or name in self.alias

    def default(self, name: str) -> Any:
        """The value of a key that is absent; None where the code derives it."""
        return self.keys.get(name, self.asked.get(name))

    def renamed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values by the keys' own names; one under another name comes first, but for null."""
        renamed = dict(values)
        for name, key in self.alias.items():
            if (value := renamed.pop(name, None)) is not None:
                renamed[key] = value
        return renamed


# Of a model_type without a line: every key counts.
ANY = Reference(free=True)


@cache
def reference_keys(model_type: str) -> Reference | None:
    """The keys for a model_type; None where the table has no line for it.

    A line without keys is that of a family whose configurations are its own: all of its fields
    are read, and no others.
    """
    line = _lines().get(model_type)
    if line is None:
        return None
    told, general = json.loads(line), json.loads(_lines()["*"])
    if not told:
        return Reference(own=True)
    return Reference(
        general["keys"] | told["keys"],
        general["asked"] | told.get("asked", {}),
        told.get("alias", {}),
        told.get("parts", {}),
    )


@cache
def _lines() -> dict[str, str]:
    from rushlight.models import families

    text = importlib.resources.files(families).joinpath("keys.txt").read_text(encoding="utf-8")
    return dict(line.split("\t", 1) for line in text.splitlines())
