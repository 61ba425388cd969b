"""Vision transformers of timm and torchvision under transformers' names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor

TOLD_TIMM, TOLD_TORCHVISION = (
    "blocks.0.attn.qkv.weight",
    "encoder.layers.encoder_layer_0.ln_1.weight",
)
_LAYER = re.compile(r"(?:blocks\.|encoder\.layers\.encoder_layer_)(\d{1,4})\.(.+)")
_UP = re.compile(
    r"(?:blocks\.0\.mlp\.fc1(?:_g)?"
    r"|encoder\.layers\.encoder_layer_0\.mlp\.(?:0|linear_1))\.weight"
)
_PARTS = {
    "norm1": "layernorm_before", "norm2": "layernorm_after", "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense", "ln_1": "layernorm_before",
    "ln_2": "layernorm_after", "self_attention.out_proj": "attention.output.dense",
    "mlp.linear_1": "intermediate.dense", "mlp.linear_2": "output.dense",
    "mlp.0": "intermediate.dense", "mlp.3": "output.dense",
    "attn.q_bias": "attention.attention.query.bias",
    "attn.v_bias": "attention.attention.value.bias", "gamma_1": "lambda_1", "gamma_2": "lambda_2",
    "attn.q_proj": "attention.attention.query", "attn.k_proj": "attention.attention.key",
    "attn.v_proj": "attention.attention.value",
    "attn.relative_position_bias_table":
        "attention.attention.relative_position_bias.relative_position_bias_table",
}  # fmt: skip
_TOP = {
    "cls_token": "{}.embeddings.cls_token",
    "class_token": "{}.embeddings.cls_token",
    "dist_token": "{}.embeddings.distillation_token",
    "reg_token": "{}.embeddings.register_tokens",
    "pos_embed": "{}.embeddings.position_embeddings",
    "encoder.pos_embedding": "{}.embeddings.position_embeddings",
    "attn_pool.latent": "{}.attention_pool.probe",
}
_MODULES = {
    "patch_embed.proj": "{}.embeddings.patch_embeddings.projection",
    "conv_proj": "{}.embeddings.patch_embeddings.projection",
    "norm": "{}.layernorm",
    "encoder.ln": "{}.layernorm",
    "norm_pre": "{}.pre_layernorm",
    "attn_pool.proj": "{}.attention_pool.attention.out_proj",
    "attn_pool.norm": "{}.attention_pool.layernorm",
    "attn_pool.mlp.fc1": "{}.attention_pool.mlp.fc1",
    "attn_pool.mlp.fc2": "{}.attention_pool.mlp.fc2",
}
_POOL = re.compile(r"attn_pool\.kv\.(\w+)")


def renamed(
    tensors: Mapping[str, Tensor],
    base: str,
    heads: Mapping[str, str],
    parts: Mapping[str, str] = {},
    top: Mapping[str, str] = {},
) -> dict[str, Tensor]:
    """The tensors of timm's or torchvision's transformer under transformers' names.

    base: of the names; heads: the classifiers' names by timm's; parts: of a layer, where they are
    others than ViT's, also whole names of parameters; top: modules outside of the layers, by their
    paths behind the base.
    """
    by_name: dict[str, Tensor] = {}
    known = {**_PARTS, **parts}
    for name, t in tensors.items():
        layer = _LAYER.fullmatch(name)
        module, _, kind = name.rpartition(".")
        if layer is None:
            if both := _POOL.fullmatch(name):
                first = tensors.get(f"attn_pool.q.{both[1]}")
                joined = t if first is None else cat([first, t], 0)
                by_name[f"{base}.attention_pool.attention.in_proj_{both[1]}"] = joined
            elif module == "attn_pool.q":
                continue
            elif name in _TOP:
                if "pos" in name:
                    t, more = _apart(t, tensors)
                    if more is not None:
                        by_name[_TOP["reg_token"].format(base)] = tensors["reg_token"] + more
                elif name == "reg_token" and _TOP[name].format(base) in by_name:
                    continue
                by_name[_TOP[name].format(base)] = t
            elif module in top:
                by_name[f"{base}.{top[module]}.{kind}"] = t
            elif module in _MODULES:
                by_name[f"{_MODULES[module].format(base)}.{kind}"] = t
            else:
                by_name[f"{heads.get(module, module)}.{kind}" if kind != name else name] = t
            continue
        path = f"{base}.encoder.layer.{layer[1]}."
        module_path, _, kind = layer[2].rpartition(".")
        joint = layer[2].replace("in_proj_", "qkv.").replace("self_attention.", "attn.")
        if joint.startswith("attn.qkv."):
            if not t.ndim or not t.shape[0] or t.shape[0] % 3:
                raise FormatError(f"tensor {name!r} {t.shape} does not divide into q, k and v")
            for which, piece in zip(("query", "key", "value"), t.chunk(3, 0), strict=True):
                by_name[f"{path}attention.attention.{which}.{joint[9:]}"] = piece.contiguous()
        elif layer[2] in known:
            by_name[path + known[layer[2]]] = t
        elif module_path in ("ls1", "ls2"):
            by_name[f"{path}layer_scale{module_path[2]}.lambda1"] = t
        else:
            by_name[f"{path}{known.get(module_path, module_path)}.{kind}"] = t
    return by_name


def _first(tensors: Mapping[str, Tensor]) -> int:
    """The number of tokens before the patches that transformers gives a position."""
    return sum(f"{n}_token" in tensors for n in ("cls", "dist", "class"))


def _patches_alone(places: Tensor) -> bool:
    """Whether positions are those of a square of patches, so that the class has none."""
    return math.isqrt(places.shape[-2]) ** 2 == places.shape[-2]


def _apart(places: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Positions of the tokens before the patches and of patches, and those of registers.

    The tokens have zeros where the patches' are alone.
    """
    first = _first(tensors)
    if _patches_alone(places):
        return cat([places.new_zeros(1, first, places.shape[-1]), places], 1), None
    count = _with_places(places, tensors)
    if not count:
        return places, None
    rest = cat([places[:, :first], places[:, first + count :]], 1)
    return rest, places[:, first : first + count]


