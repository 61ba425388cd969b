"""Modules that a pickle holds: their tensors are read, and nothing of them is made or run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rushlight.core.tensor.tensor import Tensor, from_numpy

_MOST_NAMES = 1 << 16
_KINDS = ("_parameters", "_buffers", "_modules")


def is_module(state: dict[Any, Any]) -> bool:
    """Whether these attributes are those of a module, of whatever class."""
    return all(type(state.get(kind)) is dict for kind in _KINDS)


def parts_of(state: dict[Any, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parameters, buffers and modules of a module by name, and the names of its classes where they
    are texts, as Ultralytics keeps them. Buffers that are no part of a state dict, and other
    attributes, are left out.
    """
    passing = state.get("_non_persistent_buffers_set")
    passing = passing if type(passing) is set else set()
    parts = {
        k: v
        for kind in _KINDS
        for k, v in state[kind].items()
        if type(k) is str and v is not None and not (kind == "_buffers" and k in passing)
    }
    return parts, _texts(state.get("names"))


def _texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, or of a dict by the numbers from 0; () for anything else."""
    if type(value) is dict:
        value = [value.get(i) for i in range(min(len(value), _MOST_NAMES))]
    fits = type(value) in (list, tuple) and len(value) <= _MOST_NAMES
    return tuple(value) if fits and all(type(text) is str for text in value) else ()


class ModuleParts(dict[str, Any]):
    """The state dict of a module that a file holds.

    names: of its classes, or ().
    """

    names: tuple[str, ...] = ()


# The tensor with the names of a module's classes: a JSON list, as bytes.
CLASSES = "module:names"


def classes_in(value: Any) -> dict[str, Tensor]:
    """The tensor CLASSES of a module that names its classes, else nothing."""
    names = value.names if isinstance(value, ModuleParts) else ()
    names_as_bytes = np.frombuffer(json.dumps(names).encode(), np.uint8).copy()
    return {CLASSES: from_numpy(names_as_bytes)} if names else {}
