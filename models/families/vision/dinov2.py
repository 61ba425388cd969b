"""DINOv2 (Oquab et al., 2023), with registers too (Darcet et al., 2023): features of images."""

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
from rushlight.models.layers.vision.timm_vit import renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerNames, LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

MODEL_TYPES = ("dinov2", "dinov2_with_registers")
TASKS = ("image-feature-extraction", "image-classification")
TIMM = ("vit_small_patch14_dinov2", "vit_base_patch14_dinov2", "vit_large_patch14_dinov2",
        "vit_giant_patch14_dinov2", "vit_small_patch14_reg4_dinov2", "vit_base_patch14_reg4_dinov2",
        "vit_large_patch14_reg4_dinov2", "vit_giant_patch14_reg4_dinov2")  # fmt: skip
BASES = {"dinov2": "Dinov2", "dinov2_with_registers": "Dinov2WithRegisters"}
PLAIN = LayerNames(norm1="norm1", norm2="norm2", up="mlp.fc1", down="mlp.fc2")
GATED = LayerNames(norm1="norm1", norm2="norm2", up="mlp.weights_in", down="mlp.weights_out")


@dataclass
class Config:
    """The keys of config.json."""

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
    stage_names: list[Any] | None = None
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
        c.hidden_size, c.num_attention_heads, inner, "silu" if c.use_swiglu_ffn else c.hidden_act,
        c.layer_norm_eps, (c.qkv_bias,) * 3, c.use_swiglu_ffn, True,
        GATED if c.use_swiglu_ffn else PLAIN,
    )  # fmt: skip
    mask = (1, c.hidden_size) if any(n.endswith("embeddings.mask_token") for n in names) else None
    return ViTSpec(
        layer, c.num_hidden_layers, pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"), base, c.num_channels,
        registers=c.num_register_tokens if "registers" in c.model_type else 0, mask=mask,
        joint=True,
    )  # fmt: skip


def adopt(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under transformers' names."""
    if "blocks.0.norm1.weight" not in tensors:
        return dict(tensors)
    parts = {"norm1": "norm1", "norm2": "norm2"} | {f"mlp.fc{i}": f"mlp.fc{i}" for i in (1, 2)}
    if "blocks.0.mlp.fc1_g.weight" in tensors:
        raise FormatError("timm's MLP with two matrices is not supported")
    named = renamed(tensors, "x", {}, parts)
    return {n.removeprefix("x."): t for n, t in named.items()}


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's. Its classes' token alone has no position where registers are."""
    sizes = timm_sizes(tensors, config)
    inner, width = sizes.pop("intermediate_size"), sizes["hidden_size"]
    gated = tensors["blocks.0.mlp.fc2.weight"].shape[1] != inner
    kind = "dinov2_with_registers" if "reg_token" in tensors else "dinov2"
    made = {"model_type": kind, "architectures": [f"{BASES[kind]}Model"], **sizes,
            "use_swiglu_ffn": gated, "mlp_ratio": 4 if gated else inner / width}  # fmt: skip
    return made | ({"num_register_tokens": tensors["reg_token"].shape[1]}
                   if "reg_token" in tensors else {})  # fmt: skip
