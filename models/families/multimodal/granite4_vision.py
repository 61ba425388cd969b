"""Granite 4 Vision (IBM, 2026): LLaVA-NeXT's tiles, by Q-Formers over windows into many layers.

Each of some layers of the tower is read by a Q-Former of its own, and one layer by four more, which
begin at the corners of blocks of 2 x 2 patches. What each makes of a picture is added before a
layer of Granite.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.multimodal.blip_2 import Queries
from rushlight.models.image.tiles import TileProcessor, sizes_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.anyres import AnyRes, any_tiles
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qformer import QFormer, QFormerSpec
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TowerSpec, tower_of
from rushlight.models.layers.vision.transformer import put_parameter

ARCHITECTURES = ("Granite4VisionForConditionalGeneration",)
_SIZES = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_HEAD = 64  # features of a head of the Q-Formers
# What a qformer_config leaves out.
_QUERIES = {"num_hidden_layers": 1, "cross_attention_frequency": 1, "max_position_embeddings": 2048}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    qformer_config: Any = None
    image_token_index: int = 32000
    vision_feature_select_strategy: str = "default"
    image_grid_pinpoints: Any = None
    downsample_rate: Any = None
    deepstack_layer_map: Any = None
    spatial_vision_layer: Any = -1
    spatial_target_layers: Any = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "granite4_vision"

    neutral = {"image_seq_length": (), "projector_dropout": (), "vision_feature_layer": ()}


@dataclass(frozen=True)
class _Windows:
    """Windows of `keys` x `keys` patches of a grid of `side`, read by `queries` x `queries`."""

    side: int
    queries: int
    keys: int

    @property
    def rows(self) -> int:
        """The rows, and columns, of features that a tile makes."""
        return self.side // self.keys * self.queries


class _Reader(nn.Module):
    """States (tiles, patches, width) -> (tiles, rows of features, out).

    corner: of each block of 2 x 2 patches, what queries begin at; None: the mean of an area.
    """

    def __init__(
        self, q: Queries, width: int, out: int, windows: _Windows, corner: int | None
    ) -> None:
        self.windows, self.corner = windows, corner
        spec = QFormerSpec(
            width, q.num_hidden_layers, width // _HEAD, q.intermediate_size, width,
            q.cross_attention_frequency, q.hidden_act, q.layer_norm_eps, None,
            q.use_qformer_text_input,
        )  # fmt: skip
        self.qformer, self.norm = QFormer(spec), nn.LayerNorm(width, 1e-6)
        put_parameter(self, "query", 1, windows.queries**2, width)
        put_parameter(self, "image_positions", 1, windows.keys**2, width)
        self.out_linear = nn.Linear(width, out)

    def forward(self, x: Tensor) -> Tensor:
        reader: Any = self
        n, w = len(x), self.windows
        x = self.norm(x).reshape(n, w.side, w.side, -1)
        if self.corner is None:
            small = interpolate(x.permute(0, 3, 1, 2), size=(w.rows, w.rows), mode="area")
            small = small.permute(0, 2, 3, 1)
        else:
            small = x[:, self.corner // 2 :: 2, self.corner % 2 :: 2]
        queries = reader.query + _parted(small, w.queries)
        read = self.qformer(queries, _parted(x, w.keys) + reader.image_positions)
        count = w.side // w.keys
        read = read.reshape(n, count, count, w.queries, w.queries, -1).permute(0, 1, 3, 2, 4, 5)
        out: Tensor = self.out_linear(read.reshape(n, w.rows**2, -1))
        return out


def _queries(c: Config) -> Queries:
    """The configuration of the Q-Formers; FormatError for a qformer_config that is no object."""
    settings = c.qformer_config or {}
    if not isinstance(settings, Mapping):
        raise FormatError(f"config.json: qformer_config is {brief(settings)}; it must be an object")
    values = {**_QUERIES, **settings, "model_type": Queries.model_type, "architectures": None}
    queries: Queries = read_config(Queries, values)
    choose("qformer_config: hidden_act", queries.hidden_act, tuple(ACTIVATIONS))
    return queries


def _parted(x: Tensor, side: int) -> Tensor:
    """(n, rows, columns, width) -> (n * windows, side * side, width)."""
    n, rows, columns, width = x.shape
    x = x.reshape(n, rows // side, side, columns // side, side, width).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, side * side, width)


def _windows(c: Config, tower: TowerSpec) -> _Windows:
    """The windows that downsample_rate says; FormatError where they do not fit the tower."""
    said = re.fullmatch(r"(\d{1,3})/(\d{1,3})", str(c.downsample_rate))
    side = tower.grid[0]
    if said is None or tower.grid[1] != side:
        raise FormatError(
            f"config.json: downsample_rate is {brief(c.downsample_rate)}; it must be such as "
            '"1/4", for a square tower'
        )
    queries, keys = int(said[1]), int(said[2])
    if not 1 <= queries or not 1 <= keys or side % keys or int(side * Fraction(queries, keys)) < 1:
        raise FormatError(
            f'config.json: downsample_rate "{queries}/{keys}" does not fit {side} patches a side'
        )
    if 2 * queries != keys or side % 2:  # the corners of 2 x 2 patches are as many as queries
        raise FormatError(
            f'config.json: downsample_rate "{queries}/{keys}" is not a half, which '
            "spatial_target_layers need"
        )
    return _Windows(side, queries, keys)


def _targets(c: Config, states: int, layers: int) -> list[tuple[int, int]]:
    """(state of the tower, layer of the language model) of each reader.

    FormatError for numbers of neither.
    """
    pairs, last = c.deepstack_layer_map, c.spatial_target_layers
    last = [12, 15, 18, 21] if last is None else last
    good = isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs)
    numbers: list[Any] = [None]
    if good and isinstance(last, list):
        numbers = [n for p in pairs for n in p] + last + [c.spatial_vision_layer]
    if not all(type(n) is int for n in numbers) or len(last) > 4:
        raise FormatError(
            f"config.json: deepstack_layer_map is {brief(pairs)}, spatial_target_layers "
            f"{brief(last)}, spatial_vision_layer {brief(c.spatial_vision_layer)}; they must be "
            "pairs of layers, up to four layers, and a layer"
        )
    targets = [(seen, to) for seen, to in pairs]
    targets += [(c.spatial_vision_layer, to) for to in last]
    if not all(-states <= seen < states for seen, _ in targets):
        raise FormatError(
            f"config.json: deepstack_layer_map {brief(pairs)} and spatial_vision_layer "
            f"{c.spatial_vision_layer} name layers that the tower of {states - 1} has not"
        )
    after = [to for _, to in targets]
    if not pairs or len(set(after)) != len(after) or not all(0 <= to < layers for to in after):
        raise FormatError(
            f"config.json: deepstack_layer_map and spatial_target_layers name layers {after}; they "
            f"must be of the {layers} layers of text_config, each once"
        )
    return targets


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("vision_feature_select_strategy", c.vision_feature_select_strategy, ("default", "full"))
    tower = tower_of(config, "clip_vision_model")
    windows, width = _windows(c, tower), tower.layer.width
    queries = _queries(c)
    if width % _HEAD:
        raise FormatError(f"config.json: {width} features of the tower are no multiple of {_HEAD}")
    cut = c.vision_feature_select_strategy == "default"
    res = AnyRes(
        sizes_of("config.json: image_grid_pinpoints", c.image_grid_pinpoints or _SIZES),
        tower.image, (windows.rows, windows.rows),
    )  # fmt: skip
    targets: list[tuple[int, int]] = []
    order: list[int] = []  # of the targets, by their layers

    def change(spec: DecoderSpec) -> DecoderSpec:
        targets[:] = _targets(c, tower.layers + 1, len(spec.layers))
        order[:] = sorted(range(len(targets)), key=lambda i: targets[i][1])
        after = tuple(targets[i][1] - 1 for i in order if targets[i][1])
        return replace(spec, deep=after)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, every = model.model, []
        readers = [*base.layerwise_projectors, *base.spatial_projectors]
        for picture, size in zip(inputs["pixels"], inputs["image_sizes"].tolist(), strict=True):
            down, across = res.tiles(size)
            tiles = picture[: 1 + down * across] if len(picture) > 1 else picture
            states, rows = base.vision_tower(tiles), []
            for i in order:
                x = states[targets[i][0]]
                features = readers[i](x[:, 1:] if cut else x)
                rows.append(res.joined(features, size, base.image_newline))
            if targets[order[0]][1]:  # none is added before the first layer
                rows.insert(0, rows[0] * 0)
            every.append(cat(rows, 1))
        return cat(every)

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        return any_tiles(files, res, windows.rows**2, "<image>")

    def sight(spec: DecoderSpec) -> Sight:
        def readers(corners: list[int | None]) -> nn.Module:
            return nn.ModuleList(_Reader(queries, width, spec.width, windows, i) for i in corners)

        parts: dict[str, Any] = {
            "model.vision_tower": Tower(tower),
            "model.layerwise_projectors": readers([None] * len(c.deepstack_layer_map)),
            "model.spatial_projectors": readers([0, 1, 2, 3]),
            "model.image_newline": (spec.width,),
        }
        deep = len(spec.deep)
        return Sight(c.image_token_index, "<image>", parts, look, processor, deep=deep)

    return seeing_decoder(config, names, c, sight, change)


FAMILY = Family(
    model_types=("granite4_vision",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
