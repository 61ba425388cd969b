"""The record of a model's adapters: what was added, what computes, what is merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import nearest
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import AdapterConfig

# PEFT's files of weights, and what their names begin with.
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
PREFIX = "base_model.model."


@dataclass
class Added:
    """An adapter of a model: its configuration, and the paths of the layers that it is on.

    saved: its own copies of modules, by path. trainable: whether its parameters take gradients
    while it is active. shared: a file's tensors that are of no layer, by their names. parameters:
    the reference's parameter that a stack of experts is of, by the stack's path.
    """

    config: AdapterConfig
    paths: list[str]
    saved: dict[str, nn.Module]
    trainable: bool
    shared: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass
class Record:
    """All adapters of a model, those that are active, and the modules whose place copies took."""

    added: dict[str, Added] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    originals: dict[str, nn.Module] = field(default_factory=dict)
    merged: tuple[str, ...] = ()


def record_of(model: nn.Module) -> Record:
    """The record of a model's adapters; it has one from its first adapter on."""
    record: Record = vars(model).get("_adapters") or Record()
    return record


def adapted(model: nn.Module, record: Record) -> list[Any]:
    """The layers that have adapters."""
    paths = dict.fromkeys(path for added in record.added.values() for path in added.paths)
    return [model.get_submodule(path) for path in paths]


def is_tied(model: Any) -> bool:
    """Whether the embedding's weight is the head's."""
    return bool(getattr(getattr(model, "spec", None), "tied", False))


def find(record: Record, name: str) -> Added:
    """The adapter of this name; KeyError if there is none."""
    if name not in record.added:
        near = ", ".join(nearest(name, list(record.added), 3) or record.added) or "none"
        raise KeyError(f"there is no adapter {name!r}; there are: {near}")
    return record.added[name]


def check_unmerged(record: Record, what: str) -> None:
    """RuntimeError while adapters are merged."""
    if record.merged:
        raise RuntimeError(
            f"{', '.join(map(repr, record.merged))} is merged; call unmerge_adapter(model) before "
            f"you {what}"
        )


def adapters(model: nn.Module) -> dict[str, AdapterConfig]:
    """The configurations of a model's adapters by name."""
    return {name: added.config for name, added in record_of(model).added.items()}


def active_adapters(model: nn.Module) -> tuple[str, ...]:
    """The names of the adapters that compute."""
    return record_of(model).active
