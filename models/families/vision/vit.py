"""ViT (Dosovitskiy et al., 2020): an image as a sequence of patches.

Trained in other ways it is ViT-MAE (He et al., 2021), ViT-MSN (Assran et al., 2022) and I-JEPA
(Assran et al., 2023), which has no class token.
"""

from __future__ import annotations

import re
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
from rushlight.models.layers.vision.timm_vit import TOLD_TORCHVISION, renamed, timm_sizes
from rushlight.models.layers.vision.transformer import LayerSpec
from rushlight.models.layers.vision.vit import ViT, ViTSpec, pair

BASES = {"vit": "ViT", "vit_msn": "ViTMSN", "vit_mae": "ViTMAE", "ijepa": "IJepa"}
_OTHERS = re.compile(r"_(rope|pe)_")  # timm's with rotations by a patch's place
# Activations that config.json does not tell: CLIP's, and of some SigLIP 2 the approximate GELU.
_ACTS = {
    "quick_gelu": re.compile("_quickgelu_"),
    "gelu_tanh": re.compile(
        r"^vit_(?:(?:base_patch32|giantopt_patch16|so400m_patch16)_siglip_(?:gap_)?"
        r"|large_patch16_siglip_(?:gap_)?512)"
    ),
}
_KNOWN = re.compile(
    r"(?:cls_token|class_token|reg_token|pos_embed|(?:conv_proj|patch_embed\.proj)\.\w+|encoder\..+"
    r"|attn_pool\.(?:latent|(?:q|kv|proj|norm|mlp\.fc[12])\.\w+)"
    r"|(?:norm_pre|norm|fc_norm|head|heads\.head)\.\w+"
    r"|blocks\.\d+\.(?:norm[12]|attn\.(?:qkv|proj)|mlp\.fc[12]|ls[12])\.\w+"
    r"|(?:blocks\.\d+\.attn|shared)[._]rel_pos\.(?:mlp\.fc[12]\.\w+|\w+_bias_table))"
)
_BIAS = "relative_position_bias"
_PARTS = {
    "attn.rel_pos.mlp.fc1": f"attention.attention.{_BIAS}.mlp.fc1",
    "attn.rel_pos.mlp.fc2": f"attention.attention.{_BIAS}.mlp.fc2",
    f"attn.rel_pos.{_BIAS}_table": f"attention.attention.{_BIAS}.{_BIAS}_table",
}
_TOP = {
    "fc_norm": "fc_norm",
    "shared_rel_pos": f"encoder.{_BIAS}",
    "shared_rel_pos.mlp.fc1": f"encoder.{_BIAS}.mlp.fc1",
    "shared_rel_pos.mlp.fc2": f"encoder.{_BIAS}.mlp.fc2",
}


@dataclass
class Config:
    """The keys of config.json. class_token to norm_after: of timm's checkpoints.

    relative: biases of distances, of "each" layer or "shared". relative_size: of the products that
    make them; 0 where they are tables.
    """

    own = (
        "class_token",
        "num_register_tokens",
        "global_pool",
        "norm_at",
        "norm_before",
        "learned",
        "relative",
        "relative_size",
        "norm_after",
    )

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
    class_token: bool = True
    num_register_tokens: int = 0
    global_pool: str = "token"
    norm_at: str = "patches"
    norm_before: bool = False
    learned: bool = True
    relative: str = ""
    relative_size: int = 0
    norm_after: bool = False
    model_type: str = "vit"


