"""Modules that a pickle holds: their tensors are read, and nothing of them is made or run."""

from __future__ import annotations

import re
from typing import Any

from rushlight.core.basis.errors import brief
from rushlight.core.io.weights.pickles.unpickle import Maker

# Classes whose objects are read as what they hold, and never made: modules, and what Ultralytics'
# checkpoints have beside them.
_CLASSES = re.compile(r"(torch\.nn\.modules|ultralytics)(\.\w+)+")


class ModuleRecord:
    """A module of a pickle: its parameters, buffers and modules by name. Other attributes are left
    out.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}

    def with_state(self, state: Any) -> ModuleRecord:
        if type(state) is not dict:
            raise ValueError(f"a module with the state {brief(state)}")
        for kind in ("_parameters", "_buffers", "_modules"):
            held = state.get(kind)
            if type(held) is dict:
                self.parts |= {k: v for k, v in held.items() if type(k) is str and v is not None}
        return self


class ModuleParts(dict[str, Any]):
    """The tensors and parts of a module that a file holds, which begin a state dict's names."""


class Names(dict[str, Any]):
    """The names that a pickle may ask for, with those of modules."""

    def __contains__(self, name: object) -> bool:
        known = super().__contains__(name)
        return known or (isinstance(name, str) and _CLASSES.fullmatch(name) is not None)

    def __missing__(self, name: str) -> Maker:
        return Maker(name, lambda *_: ModuleRecord())
