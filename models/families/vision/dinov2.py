"""DINOv2 (Oquab et al., 2023), with registers too (Darcet et al., 2023): features of images."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
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

TIMM = (
    "vit_small_patch14_dinov2",
    "vit_base_patch14_dinov2",
    "vit_large_patch14_dinov2",
    "vit_giant_patch14_dinov2",
    "vit_small_patch14_reg4_dinov2",
    "vit_base_patch14_reg4_dinov2",
    "vit_large_patch14_reg4_dinov2",
    "vit_giant_patch14_reg4_dinov2",
)
BASES = {"dinov2": "Dinov2", "dinov2_with_registers": "Dinov2WithRegisters"}
PLAIN = LayerNames(norm1="norm1", norm2="norm2", up="mlp.fc1", down="mlp.fc2")
GATED = LayerNames(norm1="norm1", norm2="norm2", up="mlp.weights_in", down="mlp.weights_out")


@dataclass
class Config:
    """The keys of config.json."""

    own = ("num_register_tokens", "joint_head")

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    mlp_ratio: float = 4
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    image_size: Any = 224
    patch_size: Any = 14
    num_channels: int = 3
    qkv_bias: bool = True
    layerscale_value: float = 1.0  # before training
    drop_path_rate: float = 0.0
    use_swiglu_ffn: bool = False
    num_register_tokens: int = 4
    use_mask_token: bool = True
    apply_layernorm: bool = True  # of a backbone
    reshape_hidden_states: bool = True
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    joint_head: bool = True  # the classifier reads the patches' mean too; timm's does not
    model_type: str = "dinov2"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    kind = BASES.get(c.model_type, "Dinov2")
    labels = classes_of({"architectures": [f"{kind}Model"]} | config, kind)
    base = c.model_type if any(n.startswith(f"{c.model_type}.") for n in names) or labels else ""
    return ViT(c, describe(c, base, names), labels)


def describe(c: Config, base: str, names: Collection[str]) -> ViTSpec:
    """The description of the transformer that a configuration asks for; base: of its names."""
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    if not 1 <= c.num_register_tokens <= 1 << 10:
        raise FormatError(f"config.json: num_register_tokens is {c.num_register_tokens}")
    inner = int(c.hidden_size * c.mlp_ratio)
    if c.use_swiglu_ffn:  # two thirds, in multiples of 8
        inner = (int(inner * 2 / 3) + 7) // 8 * 8
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        inner,
        "silu" if c.use_swiglu_ffn else c.hidden_act,
        c.layer_norm_eps,
        (c.qkv_bias,) * 3,
        c.use_swiglu_ffn,
        True,
        GATED if c.use_swiglu_ffn else PLAIN,
    )
    mask = (1, c.hidden_size) if any(n.endswith("embeddings.mask_token") for n in names) else None
    return ViTSpec(
        layer,
        c.num_hidden_layers,
        pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"),
        base,
        c.num_channels,
        registers=c.num_register_tokens if "registers" in c.model_type else 0,
        mask=mask,
        joint=c.joint_head,
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under transformers' names."""
    if "blocks.0.norm1.weight" not in tensors:
        return dict(tensors)
    names = GATED if _gated(tensors) else PLAIN
    parts = {"norm1": names.norm1, "norm2": names.norm2, "mlp.fc1": names.up, "mlp.fc2": names.down}
    base = _kind(tensors)
    named = renamed(tensors, base, {"head": "classifier"}, parts)
    return (
        named
        if "head.weight" in tensors
        else {n.removeprefix(f"{base}."): t for n, t in named.items()}
    )


def _kind(tensors: Mapping[str, Tensor]) -> str:
    return "dinov2_with_registers" if "reg_token" in tensors else "dinov2"


def _gated(tensors: Mapping[str, Tensor]) -> bool:
    """Whether the MLP's first matrix makes two halves of what the second takes."""
    first, last = (tensors.get(f"blocks.0.mlp.fc{i}.weight") for i in (1, 2))
    return first is not None and last is not None and first.shape[0] == 2 * last.shape[1]


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's, whose classifier reads the first token alone."""
    sizes = timm_sizes(tensors, config)
    width, kind, gated = sizes["hidden_size"], _kind(tensors), _gated(tensors)
    inner = sizes.pop("intermediate_size")
    # Of a gated MLP two thirds are kept: this ratio gives the stored size.
    ratio = (inner / 2 * 1.5 + 0.25) / width if gated else inner / width
    head = tensors.get("head.weight")
    values = {
        "model_type": kind,
        **sizes,
        "use_swiglu_ffn": gated,
        "mlp_ratio": ratio,
        "joint_head": False,
        "architectures": [f"{BASES[kind]}{'Model' if head is None else 'ForImageClassification'}"],
    }
    if "reg_token" in tensors:
        values["num_register_tokens"] = tensors["reg_token"].shape[1]
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=("dinov2", "dinov2_with_registers"),
    tasks=("image-feature-extraction", "image-classification"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    timm=TIMM,
    timm_config=timm_config,
)