@dataclass
class Masked(Config):
    """The keys of ViT-MAE's config.json; every patch is seen, and the decoder is not read."""

    neutral = {
        name: ()
        for name in (
            "decoder_num_attention_heads",
            "decoder_hidden_size",
            "decoder_num_hidden_layers",
            "decoder_intermediate_size",
            "mask_ratio",
            "norm_pix_loss",
        )
    }

    model_type: str = "vit_mae"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = config.get("model_type")
    c = read_config(Masked if kind == "vit_mae" else Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("relative", c.relative, ("", "each", "shared"))
    choose("pooler_act", c.pooler_act, tuple(ACTIVATIONS))
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        c.layer_norm_eps,
        (c.qkv_bias,) * 3,
        scaled=any(".layer_scale1." in n for n in names),
        after=c.norm_after,
    )
    pooled = (c.pooler_output_size or c.hidden_size, c.pooler_act)
    pooler = pooled if any(n.removeprefix("vit.").startswith("pooler.") for n in names) else None
    base = "ijepa" if c.model_type == "ijepa" else "vit"
    whole = config
    if config.get("architectures") in (None, ["ViTMAEForPreTraining"]) and kind == "vit_mae":
        whole = config | {"architectures": ["ViTMAEModel"]}
    spec = ViTSpec(
        layer,
        c.num_hidden_layers,
        pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"),
        base,
        c.num_channels,
        ("cls_token",) if c.class_token and base == "vit" else (),
        c.num_register_tokens,
        pooler=pooler,
        last="layernorm" if c.norm_at == "patches" else "",
        mean=c.global_pool == "avg" or base == "ijepa",
        attended=c.global_pool == "map",
        entry="pre_layernorm" if c.norm_before else "",
        placed=c.learned,
        relative=c.relative,
        relative_inner=c.relative_size,
        pooled="fc_norm" if c.norm_at == "mean" else "",
    )
    return ViT(c, spec, classes_of(whole, BASES[c.model_type]))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm and torchvision under transformers' names."""
    other = TOLD_TORCHVISION in tensors or "blocks.0.norm1.weight" in tensors
    heads = {"head": "classifier", "heads.head": "classifier"}
    return renamed(tensors, "vit", heads, _PARTS, _TOP) if other else dict(tensors)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision."""
    return timm_config({}, tensors)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's, and that of a checkpoint of torchvision."""
    name, arguments = str(config.get("architecture")), config.get("model_args") or {}
    other = next((n for n in tensors if not _KNOWN.fullmatch(n)), None)
    if other or _OTHERS.search(name):
        raise FormatError(
            f"timm's {name} is a kind of ViT that is not supported{f' ({other})' * bool(other)}; "
            "supported: learned positions or biases of distances, a class token, the mean of the "
            "patches, or attention that pools them"
        )
    first, norms = {"cls_token", "class_token"} & tensors.keys(), ("fc_norm.weight", "norm.weight")
    before, attended = "norm_pre.weight" in tensors, "attn_pool.latent" in tensors
    usual = "map" if attended else "token" if first and norms[0] not in tensors else "avg"
    pool = config.get("global_pool") or usual
    fits = ("map",) if attended else ("token", "avg") if first else ("avg",)
    choose("global_pool", pool, fits)
    act = arguments.get("act_layer") or next(
        (a for a, told in _ACTS.items() if told.search(name)), "gelu"
    )
    kinds = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "quick_gelu": "quick_gelu"}
    choose("model_args.act_layer", act, tuple(kinds))
    told = {
        "class_token": bool(first),
        "global_pool": pool,
        "hidden_act": kinds[act],
        "num_register_tokens": tensors["reg_token"].shape[1] if "reg_token" in tensors else 0,
        "norm_at": "mean"
        if norms[0] in tensors
        else "patches"
        if norms[1] in tensors or not config
        else "none",
        "norm_before": before,
        "learned": any(n in tensors for n in ("pos_embed", "encoder.pos_embedding")),
        "norm_after": "_rpn_" in name,
        "qkv_bias": any(n.endswith((".qkv.bias", ".in_proj_bias")) for n in tensors),
    }
    head = next((tensors[n] for n in ("head.weight", "heads.head.weight") if n in tensors), None)
    kind = "ViTModel" if head is None else "ViTForImageClassification"
    values = {"model_type": "vit", "architectures": [kind], **told, **timm_sizes(tensors, config)}
    shared = any(n.startswith("shared_rel_pos.") for n in tensors)
    if shared or any(n.startswith("blocks.0.attn.rel_pos.") for n in tensors):
        inner = tensors.get(f"{'shared_' if shared else 'blocks.0.attn.'}rel_pos.mlp.fc1.bias")
        values |= {
            "relative": "shared" if shared else "each",
            "relative_size": 0 if inner is None else inner.shape[0],
        }
    if before:  # CLIP's
        values["layer_norm_eps"] = 1e-5
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=tuple(BASES),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="vit.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=lambda name, config: name.startswith("decoder."),
    tensors=("encoder.layers.encoder_layer_0.ln_1.weight",),
    config_of=config_of,
    timm=("vit_", "deit3_"),
    timm_config=timm_config,
)
