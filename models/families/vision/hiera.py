"""Hiera (Ryali et al., 2023): a hierarchical transformer without further parts."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.attention.hiera import Hiera, Place
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.outputs.stages import stages_of as named_states
from rushlight.models.layers.vision.vit import MOST_TOKENS, pair

BASE_PREFIX = "hiera."
_BLOCK = re.compile(r"blocks\.(\d{1,3})\.(.+)")
_WIDEST = 1 << 16
_TOP = {
    "patch_embed.proj": "hiera.embeddings.patch_embeddings.projection",
    "head.norm": "hiera.pooler.layernorm",
    "norm": "hiera.pooler.layernorm",
    "head.fc": "classifier",
    "head.projection": "classifier",
}
_PLACES = {
    "pos_embed": "hiera.embeddings.position_embeddings",
    "pos_embed_abs": "hiera.embeddings.position_embeddings",
    "pos_embed_win": "hiera.embeddings.position_embeddings_window",
}
_PARTS = {
    "norm1.": "layernorm_before.",
    "norm2.": "layernorm_after.",
    "ls1.gamma": "layer_scale1.lambda1",
    "ls2.gamma": "layer_scale2.lambda1",
}


@dataclass
class Config:
    """The keys of config.json. background, lagging: of timm's and the authors' checkpoints."""

    own = ("background", "lagging")

    embed_dim: int = 96
    image_size: Any = 224
    patch_size: Any = 7
    patch_stride: Any = 4
    patch_padding: Any = 3
    mlp_ratio: float = 4.0
    depths: list[int] = field(default_factory=lambda: [2, 3, 16, 3])
    num_heads: list[int] = field(default_factory=lambda: [1, 2, 4, 8])
    embed_dim_multiplier: float = 2.0
    num_query_pool: int = 3
    query_stride: Any = 2
    masked_unit_size: Any = 8
    masked_unit_attention: list[bool] = field(default_factory=lambda: [True, True, False, False])
    num_channels: int = 3
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    background: Any = None  # the grid of positions that are interpolated
    lagging: bool = False  # a stage's first layer looks as the stage before it
    # Of training, and what follows from the others:
    drop_path_rate: float = 0.0
    layer_norm_init: float = 1.0
    decoder_hidden_size: int | None = None
    decoder_depth: int | None = None
    decoder_num_heads: int | None = None
    normalize_pixel_loss: bool | None = True
    mask_ratio: float = 0.6
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    model_type: str = "hiera"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Hiera:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    labels = classes_of(config, "Hiera")
    scaled = any(".layer_scale1." in n for n in names)
    backbone = config.get("architectures") == ["HieraBackbone"]
    named = named_states(config, len(c.depths)) if backbone else ()
    return Hiera(c, stages_of(c, names), labels, scaled, named)


def stages_of(c: Config, names: Collection[str]) -> list[list[Place]]:
    """Each stage's layers; FormatError where the configuration's sizes do not agree."""
    count, pool = len(c.depths), pair(c.query_stride, "query_stride")
    sizes = (*c.depths, *c.num_heads)
    if (
        not 1 <= count <= 8
        or count != len(c.num_heads)
        or len(c.masked_unit_attention) < count
        or (not all(type(n) is int and 1 <= n <= 1024 for n in sizes) or sum(c.depths) > 1024)
        or not 0 <= c.num_query_pool < count
        or c.embed_dim < 1
    ):
        raise FormatError(
            f"config.json: depths {c.depths}, num_heads {c.num_heads}, masked_unit_attention "
            f"{c.masked_unit_attention} and num_query_pool {c.num_query_pool} do not agree"
        )
    grid = [
        n // s
        for n, s in zip(
            pair(c.image_size, "image_size"), pair(c.patch_stride, "patch_stride"), strict=True
        )
    ]
    unit, every = pair(c.masked_unit_size, "masked_unit_size"), math.prod(pool)
    widths = [int(c.embed_dim * c.embed_dim_multiplier**i) for i in range(count)]
    fits = [n and n % s ** (count - 1) == 0 for n, s in zip(grid, pool, strict=True)]
    if c.background is not None:
        fits += [n % m == 0 for n, m in zip(grid, unit, strict=True)]
    if (
        not all(fits)
        or math.prod(grid) > MOST_TOKENS
        or not 1 <= min(widths) <= max(widths) <= _WIDEST
    ):
        raise FormatError(
            f"config.json: image_size {c.image_size}, patch_stride {c.patch_stride}, query_stride "
            f"{c.query_stride} and masked_unit_size {c.masked_unit_size} do not fit each other"
        )
    stages: list[list[Place]] = []
    plain_names = {n.removeprefix(BASE_PREFIX) for n in names}
    places, window, before = math.prod(grid), math.prod(unit), c.embed_dim
    for i, (depth, heads) in enumerate(zip(c.depths, c.num_heads, strict=True)):
        pools = 1 <= i <= c.num_query_pool
        window = window // every if i and (pools or not c.lagging) else window
        looks, looked = (bool(c.masked_unit_attention[n]) for n in (i, max(i - 1, 0)))
        stages.append([])
        for j in range(depth):
            stride = every if pools and j == 0 else 1
            near = looks if j else looked or (looks and not c.lagging)
            doubled = before != widths[i] and f"{_layer(i, j)}.proj.weight" not in plain_names
            place = Place(before, widths[i], heads, stride, window if near else 0, doubled)
            if (
                near
                and (window < 1 or places % (stride * window))
                or (before == widths[i] and stride > 1)
                or (doubled and widths[i] != 2 * before)
            ):
                raise FormatError(
                    f"config.json: layer {j} of stage {i} does not fit: {places} places in units "
                    f"of {window}, {before} channels that become {widths[i]}"
                )
            stages[-1].append(place)
            places, before = places // stride, widths[i]
    return stages


def _layer(stage: int, number: int) -> str:
    return f"encoder.stages.{stage}.layers.{number}"


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm and of the authors under transformers' names."""
    if "patch_embed.proj.weight" not in tensors:
        return dict(tensors)
    depths, by_name = _depths(tensors), {}
    paths = [_layer(i, j) for i, depth in enumerate(depths) for j in range(depth)]
    for name, t in tensors.items():
        module, _, kind = name.rpartition(".")
        match = _BLOCK.fullmatch(name)
        if match and int(match[1]) < len(paths):
            rest = match[2]
            for old, new in _PARTS.items():
                rest = rest.replace(old, new)
            by_name[f"{BASE_PREFIX}{paths[int(match[1])]}.{rest}"] = t
        elif name in _PLACES:
            by_name[_PLACES[name]] = t
        else:
            by_name[f"{_TOP.get(module, module)}.{kind}"] = t
    return by_name


