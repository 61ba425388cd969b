"""Aria (Rhymes AI, 2024): a tower for any size, and queries that read it, before experts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.text.aria_text import FAMILY as TEXT
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import (
    HALVES,
    Steps,
    best_size,
    kept_ratio,
    sizes_of,
    split,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TowerSpec, tower_of
from rushlight.models.layers.vision.transformer import put_parameter

ARCHITECTURES = ("AriaForConditionalGeneration",)
_PLACE = "<|img|>"
_GRIDS = [(1, n) for n in range(2, 9)] + [(2, 4), (2, 3), (2, 2), (2, 1), (3, 1), (3, 2),
          (4, 1), (4, 2), (5, 1), (6, 1), (7, 1), (8, 1)]  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    vision_feature_layer: Any = -1
    projector_patch_to_query_dict: Any = None
    image_token_index: int = 9
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "aria"

    neutral = {"max_value_projector_patch_to_query_dict": (), "patch_size": ()}


class _Queries(nn.Module):
    """States (1, places, width), of `count` places with the borders, -> rows (queries, out)."""

    def __init__(self, width: int, heads: int, out: int, queries: Mapping[int, int]) -> None:
        self.heads, self.queries = heads, queries
        put_parameter(self, "query", max(queries.values()), width)
        for name in ("q", "k", "v"):
            put(self, f"cross_attn.{name}_proj", nn.Linear(width, width, bias=False))
        put(self, "cross_attn.multihead_attn.out_proj", nn.Linear(width, width))
        put_parameter(self, "cross_attn.multihead_attn.in_proj_weight", 3 * width, width)
        put_parameter(self, "cross_attn.multihead_attn.in_proj_bias", 3 * width)
        put(self, "cross_attn.linear", nn.Linear(width, width))
        for name in ("cross_attn.layer_norm", "cross_attn.layer_norm_kv", "layer_norm"):
            put(self, name, nn.LayerNorm(width, 1e-5))
        put(self, "feed_forward.linear_in", nn.Linear(width, out, bias=False))
        put(self, "feed_forward.linear_out", nn.Linear(out, out, bias=False))

    def forward(self, states: Tensor, count: int) -> Tensor:
        if count not in self.queries:
            raise ValueError(
                f"aria: a picture of {count} patches; projector_patch_to_query_dict of config.json "
                f"has numbers of queries for {', '.join(map(str, self.queries))}"
            )
        part: Any = self
        attention = part.cross_attn
        inner = attention.multihead_attn
        seen = attention.layer_norm_kv(states)
        queries = part.query[: self.queries[count]].unsqueeze(0)
        projected = (
            attention.q_proj(attention.layer_norm(queries)),
            attention.k_proj(seen),
            attention.v_proj(seen),
        )
        heads = [
            (x @ weight.t() + bias).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for x, weight, bias in zip(
                projected, inner.in_proj_weight.chunk(3), inner.in_proj_bias.chunk(3), strict=True
            )
        ]
        x = inner.out_proj(scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        x = part.layer_norm(attention.linear(x))
        x = part.feed_forward.linear_out(ACTIVATIONS["gelu_new"](part.feed_forward.linear_in(x)))
        return x[0]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Squares:
    """Pixels (n, 3, side, side) of a picture or its tiles, in the upper left corner.

    least: pixels of the shorter side. sizes: those that a picture is cut by, if it is. count: the
    rows of each.
    """

    steps: Steps
    side: int
    least: int
    sizes: Sequence[tuple[int, int]] | None
    count: int

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        size, side = (pixels.shape[0], pixels.shape[1]), self.side
        tiles = [pixels] if self.sizes is None else self._cut(pixels, self.sizes)
        canvases, inner = [], []
        for tile in tiles:
            height, width = tile.shape[:2]
            share = side / max(height, width)
            short = max(int(min(height, width) * share), min(self.least, side))
            tall, wide = (short, side) if width >= height else (side, short)
            canvas = np.zeros((side, side, 3), np.uint8)
            canvas[:tall, :wide] = self.steps.resized(tile, (tall, wide))
            canvases.append(canvas)
            inner.append((tall, wide))
        inputs: dict[str, npt.NDArray[Any]]
        inputs = {"pixels": self.steps(canvases), "image_sizes": np.array(inner, np.int64)}
        return Picture(inputs, _PLACE * self.count * len(tiles), size)

    def _cut(self, pixels: Pixels, sizes: Sequence[tuple[int, int]]) -> list[Pixels]:
        """Tiles of the best of some sizes, in which the picture keeps its ratio."""
        tall, wide = best_size(pixels.shape[0], pixels.shape[1], sizes)
        height, width = kept_ratio(pixels.shape[0], pixels.shape[1], (tall, wide))
        top, left = (tall - height) // 2, (wide - width) // 2
        canvas = np.zeros((tall, wide, 3), np.uint8)
        canvas[top : top + height, left : left + width] = self.steps.resized(
            pixels, (height, width)
        )
        down, across = math.ceil(tall / self.side), math.ceil(wide / self.side)
        if tall % self.side or wide % self.side:
            return [
                canvas[i * self.side : (i + 1) * self.side, j * self.side : (j + 1) * self.side]
                for i in range(down)
                for j in range(across)
            ]
        return split(canvas, down, across)


def _queries(value: Any) -> dict[int, int]:
    """Numbers of queries by numbers of patches; FormatError for other values."""
    value = {1225: 128, 4900: 256} if value is None else value
    try:
        queries = {int(patches): int(count) for patches, count in value.items()}
    except (AttributeError, TypeError, ValueError):
        queries = {}
    if not queries or not all(1 <= n <= 1 << 16 for n in (*queries, *queries.values())):
        raise FormatError(
            f"config.json: projector_patch_to_query_dict is {brief(value)}; it must be numbers of "
            "queries by numbers of patches"
        )
    return queries


def _processor(
    files: Mapping[str, bytes], tower: TowerSpec, queries: Mapping[int, int]
) -> _Squares:
    said = stored_settings(files)
    side, least = said.whole("max_image_size", 980), said.whole("min_image_size", 336)
    if side not in (490, 980):
        raise FormatError(f"{said.name}: max_image_size is {side}; supported: 490, 980")
    sizes = None
    if said.flag("split_image", False):
        stored = said.values.get("split_resolutions")
        sizes = [(490 * down, 490 * across) for down, across in _GRIDS]
        if stored is not None:
            sizes = sizes_of(f"{said.name}: split_resolutions", stored)
    patches = (side // tower.patch[0]) * (side // tower.patch[1])
    if patches not in queries:
        raise FormatError(
            f"{said.name}: max_image_size {side} makes {patches} patches; "
            f"projector_patch_to_query_dict of config.json has {', '.join(map(str, queries))}"
        )
    steps = steps_of(said, replace(HALVES, filter="bicubic"))
    return _Squares(steps, side, least, sizes, queries[patches])


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    tower, queries = tower_of(config, "idefics3_vision"), _queries(c.projector_patch_to_query_dict)
    down, across = tower.patch

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, pixels, rows = model.model, inputs["pixels"], []
        count = (pixels.shape[2] // down) * (pixels.shape[3] // across)
        for i, (height, width) in enumerate(inputs["image_sizes"].tolist()):
            tall, wide = math.ceil(height / down) * down, math.ceil(width / across) * across
            picture = pixels[i : i + 1, :, :tall, :wide]  # patches of borders are not seen
            states = base.vision_tower.chosen(picture, c.vision_feature_layer)
            rows.append(base.multi_modal_projector(states, count))
        return cat(rows)

    def sight(spec: DecoderSpec) -> Sight:
        layer = tower.layer
        parts = {
            "model.vision_tower": Tower(tower),
            "model.multi_modal_projector": _Queries(layer.width, layer.heads, spec.width, queries),
        }
        return Sight(
            c.image_token_index, _PLACE, parts, look,
            lambda files, _: _processor(files, tower, queries),
        )  # fmt: skip

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("aria",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
    parts=TEXT.parts,
)
