"""Adapters written as PEFT's folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.files.replacing import write_whole
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.config import FILE, LoraConfig
from rushlight.models.adapters.experts import as_peft, is_stack
from rushlight.models.adapters.matching import published
from rushlight.models.adapters.record import PREFIX, WEIGHTS, Added, adapted, record_of
from rushlight.models.adapters.tokens import head_of, own_rows, untied


def adapter_state(model: nn.Module, name: str | None = None) -> dict[str, Tensor]:
    """The tensors of an adapter by PEFT's names; default: the one that is active."""
    name, added = _chosen(model, name)
    state: dict[str, Tensor] = added.shared | as_peft(model, added, name, published)
    for path in added.paths:
        layer: Any = model.get_submodule(path)
        if is_stack(layer):
            continue
        for local, t in layer.attached.named()[name].state_dict().items():
            if local == "trainable_tokens_delta" and isinstance(added.config, LoraConfig):
                if path == head_of(model) and untied(model) and not own_rows(model, name):
                    continue
                local = f"token_adapter.{local}"
            state[f"{PREFIX}{added.parameters.get(path, published(model, path))}.{local}"] = t
    for path, module in added.saved.items():
        for local, t in module.state_dict().items():
            state[f"{PREFIX}{published(model, path)}.{local}"] = t
    wanted = getattr(added.config, "bias", "none")
    if wanted != "none":
        record = record_of(model)
        layers = {id(layer) for layer in adapted(model, record)}
        for path, module in model.named_modules():
            bias = vars(module).get("bias")
            inside = ".attached." in f".{path}."
            if not isinstance(bias, nn.Parameter) or inside:
                continue
            if id(module) in layers:
                state[f"{PREFIX}{published(model, path)}.base_layer.bias"] = bias.detach()
            elif wanted == "all":
                state[f"{PREFIX}{published(model, path)}.bias"] = bias.detach()
    return state


def save_adapter(
    model: nn.Module, folder: str | os.PathLike[str], name: str | None = None
) -> list[Path]:
    """Write an adapter as PEFT does: adapter_config.json and adapter_model.safetensors.

    name: the adapter's; default: the one that is active. Files of these names are replaced.
    Returns their paths. ValueError if several adapters are active and none is named.

    `model` has the adapter; `folder` is made where it is missing.
    """
    _, added = _chosen(model, name)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    save_safetensors(adapter_state(model, name), target / WEIGHTS[0], {"format": "pt"})
    write_whole(target / FILE, added.config.to_json())
    return [target / WEIGHTS[0], target / FILE]


def _chosen(model: nn.Module, name: str | None) -> tuple[str, Added]:
    record = record_of(model)
    if name is None and len(record.active) != 1:
        raise ValueError(
            f"{len(record.active)} adapters are active; name one of: {', '.join(record.added)}"
        )
    name = record.active[0] if name is None else name
    if name not in record.added:
        raise KeyError(f"there is no adapter {name!r}; there are: {', '.join(record.added)}")
    return name, record.added[name]
