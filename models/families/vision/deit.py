"""DeiT (Touvron et al., 2020): ViT with a token that a teacher's answer was distilled into."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import vit
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.timm_vit import renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

TEACHER = "DeiTForImageClassificationWithTeacher"


@dataclass
class Config(vit.Config):
    """The keys of config.json."""

    model_type: str = "deit"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("pooler_act", c.pooler_act, tuple(ACTIVATIONS))
    both = config.get("architectures") == [TEACHER]
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        c.layer_norm_eps,
        (c.qkv_bias,) * 3,
    )
    pooler = any(n.removeprefix("deit.").startswith("pooler.") for n in names)
    spec = ViTSpec(
        layer,
        c.num_hidden_layers,
        pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"),
        "deit",
        c.num_channels,
        ("cls_token", "distillation_token"),
        pooler=(c.pooler_output_size or c.hidden_size, c.pooler_act) if pooler else None,
        heads=("cls_classifier", "distillation_classifier") if both else ("classifier",),
    )
    return ViT(c, spec, labels_of(config) if both else classes_of(config, "DeiT"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under transformers' names; without the teacher's token they are a ViT's."""
    if "blocks.0.norm1.weight" not in tensors:
        return dict(tensors)
    heads = {"head": "cls_classifier", "head_dist": "distillation_classifier"}
    return renamed(tensors, "deit", heads)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    if "dist_token" not in tensors:
        return vit.timm_config(config, tensors)
    values = {"model_type": "deit", "architectures": [TEACHER], **timm_sizes(tensors, config)}
    if "head.weight" not in tensors:
        return values | {"architectures": ["DeiTModel"]}
    return values | {"num_labels": tensors["head.weight"].shape[0]}


FAMILY = Family(
    model_types=("deit",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="deit.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    timm=("deit_",),
    timm_config=timm_config,
)
