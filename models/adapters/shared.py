"""Several adapters of one model at a time: further models that share its weights."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from rushlight.core.io.weights.gguf import open_gguf
from rushlight.models.adapters.config import FILE
from rushlight.models.adapters.files import Progress, load_adapter
from rushlight.models.adapters.record import WEIGHTS, adapters
from rushlight.models.model import Model

M = TypeVar("M", bound=Model)


def is_adapter(place: str | os.PathLike[str]) -> bool:
    """Whether a folder or file holds an adapter and no model.

    That is a folder of PEFT's without config.json, or a GGUF file whose general.type is "adapter".
    `place` is its path. FormatError for a damaged GGUF file.
    """
    path = Path(place)
    if path.is_dir():
        return (path / FILE).is_file() and not (path / "config.json").is_file()
    if path.suffix != ".gguf":
        return path.name in (FILE, *WEIGHTS)
    return any(table.metadata.get("general.type") == "adapter" for _, table in open_gguf(path))


def with_adapter(
    model: M,
    path_or_name: str | os.PathLike[str],
    name: str = "default",
    *,
    progress: Progress | None = None,
) -> M:
    """A second model: this one's weights, in the same memory, with an adapter of its own.

    Both answer at the same time, each with caches of its own; `model` stays as it is. The rest is
    `load_adapter`'s: `path_or_name` is PEFT's folder, a GGUF file or a hub id, `name` the adapter's
    name, `progress(done, total)`: bytes of a download. Raises what it raises, and ValueError for a
    model that has adapters already.
    """
    if present := adapters(model):
        raise ValueError(
            f"with_adapter: the model has the adapter {next(iter(present))!r}; give one without"
        )
    tensors = (*model.parameters(), *model.buffers())
    memo: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    for value in (model.tokenizer, model.files):
        memo[id(value)] = value
    return load_adapter(deepcopy(model, memo), path_or_name, name, progress=progress)
