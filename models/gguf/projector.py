"""llama.cpp's mmproj files: the tower of a model that sees, beside the GGUF file of its texts.

The layouts are those of llama.cpp's converter (convert_hf_to_gguf.py) and of the package gguf: its
names of tensors, keys `clip.*`, the patch's product split by time, q, k and v apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, LoadError, brief
from rushlight.core.functional.joining import stack
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import parse_object

# By `clip.projector_type`: the family, and the text of the placeholder's token.
KINDS = {
    "qwen2vl_merger": ("qwen2_vl", "<|image_pad|>"),
    "qwen2.5vl_merger": ("qwen2_5_vl", "<|image_pad|>"),
    "qwen3vl_merger": ("qwen3_vl", "<|image_pad|>"),
    "idefics3": ("smolvlm", "<image>"),
}
_LAYER = re.compile(r"v\.blk\.(\d{1,4})\.(\w+)\.(weight|bias)")
_DEEP = re.compile(r"v\.deepstack\.(\d{1,4})\.(norm|fc1|fc2)\.(weight|bias)")
_MOST = 1 << 12  # of layers, and of other whole numbers but pixels
# What is in a layer, by the name in GGUF; q, k and v are joined where the family has them so.
_QWEN = {
    "ln1": "norm1", "ln2": "norm2", "attn_qkv": "attn.qkv", "attn_out": "attn.proj",
    "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2",
}  # fmt: skip
_GATED = _QWEN | {
    "ffn_up": "mlp.up_proj", "ffn_gate": "mlp.gate_proj", "ffn_down": "mlp.down_proj"
}  # fmt: skip
_LATE = _QWEN | {"ffn_up": "mlp.linear_fc1", "ffn_down": "mlp.linear_fc2"}
_SIGLIP = {
    "ln1": "layer_norm1", "ln2": "layer_norm2", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_out": "self_attn.out_proj",
    "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2",
}  # fmt: skip
_LAYERS = {"qwen2_vl": _QWEN, "qwen2_5_vl": _GATED, "qwen3_vl": _LATE, "smolvlm": _SIGLIP}
_ENDS: dict[str, dict[str, str]] = {
    "qwen2_vl": {"v.post_ln": "merger.ln_q", "mm.0": "merger.mlp.0", "mm.2": "merger.mlp.2"},
    "qwen3_vl": {
        "v.post_ln": "merger.norm", "mm.0": "merger.linear_fc1", "mm.2": "merger.linear_fc2",
        "v.position_embd": "pos_embed",
    },
    "smolvlm": {
        "v.patch_embd": "model.vision_model.embeddings.patch_embedding",
        "v.position_embd": "model.vision_model.embeddings.position_embedding",
        "v.post_ln": "model.vision_model.post_layernorm",
        "mm.model.fc": "model.connector.modality_projection.proj",
    },
}  # fmt: skip
_ENDS["qwen2_5_vl"] = _ENDS["qwen2_vl"]


def is_projector(metadata: Mapping[str, Any]) -> bool:
    """Whether a GGUF file is an mmproj file."""
    return metadata.get("general.architecture") == "clip"


def seeing(
    files: Mapping[str, bytes],
    tensors: Mapping[str, Tensor],
    told: Mapping[str, Any],
    metadata: Mapping[str, Any],
    seen: Mapping[str, Tensor],
) -> tuple[dict[str, bytes], dict[str, Tensor]]:
    """(small files, tensors) of a checkpoint that sees, in the Hugging Face layout.

    files, tensors: those of the language model, as `as_checkpoint` gives them, and `told`, the
    metadata of its file. metadata, seen: those of the mmproj file. LoadError for a projector that
    is not supported, FormatError for keys and tensors that do not fit.
    """
    named = metadata.get("clip.vision.projector_type", metadata.get("clip.projector_type"))
    if named not in KINDS:
        raise LoadError(
            f"clip.projector_type {brief(named)} is not supported",
            hint=f"supported: {', '.join(KINDS)}",
        )
    kind, place = KINDS[str(named)]
    text = parse_object("config.json", files["config.json"])
    if kind != "smolvlm":
        sections = _sections(told)
        text["model_type"] = f"{kind}_text"
        text["rope_parameters"] = {**(text.get("rope_parameters") or {}), "mrope_section": sections}
    deep = _deep_layers(metadata) if kind == "qwen3_vl" else []
    vision = _vision(kind, metadata, seen, deep)
    config = {
        "model_type": kind,
        "text_config": text,
        "vision_config": vision,
        "image_token_id": _token(files, place),
        "eos_token_id": text.get("eos_token_id"),
        "tie_word_embeddings": bool(
            text.get("tie_word_embeddings", "lm_head.weight" not in tensors)
        ),
    }
    if kind == "smolvlm":
        config["scale_factor"] = _whole(metadata, "clip.vision.projector.scale_factor")
    base = "model.text_model." if kind == "smolvlm" else "model.language_model."
    renamed = {
        base + n.removeprefix("model.") if n.startswith("model.") else n: t
        for n, t in tensors.items()
    }
    renamed |= _tower(kind, seen, deep)
    named_files = dict(files)
    named_files["config.json"] = json.dumps(config).encode()
    named_files["preprocessor_config.json"] = json.dumps(_processor(kind, metadata)).encode()
    return named_files, renamed


def _sections(told: Mapping[str, Any]) -> list[int]:
    """How many frequencies go by time, height and width."""
    key = f"{told.get('general.architecture')}.rope.dimension_sections"
    values = told.get(key)
    numbers = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(numbers, list) or len(numbers) < 3:
        raise FormatError(f"{key} is {brief(values)}; it must have three numbers")
    return [int(n) for n in numbers[:3]]


def _whole(
    metadata: Mapping[str, Any], key: str, usual: int | None = None, most: int = _MOST
) -> int:
    value = metadata.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise FormatError(f"{key} is {brief(value)}; it must be a whole number up to {most}")
    return value


def _vision(
    kind: str, metadata: Mapping[str, Any], seen: Mapping[str, Tensor], deep: list[int]
) -> dict[str, Any]:
    """The vision_config of the keys clip.vision.*"""
    vision = "clip.vision."
    width, layers, heads, inner, patch = (
        _whole(metadata, vision + key, most=1 << 20)
        for key in (
            "embedding_length", "block_count", "attention.head_count", "feed_forward_length",
            "patch_size",
        )
    )  # fmt: skip
    if layers > len(seen):
        raise FormatError(f"{vision}block_count is {layers}, but the file has {len(seen)} tensors")
    if kind == "smolvlm":
        return {
            "model_type": "smolvlm_vision", "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": inner, "patch_size": patch,
            "image_size": _whole(metadata, f"{vision}image_size", most=1 << 15),
            "hidden_act": "gelu_pytorch_tanh",
        }  # fmt: skip
    out = _whole(metadata, f"{vision}projection_dim", most=1 << 20)
    config: dict[str, Any] = {
        "depth": layers, "num_heads": heads, "patch_size": patch, "in_channels": 3,
        "spatial_merge_size": _whole(metadata, f"{vision}spatial_merge_size", 2),
        "temporal_patch_size": 2,
    }  # fmt: skip
    act = "gelu_pytorch_tanh" if metadata.get("clip.use_gelu") else "quick_gelu"
    config["hidden_act"] = "silu" if metadata.get("clip.use_silu") else act
    if kind == "qwen2_vl":
        return config | {"embed_dim": width, "hidden_size": out, "mlp_ratio": inner / width}
    config |= {"hidden_size": width, "intermediate_size": inner, "out_hidden_size": out}
    if kind == "qwen3_vl":
        table = seen.get("v.position_embd.weight")
        if table is None:
            raise FormatError("the mmproj file has no tensor v.position_embd.weight")
        return config | {
            "num_position_embeddings": table.shape[0], "deepstack_visual_indexes": deep
        }  # fmt: skip
    step = _whole(metadata, f"{vision}n_wa_pattern", layers + 1)
    return config | {
        "window_size": _whole(metadata, f"{vision}window_size", 8 * patch, 1 << 15),
        "fullatt_block_indexes": [i for i in range(layers) if (i + 1) % step == 0],
    }


def _deep_layers(metadata: Mapping[str, Any]) -> list[int]:
    key = "clip.vision.is_deepstack_layers"
    flags = metadata.get(key, [])
    flags = flags.tolist() if isinstance(flags, np.ndarray) else flags
    if not isinstance(flags, list) or len(flags) > _MOST:
        raise FormatError(f"{key} is {brief(flags)}; it must be a truth value for each layer")
    return [i for i, flag in enumerate(flags) if flag]


def _tower(kind: str, seen: Mapping[str, Tensor], deep: list[int]) -> dict[str, Tensor]:
    """The tower's tensors under the checkpoint's names; LoadError for one that is not known."""
    base = "model.vision_model.encoder.layers." if kind == "smolvlm" else "model.visual.blocks."
    left, out = dict(seen), dict[str, Tensor]()
    if kind != "smolvlm":
        out |= _patches(left)
        _join_heads(left)
    for name, t in left.items():
        layer, at_depth = _LAYER.fullmatch(name), _DEEP.fullmatch(name)
        stem, _, end = name.rpartition(".")
        if layer and layer[2] in _LAYERS[kind]:
            out[f"{base}{layer[1]}.{_LAYERS[kind][layer[2]]}.{layer[3]}"] = t
        elif at_depth and int(at_depth[1]) in deep:
            part = {"norm": "norm", "fc1": "linear_fc1", "fc2": "linear_fc2"}[at_depth[2]]
            place = f"model.visual.deepstack_merger_list.{deep.index(int(at_depth[1]))}"
            out[f"{place}.{part}.{at_depth[3]}"] = t
        elif stem in _ENDS[kind]:
            prefix = "" if kind == "smolvlm" else "model.visual."
            out[f"{prefix}{_ENDS[kind][stem]}.{end}"] = t
        else:
            raise LoadError(f'the mmproj file has a tensor "{name}", which {kind} does not have')
    return out


def _patches(left: dict[str, Tensor]) -> dict[str, Tensor]:
    """The product of patches, of one tensor for each of two times."""
    names = ("v.patch_embd.weight", "v.patch_embd.weight.1")
    if any(name not in left for name in names):
        raise FormatError(f"the mmproj file has no tensor {' or '.join(names)}")
    times = [left.pop(name) for name in names]
    if times[0].ndim != 4 or times[0].shape != times[1].shape:
        raise FormatError(f"{names[0]} is of shape {times[0].shape}, {names[1]} {times[1].shape}")
    out = {"model.visual.patch_embed.proj.weight": stack(times, 2)}
    if (bias := left.pop("v.patch_embd.bias", None)) is not None:
        out["model.visual.patch_embed.proj.bias"] = bias
    return out


def _join_heads(left: dict[str, Tensor]) -> None:
    """q, k and v of each layer as one product."""
    for name in [name for name in left if ".attn_q." in name]:
        names = [name.replace(".attn_q.", f".attn_{part}.") for part in "qkv"]
        if any(other not in left for other in names):
            raise FormatError(f"the mmproj file has {name}, but not all of q, k and v")
        left[name.replace(".attn_q.", ".attn_qkv.")] = cat([left.pop(n) for n in names])


def _token(files: Mapping[str, bytes], place: str) -> int:
    """The id of the placeholder, by the tokenizer of the language model."""
    from rushlight.models.small_files import find_tokenizer

    tokenizer = find_tokenizer(files)
    ids = [] if tokenizer is None else tokenizer.encode(place, add_special_tokens=False).ids
    if len(ids) != 1:
        raise FormatError(
            f"the vocabulary of the language model has no token {place!r}, which stands for "
            "pictures; load the GGUF file that the mmproj file was made for"
        )
    return int(ids[0])


def _processor(kind: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The preprocessor_config.json of the keys clip.vision.*"""
    vision = "clip.vision."
    told: dict[str, Any] = {}
    for name in ("mean", "std"):
        value = metadata.get(f"{vision}image_{name}")
        if value is not None:
            told[f"image_{name}"] = np.asarray(value, np.float64).reshape(-1).tolist()
    if kind == "smolvlm":
        tile = _whole(metadata, f"{vision}image_size", most=1 << 15)
        longest = _whole(metadata, f"{vision}preproc_image_size", 4 * tile, 1 << 15)
        return told | {
            "image_processor_type": "SmolVLMImageProcessor",
            "size": {"longest_edge": longest}, "max_image_size": {"longest_edge": tile},
        }  # fmt: skip
    for name, key in (("min_pixels", "image_min_pixels"), ("max_pixels", "image_max_pixels")):
        if f"{vision}{key}" in metadata:
            told[name] = _whole(metadata, f"{vision}{key}", most=1 << 26)
    return told | {
        "image_processor_type": "Qwen2VLImageProcessor", "temporal_patch_size": 2,
        "patch_size": _whole(metadata, f"{vision}patch_size"),
        "merge_size": _whole(metadata, f"{vision}spatial_merge_size", 2),
    }  # fmt: skip
