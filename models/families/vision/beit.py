"""BEiT (Bao et al., 2021) and v2 (Peng et al., 2022), data2vec of images (Baevski et al., 2022)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.timm_vit import renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerNames, LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

BASES = {"beit": "Beit", "data2vec-vision": "Data2VecVision"}
NAMES = LayerNames(scale1="lambda_1", scale2="lambda_2")


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {  # data2vec's, of its models of sounds
        "apply_spec_augment": (), "embedding_size": (), "num_feat_extract_layers": (),
    }  # fmt: skip

    vocab_size: int = 8192  # of masked pictures
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    image_size: Any = 224
    patch_size: Any = 16
    num_channels: int = 3
    use_mask_token: bool = False
    use_absolute_position_embeddings: bool = False
    use_relative_position_bias: bool = False
    use_shared_relative_position_bias: bool = False
    layer_scale_init_value: float = 0.1
    drop_path_rate: float = 0.1
    use_mean_pooling: bool = True
    # Of segmentation and backbones:
    pool_scales: list[int] = field(default_factory=lambda: [1, 2, 3, 6])
    use_auxiliary_head: bool = True
    auxiliary_loss_weight: float = 0.4
    auxiliary_channels: int = 256
    auxiliary_num_convs: int = 1
    auxiliary_concat_input: bool = False
    semantic_loss_ignore_index: int = 255
    segmentation_indices: list[Any] | None = None
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    reshape_hidden_states: bool = True
    model_type: str = "beit"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    if c.use_relative_position_bias and c.use_shared_relative_position_bias:
        raise FormatError(
            "config.json: use_relative_position_bias and use_shared_relative_position_bias are "
            "both true; one of them must be false"
        )
    base = BASES[c.model_type]
    labels = classes_of({"architectures": [f"{base}ForImageClassification"]} | config, base)
    base = c.model_type.replace("-", "_")
    prefixed = labels or any(n.startswith(f"{base}.") for n in names)
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        c.layer_norm_eps,
        (True, False, True),
        scaled=c.layer_scale_init_value > 0,
        names=NAMES,
    )
    relative = "each" if c.use_relative_position_bias else ""
    mean = c.use_mean_pooling
    classifies = config.get("architectures") != ["BeitBackbone"]  # which has no norm of the mean
    return ViT(
        c,
        ViTSpec(
            layer,
            c.num_hidden_layers,
            pair(c.image_size, "image_size"),
            pair(c.patch_size, "patch_size"),
            base if prefixed else "",
            c.num_channels,
            mask=(1, 1, c.hidden_size) if any(n.endswith(".mask_token") for n in names) else None,
            last="" if mean else "layernorm",
            placed=c.use_absolute_position_embeddings,
            relative="shared" if c.use_shared_relative_position_bias else relative,
            mean=mean,
            pooled="pooler.layernorm" if mean and classifies else "",
        ),
        labels,
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under transformers' names."""
    tensors = {n: t for n, t in tensors.items() if not n.endswith("relative_position_index")}
    if "blocks.0.norm1.weight" not in tensors:
        return tensors
    return renamed(tensors, "beit", {"head": "classifier"}, top={"fc_norm": "pooler.layernorm"})


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    head = tensors.get("head.weight")
    values = {
        "model_type": "beit",
        **timm_sizes(tensors, config),
        "architectures": [f"Beit{'Model' if head is None else 'ForImageClassification'}"],
        "use_mean_pooling": "fc_norm.weight" in tensors,
        "use_relative_position_bias": any(n.endswith("bias_table") for n in tensors),
        "use_absolute_position_embeddings": "pos_embed" in tensors,
        "layer_scale_init_value": float("blocks.0.gamma_1" in tensors),
    }
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=tuple(BASES),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    refused=("add_fpn",),
    rename_tensors=rename_tensors,
    timm=("beit_", "beitv2_"),
    timm_config=timm_config,
)
