"""OpenCLIP's checkpoints (Cherti et al., 2022): their names, sizes and configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object

FILE = "open_clip_config.json"
_LAYER = re.compile(r"(visual\.|text\.)?transformer\.resblocks\.(\d{1,3})\.(.+)")
_PARTS = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_TOP = {
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
}
_TURNED = {"visual.proj": "visual_projection.weight", "text_projection": "text_projection.weight"}
_HEAD = 64


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under transformers' names; those of texts may begin with "text."."""
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        plain = name.removeprefix("text.")
        if match := _LAYER.fullmatch(name):
            tower = "vision_model" if match[1] == "visual." else "text_model"
            path = f"{tower}.encoder.layers.{match[2]}."
            if match[3].startswith("attn.in_proj_"):
                if t.shape[0] % 3:
                    raise FormatError(f"tensor {name!r} {t.shape} is not three matrices")
                kind = match[3][len("attn.in_proj_") :]
                for letter, piece in zip("qkv", t.chunk(3, 0), strict=True):
                    by_name[f"{path}self_attn.{letter}_proj.{kind}"] = piece.contiguous()
                continue
            letter, _, kind = match[3].rpartition(".")
            by_name[f"{path}{_PARTS.get(letter, letter)}.{kind}"] = t
        elif plain in _TURNED:
            by_name[_TURNED[plain]] = t.T.contiguous()
        elif plain != "attn_mask":
            by_name[_TOP.get(plain, name)] = t
    return by_name


def config_of(tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> dict[str, Any]:
    """CLIP's config.json for a checkpoint; told: model_cfg of open_clip_config.json."""
    by_name = rename_tensors(tensors)
    seen, place = _part(told, "vision_cfg"), "vision_model"
    try:
        patch = by_name[f"{place}.embeddings.patch_embedding.weight"].shape
        count = by_name[f"{place}.embeddings.position_embedding.weight"].shape[0] - 1
        width, channels, tall, wide = patch
        image = {
            "hidden_size": width,
            "num_channels": channels,
            "patch_size": [tall, wide],
            "image_size": seen.get("image_size") or round(count**0.5) * tall,
            "num_attention_heads": max(1, width // int(seen.get("head_width") or _HEAD)),
            "hidden_act": "quick_gelu" if told.get("quick_gelu") else "gelu",
            **layers_of(by_name, place),
        }
        features = by_name["visual_projection.weight"].shape[0]
    except (KeyError, ValueError):
        raise FormatError(
            "the checkpoint is no CLIP of OpenCLIP with vision transformers"
        ) from None
    return {
        "model_type": "clip",
        "architectures": ["CLIPModel"],
        "projection_dim": features,
        "vision_config": image,
        "text_config": text_of(by_name, told),
    }


def text_of(found: Mapping[str, Tensor], told: Mapping[str, Any]) -> dict[str, Any]:
    """The text_config of renamed tensors."""
    said, table = _part(told, "text_cfg"), "text_model.embeddings."
    try:
        vocab, width = found[f"{table}token_embedding.weight"].shape
        context = found[f"{table}position_embedding.weight"].shape[0]
    except (KeyError, ValueError):
        raise FormatError("the checkpoint has no texts of OpenCLIP") from None
    return {
        "vocab_size": vocab,
        "hidden_size": width,
        "max_position_embeddings": context,
        "num_attention_heads": said.get("heads") or max(1, width // _HEAD),
        "eos_token_id": None,
        "hidden_act": "quick_gelu" if told.get("quick_gelu") else "gelu",
        **layers_of(found, "text_model"),
    }


def layers_of(found: Mapping[str, Tensor], tower: str) -> dict[str, int]:
    """The number of a tower's layers and the width of their MLPs."""
    pattern = re.compile(rf"{tower}\.encoder\.layers\.(\d+)\.mlp\.fc1\.weight")
    inner = [t.shape[0] for n, t in found.items() if pattern.fullmatch(n)]
    return {"num_hidden_layers": len(inner), "intermediate_size": inner[0] if inner else 0}


def files_of(
    tensors: Mapping[str, Tensor],
    files: Mapping[str, bytes],
    make: Callable[[Mapping[str, Tensor], Mapping[str, Any]], dict[str, Any]],
) -> dict[str, bytes]:
    """config.json and preprocessor_config.json of a checkpoint without the first.

    `tensors` and `files` are the checkpoint's; `make` gives config.json of both. Raises FormatError
    for a damaged file.
    """
    if "config.json" in files:
        return {}
    told = parse_object(FILE, files[FILE]) if FILE in files else {}
    cfg = _part(told, "model_cfg")
    small_files = {"config.json": json.dumps(make(tensors, cfg)).encode()}
    preprocess = _part(told, "preprocess_cfg")
    size = _part(cfg, "vision_cfg").get("image_size")
    if preprocess and type(size) is int and "preprocessor_config.json" not in files:
        processor = {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": size},
            "crop_size": {"height": size, "width": size},
            "image_mean": preprocess.get("mean"),
            "image_std": preprocess.get("std"),
            "resample": 2 if preprocess.get("interpolation") == "bilinear" else 3,
        }
        present = {n: v for n, v in processor.items() if v is not None}
        small_files["preprocessor_config.json"] = json.dumps(present).encode()
    return small_files


def _part(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = told.get(name) or {}
    if not isinstance(section, Mapping):
        raise FormatError(f"{FILE}: {name} is {section!r:.60}; it must be an object")
    return section
