"""Whether a weight file is a model that Rushlight runs, and the memory that it takes.

The model is built on the meta device from the header: names, shapes and configuration are checked
as in loading, and no weights are read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import rushlight as rl
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import LoadError, RushlightError
from rushlight.core.basis.layout import Layout
from rushlight.core.io.weights.table import Entry
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.fitting import fitted, renamed_tensors
from rushlight.models.checkpoints.prefixes import unwrapped
from rushlight.models.families import families, family_of
from rushlight.models.find_config import find_config
from rushlight.models.generation.cache_spec import CacheSpec, State
from rushlight.models.gguf.names import as_checkpoint

# The one tensor of a GGUF file whose values its configuration needs.
FREQUENCIES = "rope_freqs.weight"
_CACHE_BYTES = 4  # the cache holds float32


def fit(
    entries: Iterable[Entry],
    files: Mapping[str, bytes],
    metadata: Mapping[str, Any] | None,
    frequencies: Tensor | None,
) -> dict[str, Any]:
    """Whether the tensors are a model of a supported family, and what its cache takes.

    files: config.json and the like. metadata: of a GGUF file, else None. frequencies: its tensor
    `FREQUENCIES`, if it has one. Returns `why` and `hint` if it is not supported, else its tasks,
    the length of its context, and `cache`.

    `entries` are the tensors' names, dtypes and shapes. What a file gets wrong is told, not raised.
    """
    tensors = {e.name: _bare(e.dtype, e.shape) for e in entries}
    if frequencies is not None:
        tensors[FREQUENCIES] = frequencies
    try:
        if metadata is not None:
            files, tensors = as_checkpoint(metadata, tensors)
        tensors = dict(unwrapped(tensors))
        config = find_config(files, tensors)
        family = family_of(config.get("model_type"), "config.json: model_type")
        layers = config.get("num_hidden_layers")
        if isinstance(layers, int) and layers > len(tensors):
            raise LoadError(f"num_hidden_layers is {layers}; the file has {len(tensors)} tensors")
        tensors = renamed_tensors(family, tensors)
        model, by_name, _ = fitted(family, config, tensors)
        model.load_state_dict({n: t.to("meta") for n, t in by_name.items()}, assign=True)
    except RushlightError as error:
        hint = str(error.hint or "")
        why = str(error).removesuffix(f"\n  hint: {hint}")
        return {"supported": False, "why": why[:600], "hint": hint, "tasks": []}
    generates = "text-generation" in model.tasks
    return {
        "supported": True,
        "why": "",
        "hint": "",
        "tasks": list(model.tasks),
        "contextLength": model.context_length if generates else 0,
        "cache": cache_bytes(model.cache_specs() if generates else ()),
    }


def told(names: Container[str], files: Mapping[str, bytes], kind: str) -> dict[str, Any]:
    """What `fit` gives, for formats whose configuration is among the values: by their names alone.

    kind: "marian", "ctranslate2", "whisper", "ggml" or "llama2c".

    `files` are its files by name. It raises nothing.
    """
    if kind in ("ggml", "llama2c"):  # both are of a llama
        return _runs(("text-generation",))
    telling_name = next((name for name in families("tensors") if name in names), None)
    if kind == "whisper" or telling_name is not None:
        family = family_of(telling_name or "ggml:hparams", "tensors", "tensors")
        needs = [name for name in files if name.endswith((".spm", "tokenizer.json"))]
        if needs or kind == "whisper":
            return _runs(family.tasks)
        hint = "Choose the folder, with its vocabulary, or give the folder's address."
        return _refused(f"a vocabulary is needed beside the file, for {family.tasks[0]}", hint)
    return _refused("no family that is supported has tensors of these names", "")


def _runs(tasks: Sequence[str]) -> dict[str, Any]:
    return {
        "supported": True,
        "why": "",
        "hint": "",
        "tasks": list(tasks),
        "contextLength": 0,
        "cache": None,
    }


def _refused(why: str, hint: str) -> dict[str, Any]:
    return {"supported": False, "why": why, "hint": hint, "tasks": [], "cache": None}


def _bare(dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """A tensor without values."""
    layout = Layout.contiguous(shape)
    storage = Storage.allocate(rl.device("meta"), dtype.nbytes(layout.numel), dtype)
    return Tensor(storage, dtype, layout)


def cache_bytes(specs: Iterable[CacheSpec]) -> dict[str, Any]:
    """Bytes of a cache for one conversation: fixed, per token, and per token of each window.

    largestRow: bytes per token of the largest tensor that grows with the context.
    """
    fixed = per_token = largest = 0
    windows: dict[int, int] = {}
    for spec in specs:
        if isinstance(spec, State):
            fixed += sum(Layout.contiguous(shape).numel for shape in spec.shapes)
            continue
        row = sum(heads * features for heads, features in spec.rows)
        if spec.window is None:
            per_token += row
            largest = max(largest, *(heads * features for heads, features in spec.rows))
        else:
            windows[spec.window] = windows.get(spec.window, 0) + row
    return {
        "fixed": fixed * _CACHE_BYTES,
        "perToken": per_token * _CACHE_BYTES,
        "largestRow": largest * _CACHE_BYTES,
        "windows": [[window, row * _CACHE_BYTES] for window, row in sorted(windows.items())],
    }
