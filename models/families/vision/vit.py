"""ViT (Dosovitskiy et al., 2020): an image as a sequence of patches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config import choose, read_config
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.timm_vit import TOLD_TORCHVISION, renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

MODEL_TYPES = ("vit",)
TASKS = ("image-classification", "image-feature-extraction")
TIMM = ("vit_",)
TENSORS = ("encoder.layers.encoder_layer_0.ln_1.weight",)
BASE_PREFIX = "vit."


@dataclass
class Config:
    """The keys of config.json."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    image_size: Any = 224
    patch_size: Any = 16
    num_channels: int = 3
    qkv_bias: bool = True
    encoder_stride: int = 16  # of masked pictures
    pooler_output_size: int | None = None
    pooler_act: str = "tanh"
    model_type: str = "vit"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("pooler_act", c.pooler_act, tuple(ACTIVATIONS))
    layer = LayerSpec(c.hidden_size, c.num_attention_heads, c.intermediate_size, c.hidden_act,
                      c.layer_norm_eps, (c.qkv_bias,) * 3)  # fmt: skip
    pooled = (c.pooler_output_size or c.hidden_size, c.pooler_act)
    pooler = pooled if any(n.removeprefix("vit.").startswith("pooler.") for n in names) else None
    spec = ViTSpec(layer, c.num_hidden_layers, pair(c.image_size, "image_size"),
                   pair(c.patch_size, "patch_size"), channels=c.num_channels,
                   pooler=pooler)  # fmt: skip
    return ViT(c, spec, classes_of(config, "ViT"))


def adopt(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm and torchvision under transformers' names."""
    other = TOLD_TORCHVISION in tensors or "blocks.0.norm1.weight" in tensors
    heads = {"head": "classifier", "heads.head": "classifier"}
    return renamed(tensors, "vit", heads) if other else dict(tensors)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision."""
    return timm_config({}, tensors)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's, and that of a checkpoint of torchvision."""
    if any(n.startswith(("fc_norm.", "norm_pre.", "attn_pool.")) for n in tensors) or any(
        ".q_norm." in n or ".ls1." in n for n in tensors
    ):
        raise FormatError(
            f"timm's {config.get('architecture')} is a kind of ViT that is not supported; "
            "supported: a class token, norms before the parts, no layer scale"
        )
    head = next((tensors[n] for n in ("head.weight", "heads.head.weight") if n in tensors), None)
    kind = "ViTModel" if head is None else "ViTForImageClassification"
    made = {"model_type": "vit", "architectures": [kind], **timm_sizes(tensors, config)}
    return made if head is None else made | {"num_labels": head.shape[0]}
