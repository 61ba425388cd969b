"""Swin Transformer (Liu et al., 2021) and version 2 (Liu et al., 2022)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import depths_of
from rushlight.models.layers.vision.attention.swin import Stage, Swin, SwinSpec
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.vit import pair

TENSORS = ("features.1.0.attn.relative_position_bias_table", "features.1.0.attn.logit_scale")
BASES = {"swin": "Swin", "swinv2": "Swinv2"}
_LAYER = re.compile(r"layers\.(\d)\.(?:blocks\.(\d{1,3})|downsample)\.(.+)")
_TV = re.compile(r"features\.([1-9])\.(?:(\d{1,3})\.)?(.+)")
_PARTS = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
    "mlp.0": "intermediate.dense",
    "mlp.3": "output.dense",
    "attn": "attention.self",
    "attn.cpb_mlp.0": "attention.self.continuous_position_bias_mlp.0",
    "attn.cpb_mlp.2": "attention.self.continuous_position_bias_mlp.2",
}
_TOP = {
    "patch_embed.proj": "embeddings.patch_embeddings.projection",
    "features.0.0": "embeddings.patch_embeddings.projection",
    "patch_embed.norm": "embeddings.norm",
    "features.0.2": "embeddings.norm",
    "norm": "layernorm",
}
_COMPUTED = ("relative_position_index", "relative_coords_table", "attn_mask")


@dataclass
class Config:
    """The keys of config.json. windows, still, timm: of other tools' checkpoints."""

    own = ("windows", "still", "timm")

    embed_dim: int = 96
    depths: list[int] = field(default_factory=lambda: [2, 2, 6, 2])
    num_heads: list[int] = field(default_factory=lambda: [3, 6, 12, 24])
    window_size: int = 7
    pretrained_window_sizes: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    mlp_ratio: float = 4.0
    qkv_bias: bool = True
    drop_path_rate: float = 0.1
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    use_absolute_embeddings: bool = False
    image_size: Any = 224
    patch_size: Any = 4
    num_channels: int = 3
    encoder_stride: int = 32  # of masked pictures
    num_layers: int = 0
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    windows: list[int] | None = None
    still: str = "either"
    timm: bool = False
    model_type: str = "swin"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Swin:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    base = f"{c.model_type}."
    prefixed = any(n.startswith(base) for n in names)
    labels = classes_of(config, BASES[c.model_type])
    spec = describe(c, base if prefixed or labels else "", names)
    if config.get("architectures") == [f"{BASES[c.model_type]}Backbone"]:
        named = stages_of(config, len(c.depths)) if c.model_type == "swin" else ()
        spec = replace(spec, last=False, named=named)
    return Swin(c, spec, labels)