def _with_places(places: Tensor, tensors: Mapping[str, Tensor]) -> int:
    """The number of registers if they have positions, else 0."""
    count = tensors["reg_token"].shape[1] if "reg_token" in tensors else 0
    rest = places.shape[-2] - _first(tensors) - count
    return count if rest > 0 and math.isqrt(rest) ** 2 == rest else 0


def timm_sizes(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of a timm or torchvision transformer: keys of transformers' config.json.

    FormatError for tensors that are none of such a transformer.
    """
    arguments = config.get("model_args") or {}
    try:
        patch = tensors.get("patch_embed.proj.weight", tensors.get("conv_proj.weight"))
        places = tensors.get("pos_embed", tensors.get("encoder.pos_embedding"))
        assert patch is not None
        width, channels, tall, wide = patch.shape
        layers = {m[1] for n in tensors if (m := _LAYER.fullmatch(n))}
        inner = next(t for n, t in tensors.items() if _UP.fullmatch(n)).shape[0]
        rows = 0 if places is None else places.shape[1]
    except (AssertionError, KeyError, StopIteration, ValueError):
        raise FormatError(
            "the checkpoint is no vision transformer of timm or torchvision"
        ) from None
    prefix = 0
    if places is not None and not _patches_alone(places):
        prefix = _first(tensors) + _with_places(places, tensors)
    size = (config.get("pretrained_cfg") or {}).get("input_size")
    image_size = arguments.get("img_size") or (
        size[1:] if isinstance(size, list) and len(size) == 3 else None
    )
    high, broad = (
        image_size if isinstance(image_size, list) else (image_size or 224, image_size or 224)
    )
    if places is not None and (high // tall) * (broad // wide) != rows - prefix:
        side = math.isqrt(rows - prefix)
        high, broad = side * tall, side * wide
    heads = arguments.get("num_heads") or _heads(width, str(config.get("architecture")))
    return {
        "hidden_size": width,
        "num_channels": channels,
        "patch_size": [tall, wide],
        "num_hidden_layers": len(layers),
        "intermediate_size": inner,
        "image_size": [high, broad],
        "num_attention_heads": heads,
        "layer_norm_eps": 1e-6,
    }


def _heads(width: int, name: str) -> int:
    """The published transformers have heads of 64, but for the largest."""
    if "dinov3" in name and width == 1280:
        return 20
    if "giantopt" in name or "base_patch16_gap" in name:
        return 16
    return {1152: 16, 1280: 16, 1408: 16, 1664: 16, 1536: 24, 1792: 16, 4096: 32}.get(
        width, max(1, width // 64)
    )
