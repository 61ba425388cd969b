"""Saving a model as a folder in the layout of the Hugging Face hub, which transformers loads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.files.replacing import move_files, unfinished_folder
from rushlight.core.io.text.tokenizer import NativeTokenizer
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families import family_of
from rushlight.models.parts import join

if TYPE_CHECKING:
    from rushlight.models.model import Model

# The small files that are saved as they were loaded; tokenizer.json comes from the tokenizer.
SMALL = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "config_sentence_transformers.json",
    "preprocessor_config.json",
    "processor_config.json",
)
# Parameters of a sentence encoder's modules, which have folders of their own.
STEPS = ("token_steps.", "text_steps.")
INDEX = "model.safetensors.index.json"
_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
_STACK = re.compile(r"(.*\.(?:experts|norms)\.)((?:[^.]+\.)?(?:weight|bias))")


def save_folder(
    model: Model,
    folder: str | os.PathLike[str],
    dequantize: DType | str | None,
    max_shard_bytes: int,
    overwrite: bool,
) -> list[Path]:
    """What `Model.save_pretrained` does."""
    if max_shard_bytes < 1:
        raise ValueError(f"save_pretrained: max_shard_bytes is {max_shard_bytes}; at least 1")
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file; name a folder")
    small = _small_files(model)
    after = getattr(model, "after", None)
    modules: dict[str, Any] = {} if after is None else after.weights
    shards = _shards(dict(checkpoint_weights(model, dequantize)), max_shard_bytes)
    names = _names(len(shards))
    _refuse_to_replace(target, {*small, *names}, overwrite)
    if len(shards) > 1:
        small[INDEX] = _index(names, shards)
    with unfinished_folder(target) as unfinished:
        for name, tensors in zip(names, shards, strict=True):
            save_safetensors(tensors, unfinished / name, {"format": "pt"})
        for folder, module in modules.items():
            (unfinished / folder).mkdir(parents=True, exist_ok=True)
            save_safetensors(module.state_dict(), unfinished / _placed_in(folder))
        names += [_placed_in(folder) for folder in modules]
        for name, data in small.items():
            (unfinished / name).parent.mkdir(exist_ok=True)
            (unfinished / name).write_bytes(data)
        _refuse_to_replace(target, {*small, *names}, overwrite)
        # Weights of another number of shards would be read in place of the new ones.
        old = {n for n in _listed(target) if _WEIGHTS.fullmatch(n)}
        move_files(unfinished, target, [*names, *small], old)
    return [target / name for name in (*names, *small)]


def _listed(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def _refuse_to_replace(target: Path, names: set[str], overwrite: bool) -> None:
    there = [name for name in _listed(target) if name in names or _WEIGHTS.fullmatch(name)]
    if there and not overwrite:
        raise FileExistsError(
            f"save_pretrained: {target / there[0]} exists already\n"
            "  hint: name another folder, or pass overwrite=True"
        )


def _small_files(model: Model) -> dict[str, bytes]:
    files = dict(model.files)
    raw = files.get("config.json")
    config: dict[str, Any] = dict(vars(model.config)) if raw is None else json.loads(raw)
    for key in ("rope_scaling", "rope_parameters"):
        scaling = config.get(key)
        if isinstance(scaling, dict) and scaling.get("rope_type") == "factors":
            raise ValueError(
                f"save_pretrained: {key} has a factor for each frequency, as GGUF has, which "
                "config.json cannot say; write it as GGUF with rl.quantize"
            )
    for key in ("torch_dtype", "quantization_config"):  # weights are written as plain numbers
        config.pop(key, None)
    config["dtype"] = next(
        (t.dtype.name for t in model.parameters() if t.dtype.is_floating_point), "float32"
    )
    tied = getattr(getattr(model, "spec", None), "tied", None)
    if tied is not None and not hasattr(model.config, "scale_decoder_outputs"):  # T5: of scales
        config["tie_word_embeddings"] = tied
    files["config.json"] = json.dumps(config, indent=2).encode()
    files |= model.after.files if getattr(model, "after", None) is not None else {}
    if isinstance(model.tokenizer, NativeTokenizer):
        files["tokenizer.json"] = model.tokenizer.to_json()
    return files


def checkpoint_weights(
    model: Model, dequantize: DType | str | None
) -> Iterator[tuple[str, Tensor]]:
    """The parameters under the checkpoint's names: single experts, not stacks."""
    by_name = {}
    for name, t in model.state_dict().items():
        if ".attached." in name:
            raise ValueError(
                f"save_pretrained: {name.partition('.attached.')[0]} has adapters; write them with "
                "rl.adapters.save_adapter, or merge_and_unload(model) first"
            )
        if name.startswith(STEPS):
            continue
        if t.dtype.kind == "q":
            if dequantize is None:
                raise ValueError(
                    f"save_pretrained: {name} is {t.dtype.name}, which safetensors does not "
                    'hold; pass dequantize="float32" or another dtype, or write GGUF with '
                    "rl.quantize"
                )
            t = t.dequantize().to(dequantize)
        by_name[name] = t.detach()
    family = family_of(model.config.model_type, "model_type")
    for name, t in join(family, by_name):
        # What has another name here is stored whole.
        stack = _STACK.fullmatch(name) if name in by_name else None
        if stack is None:
            yield name, t
            continue
        for i in range(t.shape[0]):
            yield f"{stack[1]}{family.expert_prefix}{i}.{stack[2]}", t[i]


def _shards(tensors: Mapping[str, Tensor], most: int) -> list[dict[str, Tensor]]:
    """The tensors in order, in shards of at most `most` bytes, or of one tensor."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, t in tensors.items():
        if shards[-1] and size + t.nbytes > most:
            shards.append({})
            size = 0
        shards[-1][name] = t
        size += t.nbytes
    return shards


def _placed_in(folder: str) -> str:
    return f"{folder}/model.safetensors"


def _names(count: int) -> list[str]:
    if count == 1:
        return ["model.safetensors"]
    return [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]


def _index(names: list[str], shards: list[dict[str, Tensor]]) -> bytes:
    places = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
    total = sum(t.nbytes for shard in shards for t in shard.values())
    return json.dumps({"metadata": {"total_size": total}, "weight_map": places}).encode()
