"""EVA-02 (Fang et al., 2023) and EVA (Fang et al., 2022), of timm."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config import read_config
from rushlight.models.layers.vision.attention.places import Rotary
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.timm_vit import renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerNames, LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

MODEL_TYPES = ("eva2",)
TASKS = ("image-classification", "image-feature-extraction")
TIMM = ("eva02_", "eva_")
_PARTS = {"mlp.fc1_x": "intermediate.dense", "mlp.fc1_g": "mlp.gate", "mlp.norm": "mlp.norm",
          "attn.norm": "attention.norm"}  # fmt: skip
_TRAINED = (16, 16)  # the grid whose places the rotations have


@dataclass
class Config:
    """The keys of a config.json. gated: the MLP's halves are "joint", "apart" or not there."""

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
    model_type: str = "eva2"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    head = c.hidden_size // max(c.num_attention_heads, 1)
    if head < 4 or head % 4:
        raise FormatError(
            f"config.json: heads of {head} channels; their width must be a multiple of 4"
        )
    path = LayerNames(
        gate="mlp.gate" if c.gated == "apart" else "", inner="mlp.norm" if c.inner_norm else "",
        seen="attention.norm" if c.attention_norm else "",
    )  # fmt: skip
    layer = LayerSpec(
        c.hidden_size, c.num_attention_heads, c.intermediate_size, "silu" if c.gated else "gelu",
        c.layer_norm_eps, (c.qkv_bias, False, c.qkv_bias), bool(c.gated), names=path,
        rotary=Rotary(head, 10000.0, _TRAINED, True) if c.rotary else None,
    )  # fmt: skip
    return ViT(c, ViTSpec(
        layer, c.num_hidden_layers, pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"), "eva2", c.num_channels,
        last="" if c.mean else "layernorm", mean=c.mean,
        pooled="pooler.layernorm" if c.mean else "",
    ), classes_of(config, "Eva2"))  # fmt: skip


def adopt(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under the names of transformers' families."""
    if "blocks.0.norm1.weight" not in tensors:
        return dict(tensors)
    found = renamed(
        tensors, "eva2", {"head": "classifier"}, _PARTS, {"fc_norm": "pooler.layernorm"}
    )
    # A joint bias holds zeros for the keys.
    return {n: t for n, t in found.items() if not n.endswith("attention.attention.key.bias")}


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    head, sizes = tensors.get("head.weight"), timm_sizes(tensors, config)
    last = tensors.get("blocks.0.mlp.fc2.weight")
    if last is None or "norm_pre.weight" in tensors or "blocks.0.gamma_1" in tensors:
        raise FormatError(
            f"timm's {config.get('architecture')} is a kind of EVA that is not supported; "
            "supported: norms before the parts, no layer scale"
        )
    joint = sizes["intermediate_size"] == 2 * last.shape[1]
    apart = "blocks.0.mlp.fc1_g.weight" in tensors
    made = {
        "model_type": "eva2", **sizes, "intermediate_size": last.shape[1],
        "architectures": [f"Eva2{'Model' if head is None else 'ForImageClassification'}"],
        "gated": "apart" if apart else "joint" if joint else "",
        "inner_norm": "blocks.0.mlp.norm.weight" in tensors,
        "attention_norm": "blocks.0.attn.norm.weight" in tensors,
        "rotary": str(config.get("architecture")).startswith("eva02_"),
        "mean": "fc_norm.weight" in tensors,
        "qkv_bias": any(f"blocks.0.attn.{n}" in tensors
                        for n in ("q_bias", "q_proj.bias", "qkv.bias")),
    }  # fmt: skip
    return made if head is None else made | {"num_labels": head.shape[0]}
