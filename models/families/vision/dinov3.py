"""DINOv3 (Siméoni et al., 2025): features of images, by a transformer or a ConvNeXt."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.attention.places import Rotary
from rushlight.models.layers.vision.convnext import ConvNeXt
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.timm_vit import renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerNames, LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

TIMM = (
    "vit_tiny_patch16_dinov3",
    "vit_small_patch16_dinov3",
    "vit_small_plus_patch16_dinov3",
    "vit_base_patch16_dinov3",
    "vit_large_patch16_dinov3",
    "vit_huge_plus_patch16_dinov3",
    "vit_7b_patch16_dinov3",
)
NAMES = LayerNames(
    "attention.q_proj",
    "attention.k_proj",
    "attention.v_proj",
    "attention.o_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "norm1",
    "norm2",
)
GATED = LayerNames(**dataclasses.asdict(NAMES) | {"gate": "mlp.gate_proj"})
_PARTS = {
    "norm1": "norm1",
    "norm2": "norm2",
    "attn.proj": "attention.o_proj",
    "mlp.fc1": "mlp.up_proj",
    "mlp.fc1_x": "mlp.up_proj",
    "mlp.fc1_g": "mlp.gate_proj",
    "mlp.fc2": "mlp.down_proj",
    "gamma_1": "layer_scale1.lambda1",
    "gamma_2": "layer_scale2.lambda1",
}
_STAGE = re.compile(r"(?:model\.)?stages\.(\d)\.(downsample_layers|layers)\.(\d{1,3})\.(.+)")
_CONV = {
    "depthwise_conv": "dwconv",
    "layer_norm": "layernorm",
    "pointwise_conv1": "pwconv1",
    "pointwise_conv2": "pwconv2",
}


@dataclass
class Config:
    """The keys of a transformer's config.json. mean: timm's head reads the mean of the patches."""

    own = ("mean",)

    patch_size: Any = 16
    hidden_size: int = 384
    intermediate_size: int = 1536
    num_hidden_layers: int = 12
    num_attention_heads: int = 6
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    rope_theta: float = 100.0
    image_size: Any = 224
    num_channels: int = 3
    query_bias: bool = True
    key_bias: bool = False
    value_bias: bool = True
    proj_bias: bool = True
    mlp_bias: bool = True
    layerscale_value: float = 1.0  # before training
    drop_path_rate: float = 0.0
    use_gated_mlp: bool = False
    num_register_tokens: int = 0
    pos_embed_shift: float | None = None  # of training
    pos_embed_jitter: float | None = None
    pos_embed_rescale: float | None = 2.0
    apply_layernorm: bool = True  # of a backbone
    reshape_hidden_states: bool = True
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    mean: bool = False
    model_type: str = "dinov3_vit"


@dataclass
class ConvConfig:
    """The keys of a ConvNeXt's config.json."""

    num_channels: int = 3
    hidden_sizes: list[int] = field(default_factory=lambda: [96, 192, 384, 768])
    depths: list[int] = field(default_factory=lambda: [3, 3, 9, 3])
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    layer_scale_init_value: float = 1e-6  # before training
    drop_path_rate: float = 0.0
    image_size: Any = 224
    patch_size: int = 4
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    stage_names: list[Any] | None = None
    model_type: str = "dinov3_convnext"


class DINOv3ConvNeXt(ConvNeXt):
    """Pixels -> the mean and the places (batch, 1 + places, channels), after one norm."""

    def hidden(self, pixels: Tensor) -> Tensor:
        last_map = super().hidden(pixels)
        places = cat([last_map.mean((2, 3)).unsqueeze(2), last_map.flatten(2)], 2).transpose(1, 2)
        normed: Tensor = self.get_submodule(f"{self.config.model_type}.layernorm")(places)
        return normed

    def encode_image(self, pixels: Tensor) -> Tensor:
        return self.hidden(pixels)[:, 0]


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ImageModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    if config["model_type"] == "dinov3_convnext":
        return _convnext(config)
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    labels = classes_of({"architectures": ["DINOv3ViTModel"]} | config, "DINOv3ViT")
    head = c.hidden_size // max(c.num_attention_heads, 1)
    if head < 4 or head % 4 or not 0 <= c.num_register_tokens <= 1 << 10:
        raise FormatError(
            f"config.json: hidden_size {c.hidden_size}, num_attention_heads "
            f"{c.num_attention_heads} and num_register_tokens {c.num_register_tokens} do not fit; "
            "a head's width must be a multiple of 4"
        )
    gated = c.use_gated_mlp
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        c.layer_norm_eps,
        (c.query_bias, c.key_bias, c.value_bias),
        gated,
        True,
        GATED if gated else NAMES,
        Rotary(head, c.rope_theta),
        c.proj_bias,
        c.mlp_bias,
    )
    model = ViT(
        c,
        ViTSpec(
            layer,
            c.num_hidden_layers,
            pair(c.image_size, "image_size"),
            pair(c.patch_size, "patch_size"),
            "",
            c.num_channels,
            registers=c.num_register_tokens,
            mask=(1, 1, c.hidden_size) if "embeddings.mask_token" in names else None,
            patches="embeddings.patch_embeddings",
            stack="layer",
            last="norm",
            placed=False,
            mean=c.mean,
        ),
        labels,
    )
    model.processor = KINDS["DINOv3ViT"]
    return model


