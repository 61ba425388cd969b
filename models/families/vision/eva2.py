"""EVA-02 and EVA (Fang et al., 2023, 2022) and ViTs with rotations (Heo et al., 2024), of timm."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.vision.attention.places import Rotary
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.timm_vit import renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerNames, LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

TIMM = (
    "eva02_",
    "eva_",
    "vit_small_patch16_rope_",
    "vit_medium_patch16_rope_",
    "vit_mediumd_patch16_rope_",
    "vit_betwixt_patch16_rope_",
    "vit_base_patch16_rope_",
    "vit_large_patch16_rope_",
)
_PARTS = {
    "mlp.fc1_x": "intermediate.dense",
    "mlp.fc1_g": "mlp.gate",
    "mlp.norm": "mlp.norm",
    "attn.norm": "attention.norm",
}
_TRAINED = (16, 16)  # the grid whose places the rotations have


@dataclass
class Config:
    """The keys of a config.json. gated: the MLP's halves are "joint", "apart" or not there.

    rope: rotations by places "scaled" to those of training, by their "numbers", or with bands that
    are "learned".
    """

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    image_size: Any
    patch_size: Any
    num_channels: int = 3
    layer_norm_eps: float = 1e-6
    gated: str = "joint"
    inner_norm: bool = False
    attention_norm: bool = False
    qkv_bias: bool = True
    rotary: bool = True
    mean: bool = True
    rope: str = "scaled"
    class_token: bool = True
    num_register_tokens: int = 0
    placed: bool = True
    norm_after: bool = False
    model_type: str = "eva2"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("rope", c.rope, ("scaled", "numbers", "learned"))
    head = c.hidden_size // max(c.num_attention_heads, 1)
    if head < 4 or head % 4:
        raise FormatError(
            f"config.json: heads of {head} channels; their width must be a multiple of 4"
        )
    path = LayerNames(
        gate="mlp.gate" if c.gated == "apart" else "",
        inner="mlp.norm" if c.inner_norm else "",
        seen="attention.norm" if c.attention_norm else "",
        scale1="lambda_1",
        scale2="lambda_2",
    )
    keys = any(n.endswith(".key.bias") for n in names)
    numbers = c.rope != "scaled"
    rotary = Rotary(
        head, 100.0 if numbers else 10000.0, (0, 0) if numbers else _TRAINED, True, numbers
    )
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        "silu" if c.gated else "gelu",
        c.layer_norm_eps,
        (c.qkv_bias, keys, c.qkv_bias),
        bool(c.gated),
        names=path,
        rotary=rotary if c.rotary else None,
        scaled=any(n.endswith(".lambda_1") for n in names),
        after=c.norm_after,
    )
    return ViT(
        c,
        ViTSpec(
            layer,
            c.num_hidden_layers,
            pair(c.image_size, "image_size"),
            pair(c.patch_size, "patch_size"),
            "eva2",
            c.num_channels,
            ("cls_token",) if c.class_token else (),
            c.num_register_tokens,
            placed=c.placed,
            mixed=c.rope == "learned",
            last="" if c.mean else "layernorm",
            mean=c.mean,
            pooled="pooler.layernorm" if c.mean else "",
        ),
        classes_of(config, "Eva2"),
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under the names of transformers' families."""
    if "blocks.0.norm1.weight" not in tensors:
        return dict(tensors)
    heads = {"head": "classifier", "rope": "eva2.rotary"}
    by_name = renamed(tensors, "eva2", heads, _PARTS, {"fc_norm": "pooler.layernorm"})
    return {n.replace("rotary.freqs", "rotary_frequencies"): t for n, t in by_name.items()}


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    head, sizes = tensors.get("head.weight"), timm_sizes(tensors, config)
    last = tensors.get("blocks.0.mlp.fc2.weight")
    if last is None or "norm_pre.weight" in tensors:
        raise FormatError(
            f"timm's {config.get('architecture')} is a kind of EVA that is not supported; "
            "supported: no norm before the layers"
        )
    name, arguments = str(config.get("architecture")), config.get("model_args") or {}
    if other := [n for n in arguments if n.startswith(("rope_", "ref_feat_", "qk_"))]:
        raise FormatError(f"config.json: model_args: {other} of an EVA are not supported")
    pool = "avg" if "fc_norm.weight" in tensors else "token"
    choose("global_pool", config.get("global_pool") or pool, (pool,))
    joint = sizes["intermediate_size"] == 2 * last.shape[1]
    apart = "blocks.0.mlp.fc1_g.weight" in tensors
    values = {
        "model_type": "eva2",
        **sizes,
        "intermediate_size": last.shape[1],
        "architectures": [f"Eva2{'Model' if head is None else 'ForImageClassification'}"],
        "gated": "apart" if apart else "joint" if joint else "",
        "inner_norm": "blocks.0.mlp.norm.weight" in tensors,
        "attention_norm": "blocks.0.attn.norm.weight" in tensors,
        "rotary": not name.startswith(("eva_", "eva02_enormous_")),
        "class_token": "cls_token" in tensors,
        "num_register_tokens": tensors["reg_token"].shape[1] if "reg_token" in tensors else 0,
        "placed": "pos_embed" in tensors,
        "norm_after": arguments.get("use_post_norm", name.startswith("eva02_enormous_")),
        "rope": "learned"
        if "rope.freqs" in tensors
        else "numbers"
        if name.startswith("vit_") and "_gap_" not in name
        else "scaled",
        "mean": pool == "avg",
        "qkv_bias": any(
            f"blocks.0.attn.{n}" in tensors for n in ("q_bias", "q_proj.bias", "qkv.bias")
        ),
    }
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=("eva2",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    timm=TIMM,
    timm_config=timm_config,
)