def describe(c: Config, base: str, names: Collection[str] = ()) -> SwinSpec:
    """The description of the transformer that a configuration asks for; base: of its names."""
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("still", c.still, ("either", "each", ""))
    count, second = len(c.depths), c.model_type in ("swinv2", "swin2sr")
    flat = c.model_type == "swin2sr"  # whose stages are of one size
    windows = c.windows or [c.window_size] * count
    trained = (c.pretrained_window_sizes + [0] * count)[:count]
    lists = (c.depths, c.num_heads, windows, [n + 1 for n in trained])
    sizes_fit = all(type(n) is int and 1 <= n <= 1 << 12 for sizes in lists for n in sizes)
    if not 1 <= count <= 8 or not sizes_fit or len({len(sizes) for sizes in lists}) != 1:
        raise FormatError(
            f"config.json: depths {c.depths}, num_heads {c.num_heads} and windows {windows} do "
            "not agree, or are no sizes"
        )
    if sum(c.depths) > 1024:
        raise FormatError(f"config.json: {sum(c.depths)} layers are more than 1024")
    image, patch = pair(c.image_size, "image_size"), pair(c.patch_size, "patch_size")
    grid = image[0] // patch[0], image[1] // patch[1]
    stages = []
    for i, (layers, heads, window) in enumerate(zip(c.depths, c.num_heads, windows, strict=True)):
        shift = window // 2
        # Version 2 knows from the picture's size in config.json which windows do not move.
        if second and c.still != "each":
            side = max(grid[0] >> (0 if flat else i), 1)
            window, shift = min(window, side), 0 if side <= window else shift
        stages.append(
            Stage(c.embed_dim << (0 if flat else i), layers, heads, window, shift, trained[i])
        )
    return SwinSpec(
        stages,
        second,
        base,
        c.num_channels,
        patch,
        c.mlp_ratio,
        c.hidden_act,
        c.layer_norm_eps,
        c.qkv_bias,
        "" if second and c.still == "either" else c.still,
        c.timm,
        grid if c.use_absolute_embeddings else None,
        any(n.endswith("embeddings.mask_token") for n in names),
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision and timm, and of newer transformers, under transformers' names."""
    tensors = {n: t for n, t in tensors.items() if n.rpartition(".")[2] not in _COMPUTED}
    kind = "swinv2" if any(n.endswith(".logit_scale") for n in tensors) else "swin"
    if any(n.startswith("hidden_states_norms.") for n in tensors):  # a backbone's last norm is none
        tensors = {n: t for n, t in tensors.items() if "layernorm." not in n}
    if not any(n in tensors for n in (*TENSORS, "patch_embed.proj.weight")):
        return tensors
    old = "layers.0.downsample.reduction.weight" in tensors  # timm's, before its version 0.9
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        path = _path(name, old)
        module, _, what = name.rpartition(".")
        if path is None:
            top = f"{kind}.{_TOP[module]}" if module in _TOP else "classifier"
            by_name[f"{top}.{what}"] = t
        elif "qkv" in name:
            if t.shape[0] % 3:
                raise FormatError(f"tensor {name!r} {t.shape} does not divide into q, k and v")
            base = f"{kind}.{path.removesuffix(f'.qkv.{what}')}"
            for projection, piece in zip(("query", "key", "value"), t.chunk(3, 0), strict=True):
                if not (kind == "swinv2" and projection == "key" and what == "bias"):
                    by_name[f"{base}.{projection}.{what}"] = piece.contiguous()
        else:
            path = path.replace(".q_bias", ".query.bias").replace(".v_bias", ".value.bias")
            by_name[f"{kind}.{path}"] = t
    return by_name


def _path(name: str, old: bool) -> str | None:
    """The path of a layer's or a merging's tensor in transformers' names; None for others."""
    if match := _LAYER.fullmatch(name):
        stage, layer, rest = int(match[1]), match[2], match[3]
        stage -= 0 if old or layer is not None else 1
    elif (match := _TV.fullmatch(name)) and not name.startswith("features.0."):
        stage, layer, rest = (int(match[1]) - 1) // 2, match[2], match[3]
    else:
        return None
    base = f"encoder.layers.{stage}"
    if layer is None:
        return f"{base}.downsample.{rest}"
    module, _, what = rest.rpartition(".")
    if module == "attn.qkv":
        return f"{base}.blocks.{layer}.attention.self.qkv.{what}"
    return f"{base}.blocks.{layer}.{_PARTS.get(module, module)}.{what}"


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm."""
    return timm_config({}, tensors)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's, or of torchvision's tensors."""
    by_name = rename_tensors(tensors)
    kind = "swinv2" if any(n.startswith("swinv2.") for n in by_name) else "swin"
    depths = depths_of(by_name, f"{kind}.encoder.layers.", "blocks")
    first = [f"{kind}.encoder.layers.{i}.blocks.0" for i in range(len(depths))]
    told = "logit_scale" if kind == "swinv2" else "relative_position_bias_table"
    try:
        patch = by_name[f"{kind}.embeddings.patch_embeddings.projection.weight"].shape
        tables = [by_name[f"{base}.attention.self.{told}"].shape for base in first]
        inner = by_name[f"{first[0]}.intermediate.dense.weight"].shape[0]
        width, channels, tall, wide = patch
        heads = [shape[-1] if kind == "swin" else shape[0] for shape in tables]
    except (KeyError, IndexError, ValueError):
        raise FormatError("the checkpoint is no Swin of torchvision or timm") from None
    classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
    values = {
        "model_type": kind,
        "num_labels": classes,
        "embed_dim": width,
        "num_channels": channels,
        "architectures": [f"{BASES[kind]}{'ForImageClassification' if classes else 'Model'}"],
        "depths": depths,
        "num_heads": heads,
        "patch_size": [tall, wide],
        "mlp_ratio": inner / width,
        "still": "each",
        "timm": bool(config),
    }
    if kind == "swin":
        return values | {"windows": [(math.isqrt(shape[0]) + 1) // 2 for shape in tables]}
    if not config:  # torchvision's keep their tables of distances
        sizes = [
            tensors.get(f"features.{2 * i + 1}.0.attn.relative_coords_table")
            for i in range(len(depths))
        ]
        return values | {"windows": [8 if t is None else (t.shape[1] + 1) // 2 for t in sizes]}
    return values | _second(config, len(depths)) | {"still": ""}


def _second(config: Mapping[str, Any], stages: int) -> dict[str, Any]:
    """Windows of timm's version 2, which its arguments or the name of the model tell."""
    name, arguments = str(config.get("architecture")), config.get("model_args") or {}
    size = (config.get("pretrained_cfg") or {}).get("input_size")
    size = arguments.get("img_size") or (
        size[1] if isinstance(size, list) and len(size) == 3 else 256
    )
    match = re.search(r"_window(\d{1,3})(?:to(\d{1,3}))?_", name)
    window = arguments.get("window_size") or (int(match[2] or match[1]) if match else 8)
    trained = [int(match[1])] * (stages - 1) + [int(match[1]) // 2] if match and match[2] else []
    trained = arguments.get("pretrained_window_sizes") or trained
    return {"image_size": size, "window_size": window, "pretrained_window_sizes": trained}


FAMILY = Family(
    model_types=("swin", "swinv2"),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("swin_", "swinv2_"),
    timm_config=timm_config,
)