def _convnext(config: dict[str, Any]) -> DINOv3ConvNeXt:
    c = read_config(ConvConfig, config, ("DINOv3ConvNextModel",))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    if not c.depths or len(c.depths) != len(c.hidden_sizes):
        raise FormatError(
            f"config.json: depths {c.depths} and hidden_sizes {c.hidden_sizes} do not agree"
        )
    model = DINOv3ConvNeXt(c, (), True)
    model.processor = KINDS["DINOv3ViT"]
    return model


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm, of newer files and of a ConvNeXt under the names that the models have."""
    if any(_STAGE.fullmatch(n) for n in tensors):
        return {_convolutional(n): t for n, t in tensors.items()}
    if "blocks.0.norm1.weight" not in tensors:  # no registers are a tensor without elements
        return {
            re.sub(r"^model\.layer\.", "layer.", n): t
            for n, t in tensors.items()
            if 0 not in t.shape
        }
    top = {"patch_embed.proj": "embeddings.patch_embeddings", "norm": "norm"}
    by_name = renamed(tensors, "dinov3_vit", {"head": "classifier"}, _PARTS, top)
    for projection in ("query", "key", "value"):
        old, new = f"attention.attention.{projection}", f"attention.{projection[0]}_proj"
        by_name = {n.replace(old, new): t for n, t in by_name.items()}
    by_name = {n.replace("dinov3_vit.encoder.layer.", "layer."): t for n, t in by_name.items()}
    return {n.removeprefix("dinov3_vit."): t for n, t in by_name.items()}


def _convolutional(name: str) -> str:
    base = "dinov3_convnext."
    if not (match := _STAGE.fullmatch(name)):
        return f"{base}layernorm.{name[11:]}" if name.startswith("layer_norm.") else name
    stage, kind, number, rest = match.groups()
    if kind == "layers":
        module, _, what = rest.rpartition(".")
        rest = "layer_scale_parameter" if rest == "gamma" else f"{_CONV.get(module, module)}.{what}"
        return f"{base}encoder.stages.{stage}.layers.{number}.{rest}"
    if stage == "0":
        return f"{base}embeddings.{('patch_embeddings', 'layernorm')[int(number) > 0]}.{rest}"
    return f"{base}encoder.stages.{stage}.downsampling_layer.{number}.{rest}"


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    head, registers = tensors.get("head.weight"), tensors.get("reg_token")
    biased = "blocks.0.attn.q_bias" in tensors
    values = {
        "model_type": "dinov3_vit",
        **timm_sizes(tensors, config),
        "layer_norm_eps": 1e-5,
        "architectures": [f"DINOv3ViT{'Model' if head is None else 'ForImageClassification'}"],
        "query_bias": biased,
        "value_bias": biased,
        "use_gated_mlp": "blocks.0.mlp.fc1_g.weight" in tensors,
        "num_register_tokens": 0 if registers is None else registers.shape[1],
        "mean": config.get("global_pool", "avg") == "avg",
    }
    if values["use_gated_mlp"]:
        values["hidden_act"] = "silu"
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=("dinov3_vit", "dinov3_convnext"),
    tasks=("image-feature-extraction", "image-classification"),
    config=Config,
    build=build,
    refused=("return_class_token",),
    rename_tensors=rename_tensors,
    timm=TIMM,
    timm_config=timm_config,
)
