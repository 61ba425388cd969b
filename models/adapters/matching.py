"""Which modules of a model a configuration means, by PEFT's rules for names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import brief, nearest
from rushlight.models.adapters.config import AdapterConfig, pattern_of
from rushlight.models.layers.mlp import TransposedLinear

LINEAR = (nn.Linear, TransposedLinear)
ALL_LINEAR = "all-linear"
# Heads of classifiers, which are trained as a whole.
CLASSIFIERS = ("classifier", "score")


def targets(model: nn.Module, config: AdapterConfig) -> list[str]:
    """The paths of the modules that `config` adapts; ValueError if there is none."""
    wanted = config.target_modules
    if not wanted:
        raise ValueError(
            f"{type(config).__name__}: target_modules is {wanted!r}; name ends of modules' paths, "
            f"such as {_ends(model)[:4]}, a regular expression, or {ALL_LINEAR!r}"
        )
    inside = re.compile(r"(^|\.)attached\.")
    paths = [path for path, _ in model.named_modules() if path and not inside.search(path)]
    if isinstance(wanted, str) and wanted.lower() == ALL_LINEAR:
        matching = [path for path in paths if _is_inner_linear(model, path, config)]
    else:
        matching = [p for p in paths if named(wanted, p) or named(wanted, published(model, p))]
        matching = [path for path in matching if _in_layer(config, path)]
    included = [path for path in matching if not _is_left_out(config, path)]
    if not included:
        names = wanted if isinstance(wanted, list) else [wanted]
        near = [n for name in names for n in nearest(name, _ends(model), 2)] or _ends(model)[:6]
        raise ValueError(
            f"{type(config).__name__}: target_modules {brief(wanted)} names no module of "
            f"{type(model).__name__}{' that is not excluded' if matching else ''}; there are: "
            f"{', '.join(dict.fromkeys(near))}"
        )
    return included


def published(model: Any, path: str) -> str:
    """The path of a module as checkpoints have it: with the prefix of a base below a head."""
    prefix, inside = getattr(model, "prefixed", ("", ()))
    return prefix + path if path.partition(".")[0] in inside else path


def named(names: Sequence[str] | str | None, path: str) -> bool:
    """Whether `path` is meant: by a list of ends, or by a regular expression of the whole."""
    if not names:
        return False
    if isinstance(names, str):
        return pattern_of(names, "target_modules").fullmatch(path)
    return path in names or path.endswith(tuple(f".{ending}" for ending in names))


def saved_modules(model: nn.Module, names: Sequence[str] | None) -> list[str]:
    """The paths of the modules that `modules_to_save` means; ValueError for a name of none."""
    saved: list[str] = []
    for name in names or ():
        paths = [p for p, _ in model.named_modules() if p == name or p.endswith(f".{name}")]
        if not paths:
            near = ", ".join(nearest(name, _ends(model), 3) or _ends(model)[:6])
            raise ValueError(f"modules_to_save: there is no module {name!r}; there are: {near}")
        saved += [path for path in paths if path not in saved]
    return saved


def is_called(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer is of a kind and computes as the kind does, by a call of it.

    The weights of others are read by what they belong to, past the hooks of an adapter.
    """
    ours: Any = type(layer)
    return isinstance(layer, kind) and ours.forward is kind.forward and not hasattr(ours, "read")


def _is_left_out(config: AdapterConfig, path: str) -> bool:
    saved = config.modules_to_save or []
    return named(config.exclude_modules, path) or any(
        path == name or path.startswith(f"{name}.") or f".{name}." in f".{path}." for name in saved
    )


def _is_inner_linear(model: nn.Module, path: str, config: AdapterConfig) -> bool:
    """Whether a module is a linear layer, and not the one that gives the logits."""
    module: Any = model.get_submodule(path)
    if not any(is_called(module, kind) for kind in LINEAR) or in_attention(model, path):
        return False
    names = getattr(getattr(model, "spec", None), "names", None)
    head = getattr(names, "head", None)
    if isinstance(head, str) and head:
        return path != head
    if config.task_type == "SEQ_CLS" and path in CLASSIFIERS:
        return False
    rows = module.weight.shape[0 if isinstance(module, nn.Linear) else 1]
    return bool(rows != getattr(getattr(model, "config", None), "vocab_size", None))


def in_attention(model: nn.Module, path: str) -> bool:
    """Whether a module belongs to a MultiheadAttention, which reads its weights."""
    return isinstance(model.get_submodule(path.rpartition(".")[0]), nn.MultiheadAttention)


def _in_layer(config: AdapterConfig, path: str) -> bool:
    """Whether the first number in `path` is among layers_to_transform."""
    wanted = config.layers_to_transform
    if isinstance(config.target_modules, str) or wanted is None or wanted == []:
        return True
    if isinstance(config.target_modules, list) and path in config.target_modules:
        return True
    patterns = config.layers_pattern or []
    number = _number_of_layer(path, [patterns] if isinstance(patterns, str) else patterns)
    return number is not None and number in ([wanted] if isinstance(wanted, int) else wanted)


def _number_of_layer(path: str, patterns: Sequence[str]) -> int | None:
    """The first number of a path, or the first behind a name that one of the patterns means."""
    parts = path.split(".")
    for pattern in patterns or ("",):
        for i, segment in enumerate(parts[:-1]):
            before = ".".join(parts[:i])
            if i == 0 or not segment.isdecimal():
                continue
            if pattern and not pattern_of(pattern, "layers_pattern", r"(?:.*\.)?", "").fullmatch(
                before
            ):
                continue
            if pattern or i > 1:  # without a pattern PEFT wants a name in front of the list's
                return int(segment)
    return None


def _ends(model: nn.Module) -> list[str]:
    """The last parts of the names of modules that can be adapted."""
    kinds = (*LINEAR, nn.Embedding, nn.Conv1d, nn.Conv2d)
    every = (p.rpartition(".")[2] for p, m in model.named_modules() if p and isinstance(m, kinds))
    return list(dict.fromkeys(every))
