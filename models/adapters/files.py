"""Adapters in files: PEFT's folders and GGUF are read, PEFT's folders are written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rushlight.core import nn
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, LoadError, brief, nearest
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.adapters.attach import attach, delete_adapter, set_adapter
from rushlight.models.adapters.config import FILE, AdapterConfig, LoraConfig, from_json
from rushlight.models.adapters.copies import resize
from rushlight.models.adapters.experts import as_stacks, parameter_paths, share_parameters
from rushlight.models.adapters.record import PREFIX, WEIGHTS, Added, is_tied, record_of
from rushlight.models.adapters.tokens import (
    embedding_of,
    head_of,
    retie_if_bare,
    share,
    token_paths,
    untie,
)
from rushlight.models.families import families, family_of

M = TypeVar("M", bound=nn.Module)
Progress = Callable[[int, int | None], None]

# What PEFT wraps around modules that are saved as a whole.
_WRAPPED = re.compile(r"\.(?:modules_to_save(?:\.default)?|original_module)\.")
# A parameter of an adapter: its layer, and its name there. A trainer's own file has the adapter's
# name too.
_LOCAL = re.compile(
    r"(?P<path>.+?)\.(?P<local>lora_[ABE]|lora_embedding_[AB]|lora_magnitude_vector|ia3_l"
    r"|hada_(?:w[12]_[ab]|t[12])|lokr_(?:w[12](?:_[ab])?|t2)|hira_[AB]|oft_R|vera_lambda_[bd]"
    r"|trainable_tokens_delta)(?:\.default)?(?P<end>\.weight|\.bias)?"
)


# Parts of an adapter that are modules with a weight.
_MODULES = ("lora_A", "lora_B", "oft_R")
# VeRA's matrices, which are of no layer.
_SHARED = ("base_model.vera_A", "base_model.vera_B")


def load_adapter(
    model: M,
    path_or_name: str | os.PathLike[str],
    name: str = "default",
    *,
    trainable: bool = False,
    progress: Progress | None = None,
) -> M:
    """Put the adapter of a file on the model, and make it the active one; returns the model.

    A folder in PEFT's format (adapter_config.json with adapter_model.safetensors or .bin), a hub
    id of one, or a GGUF file of llama.cpp's adapters. Of wav2vec 2.0 also adapter.LANGUAGE's
    .safetensors or .bin, whose layers replace those of the language before. trainable: its
    parameters take gradients, in float32. Raises FormatError for a damaged file or a configuration
    that is not supported, LoadError where names or shapes do not fit the model, which is left as it
    was, and ValueError for a name in use.

    `path_or_name` is the folder, file or id; `progress(done, total)`: bytes of a download.
    """
    from rushlight.core.io import load, load_gguf
    from rushlight.models.hub.names import resolve
    from rushlight.models.layers.speech.languages import language_of_file, take_language

    place = resolve(path_or_name, progress=progress)
    if place.is_file() and place.name in (FILE, *WEIGHTS):
        place = place.parent
    if place.is_file() and (language := language_of_file(place)):
        take_language(model, language, load(place))
        return model
    if place.is_file():
        tensors, metadata = load_gguf(place)
        return adapter_from_gguf(model, metadata, tensors, name, trainable=trainable)
    file = next((place / file_name for file_name in WEIGHTS if (place / file_name).is_file()), None)
    if file is None or not (place / FILE).is_file():
        raise FileNotFoundError(f"{place} has no {FILE} with {' or '.join(WEIGHTS)}")
    if (place / FILE).stat().st_size > 1 << 24:
        raise FormatError(f"{place / FILE} has more than {1 << 24} bytes")
    return adapter_from(model, (place / FILE).read_bytes(), load(file), name, trainable=trainable)


def adapter_from(
    model: M,
    config: bytes,
    tensors: Mapping[str, Tensor],
    name: str = "default",
    *,
    trainable: bool = False,
) -> M:
    """`load_adapter` of the bytes of adapter_config.json and the tensors by PEFT's names.

    `model`, `name`, `trainable` and the errors it raises are load_adapter's; `config` is the file's
    bytes.
    """
    return put(model, from_json(config), tensors, name, trainable)


def adapter_from_gguf(
    model: M,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    name: str = "default",
    *,
    trainable: bool = False,
) -> M:
    """`load_adapter` of the metadata and the tensors of a GGUF file.

    `model`, `name`, `trainable` and the errors it raises are load_adapter's.
    """
    from rushlight.models.adapters.gguf import as_peft

    config, renamed = as_peft(model, metadata, tensors)
    return put(model, config, renamed, name, trainable)


def put(
    model: M, config: AdapterConfig, tensors: Mapping[str, Tensor], name: str, trainable: bool
) -> M:
    """Attach an adapter with its tensors; the model is as it was if they do not fit."""
    try:
        return _put(model, config, tensors, name, trainable)
    finally:
        retie_if_bare(model, record_of(model))


def _put(
    model: M, config: AdapterConfig, tensors: Mapping[str, Tensor], name: str, trainable: bool
) -> M:
    layers: dict[str, Mapping[str, Tensor]] = {}
    theirs: dict[str, str] = {}
    rest: dict[str, Tensor] = {}
    if is_tied(model) and any(_in_head_or_table(model, stored) for stored in tensors):
        untie(model)
    tokens = _checked_tokens(model, config)
    of_stacks: dict[str, str] = {}
    if isinstance(config, LoraConfig):
        tensors, of_stacks = as_stacks(model, config, tensors)
    shared = {n: t for n, t in tensors.items() if n.removesuffix(".default") in _SHARED}
    for stored, t in tensors.items():
        if stored in shared:
            continue
        if not isinstance(t, Tensor) or t.dtype.kind not in "fq":
            raise LoadError(f"the adapter's {stored!r:.100} is no tensor of floats")
        key = stored.removeprefix(PREFIX)
        if _WRAPPED.search(key):
            plain_name = _WRAPPED.sub(".", key)
            if ".original_module." not in key and PREFIX + plain_name not in tensors:
                rest[plain_name] = t
            continue
        key = key.replace(".token_adapter.", ".")
        match = _LOCAL.fullmatch(key)
        if match is None:
            rest[key] = t
            continue
        path = _path_in(model, match["path"], stored)
        theirs[path] = match["path"]
        end = match["end"] or ""
        local = match["local"] + (end if match["local"] in _MODULES else "")
        layers[path] = {**layers.get(path, {}), local: t}
    if not layers:
        raise LoadError(
            f"the adapter has no tensor of {type(config).__name__}; names end with "
            f"lora_A.weight and the like, here {brief(list(tensors)[:2])}"
        )
    saved, biases = _split(model, config, rest)
    if isinstance(config, LoraConfig) and re.match("pissa|olora", str(config.init_lora_weights)):
        from rushlight.models.adapters.initial import converted

        config, layers = converted(model, config, layers, theirs)
    theirs |= of_stacks
    every = {**theirs, **{path: path for path in tokens}}
    try:
        attach(
            model, config, name, every, list(saved), trainable=trainable, bare=True, tokens=tokens
        )
    except ValueError as error:
        if isinstance(error, FormatError) or name in record_of(model).added:
            raise
        raise LoadError(f"the adapter does not fit the model: {error}") from None
    try:
        for path in tokens:  # a head without rows of its own has the embedding's
            layers.setdefault(path, layers.get(embedding_of(model), {}))
        _fill(model, record_of(model).added[name], name, layers, saved, trainable)
        share(model, name, tokens, theirs)
        parameters = of_stacks | parameter_paths(model, config)
        wanted = getattr(config, "target_parameters", None)
        share_parameters(model, record_of(model).added[name], name, parameters if wanted else {})
        if config.peft_type == "VERA":
            _project(model, config, name, shared)
    except BaseException:
        delete_adapter(model, name)
        raise
    with autograd.no_grad():
        for path, t in biases.items():
            model.get_parameter(path).copy_(t)
    set_adapter(model, name)
    return model


def _project(model: nn.Module, config: Any, name: str, shared: Mapping[str, Tensor]) -> None:
    """Give VeRA's layers the matrices of the file."""
    if len(shared) != 2:
        raise LoadError(
            "the adapter has no base_model.vera_A and vera_B, which PEFT draws at random where "
            "save_projection is false; save it with save_projection"
        )
    a, b = (shared[n].float() for n in sorted(shared))
    added = record_of(model).added[name]
    added.shared = {n.removesuffix(".default"): t for n, t in shared.items()}
    for path in added.paths:
        layer: Any = model.get_submodule(path)
        rows, columns = layer.weight.shape
        if (
            a.ndim != 2
            or b.ndim != 2
            or a.shape[0] != config.r
            or b.shape[1] != config.r
            or (a.shape[1] < columns or b.shape[0] < rows)
        ):
            raise LoadError(f"vera_A {a.shape} and vera_B {b.shape} do not fit {path}")
        layer.attached.named()[name].projections = (a, b)


