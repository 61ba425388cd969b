"""Modules that a pickle holds: their tensors are read, and nothing of them is made or run."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from rushlight.core.basis.errors import brief
from rushlight.core.io.weights.pickles.unpickle import Maker
from rushlight.core.tensor.tensor import Tensor, from_numpy

_MOST_NAMES = 1 << 16
# Classes whose objects are read as what they hold, and never made: modules, and what Ultralytics'
# checkpoints have beside them.
_CLASSES = re.compile(r"(torch\.nn\.modules|ultralytics)(\.\w+)+")


class ModuleRecord:
    """A module of a pickle: its parameters, buffers and modules by name, and the names of its
    classes where they are texts, as Ultralytics keeps them. Other attributes are left out.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.names: tuple[str, ...] = ()

    def with_state(self, state: Any) -> ModuleRecord:
        if type(state) is not dict:
            raise ValueError(f"a module with the state {brief(state)}")
        for kind in ("_parameters", "_buffers", "_modules"):
            held = state.get(kind)
            if type(held) is dict:
                self.parts |= {k: v for k, v in held.items() if type(k) is str and v is not None}
        self.names = _texts(state.get("names"))
        return self


def _texts(found: Any) -> tuple[str, ...]:
    """The texts of a list, or of a dict by the numbers from 0; () for anything else."""
    if type(found) is dict:
        found = [found.get(i) for i in range(min(len(found), _MOST_NAMES))]
    fits = type(found) in (list, tuple) and len(found) <= _MOST_NAMES
    return tuple(found) if fits and all(type(one) is str for one in found) else ()


class ModuleParts(dict[str, Any]):
    """The tensors and parts of a module that a file holds, which begin a state dict's names.

    names: of its classes, or ().
    """

    names: tuple[str, ...] = ()


# The tensor with the names of a module's classes: a JSON list, as bytes.
CLASSES = "module:names"


def classes_in(found: Any) -> dict[str, Tensor]:
    """The tensor CLASSES of a module that names its classes, else nothing."""
    names = found.names if isinstance(found, ModuleParts) else ()
    told = np.frombuffer(json.dumps(names).encode(), np.uint8).copy()
    return {CLASSES: from_numpy(told)} if names else {}


class Names(dict[str, Any]):
    """The names that a pickle may ask for, with those of modules."""

    def __contains__(self, name: object) -> bool:
        known = super().__contains__(name)
        return known or (isinstance(name, str) and _CLASSES.fullmatch(name) is not None)

    def __missing__(self, name: str) -> Maker:
        return Maker(name, lambda *_: ModuleRecord())