def _depths(tensors: Mapping[str, Tensor]) -> list[int]:
    """The layers of each stage: where one begins its first layer's norms differ in width."""
    depths: list[int] = []
    for i in range(len(tensors)):
        norms = [tensors.get(f"blocks.{i}.norm{n}.weight") for n in (1, 2)]
        if norms[0] is None or norms[1] is None:
            break
        if not depths or norms[0].shape != norms[1].shape:
            depths.append(0)
        depths[-1] += 1
    return depths


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of the authors."""
    return timm_config({}, tensors)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's, and that of a checkpoint of the authors."""
    arguments, depths = config.get("model_args") or {}, _depths(tensors)
    seen = (config.get("pretrained_cfg") or {}).get("input_size")
    try:
        width, channels, *patch = tensors["patch_embed.proj.weight"].shape
        places = tensors.get("pos_embed", tensors.get("pos_embed_abs"))
        unit = tensors["pos_embed_win"].shape[2:] if "pos_embed_win" in tensors else None
        inner = tensors["blocks.0.mlp.fc1.weight"].shape[0]
        if places is None or len(patch) != 2:
            raise ValueError("other embeddings")
        background = None if unit is None else [places.shape[2], places.shape[3]]
        last = sum(depths) - 1
        multiplier = (tensors[f"blocks.{last}.norm2.weight"].shape[0] / width) ** (
            1 / max(len(depths) - 1, 1)
        )
    except (KeyError, IndexError, ValueError):
        raise FormatError("the checkpoint is no Hiera of timm or of its authors") from None
    choose("global_pool", config.get("global_pool", "avg"), ("avg",))
    stride = arguments.get("patch_stride") or [4, 4]
    size = arguments.get("img_size") or (
        seen[1:] if isinstance(seen, list) and len(seen) == 3 else 256
    )
    if background is None:
        side = math.isqrt(places.shape[1])
        square = [side * stride[0], side * stride[1]]
        size = (
            size
            if math.prod(n // s for n, s in zip(pair(size, "img_size"), stride, strict=True))
            == places.shape[1]
            else square
        )
    heads = arguments.get("num_heads") or {112: 2, 144: 2, 256: 4}.get(width, 1)
    growth = arguments.get("head_mul", 2.0)
    head = tensors.get("head.fc.weight", tensors.get("head.projection.weight"))
    values = {
        "model_type": "hiera",
        "embed_dim": width,
        "num_channels": channels,
        "image_size": size,
        "architectures": [f"Hiera{'Model' if head is None else 'ForImageClassification'}"],
        "patch_size": patch,
        "patch_stride": stride,
        "depths": depths,
        "patch_padding": arguments.get("patch_padding") or [3, 3],
        "mlp_ratio": inner / width,
        "num_heads": [int(heads * growth**i) for i in range(len(depths))],
        "embed_dim_multiplier": round(multiplier, 6),
        "background": background,
        "lagging": True,
        "num_query_pool": arguments.get("q_pool", min(3, len(depths) - 1)),
        "query_stride": arguments.get("q_stride") or [2, 2],
        "masked_unit_size": list(unit or arguments.get("mask_unit_size") or [8, 8]),
        "masked_unit_attention": arguments.get("mask_unit_attn") or [True, True, False, False],
    }
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=("hiera",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=("head.projection.weight",),  # of the authors' files
    config_of=config_of,
    timm=("hiera_",),
    timm_config=timm_config,
)