def _fill(
    model: nn.Module,
    added: Added,
    name: str,
    layers: Mapping[str, Mapping[str, Tensor]],
    whole: Mapping[str, Mapping[str, Tensor]],
    trainable: bool,
) -> None:
    """Give the bare parameters of an adapter the tensors of a file."""
    every: list[tuple[str, Any, Any, Mapping[str, Tensor]]] = []
    for path in added.paths:
        layer: Any = model.get_submodule(path)
        every.append((path, layer.attached.named()[name], layer.weight, layers[path]))
    for path, module in added.saved.items():
        there = next(iter(model.get_submodule(path).parameters()))
        resize(module, whole[path])
        every.append((path, module, there, whole[path]))
    for path, module, near, state in every:
        placed = {}
        for local, t in state.items():
            values = t.dequantize() if t.dtype.kind == "q" else t
            values = values.to(float32) if trainable else values
            moved = values.to(device=near.device)
            placed[local] = moved.clone() if trainable and moved.storage is t.storage else moved
        try:
            module.load_state_dict(placed, assign=True)
        except LoadError as error:
            raise LoadError(f"the adapter of {path}: {error}") from None


def _split(
    model: nn.Module, config: AdapterConfig, rest: Mapping[str, Tensor]
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    """(modules that are saved as a whole, biases) of the tensors that are no adapter's."""
    saved_modules: dict[str, dict[str, Tensor]] = {}
    biases: dict[str, Tensor] = {}
    for key, t in rest.items():
        owner, _, end = key.replace(".base_layer.", ".").rpartition(".")
        saved = next((n for n in config.modules_to_save or () if f".{n}." in f".{owner}."), None)
        if saved is not None:
            end_of_owner = f".{owner}.".index(f".{saved}.") + len(saved)
            path = _path_in(model, owner[:end_of_owner], key)
            saved_modules.setdefault(path, {})[f"{owner}.{end}"[end_of_owner + 1 :]] = t
            continue
        path = _path_in(model, owner, key)
        slot: Any = getattr(model.get_submodule(path), end, None)
        table = isinstance(model.get_submodule(path), nn.Embedding) or path == head_of(model)
        fits = isinstance(slot, Tensor) and (
            slot.shape[1:] == t.shape[1:] if table else slot.shape == t.shape
        )
        if not fits:
            was = slot.shape if isinstance(slot, Tensor) else "nothing"
            raise LoadError(f"the adapter's {key!r:.200} is {t.shape}; the model has {was} there")
        module: Any = model.get_submodule(path)
        if isinstance(module, nn.Embedding) or path == head_of(model):
            if ".base_layer." not in key:  # PEFT saves tables that were resized, or all, on demand
                saved_modules.setdefault(path, {})[end] = t
            continue
        if end == "bias" and getattr(config, "bias", "none") != "none":
            biases[f"{path}.{end}"] = t
        elif not key.endswith(".base_layer.weight"):  # PEFT saves adapted tables with the adapter
            raise LoadError(f"the adapter's {key!r:.200} is no part of {type(config).__name__}")
    return saved_modules, biases


def _in_head_or_table(model: nn.Module, stored: str) -> bool:
    """Whether a tensor of a file is of a language model's head, or the whole table of words."""
    head, key = head_of(model), _WRAPPED.sub(".", stored.removeprefix(PREFIX))
    table = f"{embedding_of(model)}.weight" if head else ""
    return bool(head) and (key.startswith(f"{head}.") or f".{table}".endswith(f".{key}"))


def _checked_tokens(model: nn.Module, config: AdapterConfig) -> dict[str, list[int]]:
    try:
        return token_paths(model, config)
    except ValueError as error:
        raise LoadError(f"the adapter does not fit the model: {error}") from None


def _path_in(model: Any, path: str, stored: str) -> str:
    """The path of a module in our model: with or without the prefix of the family's base."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    known = isinstance(kind, str) and kind in families()
    prefix = family_of(kind, "model_type").base_prefix if known else ""
    for candidate in (path, prefix + path, path.removeprefix(prefix)):
        try:
            model.get_submodule(candidate)
        except AttributeError:
            continue
        return candidate
    names = [name for name, _ in model.named_modules()]
    raise LoadError(
        f"the adapter's {stored!r:.200} is of a module that {type(model).__name__} does not have; "
        f"nearest: {', '.join(nearest(path, names, 2)) or 'none'}"
    )
