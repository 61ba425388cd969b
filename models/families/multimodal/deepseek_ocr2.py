"""DeepSeek-OCR 2 (Wei et al., 2026): SAM's encoder, then Qwen 2 whose last tokens are queries.

A page is read whole and, if it is large, in tiles. Patches see each other; each of the queries sees
the patches and the queries before it, and what is made of it is a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.text import qwen2
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import (
    HALVES,
    Steps,
    nearest_grid,
    split,
    square,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.positions.rotary import Rotary
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import vision_of
from rushlight.models.layers.vision.masks.encoder import SamKeys, SamVision

ARCHITECTURES = ("DeepseekOcr2ForConditionalGeneration",)
_FEW, _MANY = 144, 256  # queries: of up to as many patches, and of more
_TEXT = {
    "vocab_size": 102400, "n_routed_experts": 64, "n_shared_experts": 2, "rms_norm_eps": 1e-6,
}  # fmt: skip


@dataclass
class Sam(SamKeys):
    """The keys of vision_config.sam_config."""

    downsample_channels: Any = None
    model_type: str = "deepseek_ocr2_sam_vision_model"

    neutral = {"num_experts": ()}


@dataclass
class Queries(qwen2.Config):
    """The keys of vision_config.encoder_config."""

    hidden_size: int = 4096
    intermediate_size: int = 22016
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = 32
    rms_norm_eps: float = 1e-6
    model_type: str = "deepseek_ocr2_encoder"

    neutral = {"num_experts": ()}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 128815
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "deepseek_ocr2"

    neutral = {"num_experts": ()}  # of text_config


class _Seen(nn.Module):
    """Pixels (n, channels, side, side) -> (n, queries, width)."""

    def __init__(self, sam: Sam, spec: DecoderSpec) -> None:
        self.spec = spec
        self.sam_encoder = SamVision(sam)
        first, last = sam.downsample_channels
        channels = sam.output_channels
        put(self, "sam_encoder.proj.conv1", nn.Conv2d(channels, first, 3, 2, 1, bias=False))
        put(self, "sam_encoder.proj.conv2", nn.Conv2d(first, last, 3, 2, 1, bias=False))
        layers = nn.ModuleList(DecoderLayer(spec, i) for i in range(len(spec.layers)))
        put(self, "vision_encoder.layers", layers)
        put(self, "vision_encoder.norm", make_norm(spec.width, spec.norm))
        self.query_768_resolution = nn.Embedding(_FEW, spec.width)
        self.query_1024_resolution = nn.Embedding(_MANY, spec.width)
        attentions: list[Any] = [layer.attention for layer in spec.layers]
        self.rotary = Rotary(a.rotary for a in attentions)

    def forward(self, pixels: Tensor) -> Tensor:
        sam: Any = self.sam_encoder
        x = sam.proj.conv2(sam.proj.conv1(sam(pixels))).flatten(2).transpose(1, 2)
        patches = x.shape[1]
        table = self.query_768_resolution if patches <= _FEW else self.query_1024_resolution
        queries = table.weight.unsqueeze(0).expand(len(x), -1, -1)
        x = cat([x, queries.to(x.dtype)], 1)
        positions = arange(x.shape[1], device=x.device).unsqueeze(0)
        groups = np.full((len(x), x.shape[1]), -1, np.int64)
        groups[:, :patches] = 0
        context = AttentionContext(
            self.rotary.angles(positions), positions=positions,
            pictured={"together": from_numpy(groups).to(x.device)},
        )  # fmt: skip
        encoder: Any = self.get_submodule("vision_encoder")
        for layer in encoder.layers:
            x = layer(x, context)
        out: Tensor = encoder.norm(x[:, patches:])
        return out


@dataclass(frozen=True)
class _Pages:
    """The whole page in a square of `side`, and tiles of `tile`, `least` to `most` of them.

    crops: whether there are tiles. rows: of features, of the whole and of a tile.
    """

    steps: Steps
    side: int
    tile: int
    least: int
    most: int
    crops: bool
    rows: tuple[int, int]
    colour: tuple[float, ...]

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        height, width = pixels.shape[:2]
        tiles: list[Pixels] = []
        if self.crops and max(height, width) > self.tile:
            tile = (self.tile, self.tile)
            down, across = nearest_grid(height, width, tile, self.least, self.most)
            canvas = self.steps.resized(pixels, (self.tile * down, self.tile * across))
            tiles = split(canvas, down, across)
        side = self.side if self.crops else self.tile
        share = side / max(height, width)
        tall, wide = (max(round(length * share), 1) for length in (height, width))
        canvas = np.full((side, side, 3), self.colour, np.uint8)
        top, left = (side - tall) // 2, (side - wide) // 2
        canvas[top : top + tall, left : left + wide] = self.steps.resized(pixels, (tall, wide))
        inputs: dict[str, npt.NDArray[Any]] = {
            "pixels": self.steps([canvas]),
            "pixel_values_local": np.zeros((0, 3, self.tile, self.tile), np.float32),
            "num_local_patches": np.array([len(tiles)], np.int64),
        }
        if tiles:
            inputs["pixel_values_local"] = self.steps(tiles)
        of_page = self.rows[0] if self.crops else self.rows[1]
        count = of_page + self.rows[1] * len(tiles) + 1
        return Picture(inputs, "<image>" * count, (height, width))


def _described(config: Mapping[str, Any]) -> tuple[Sam, DecoderSpec]:
    """SAM's configuration, and the description of the layers that read its map."""
    vision = vision_of(config)
    objects: list[dict[str, Any]] = []
    for key, kind in (("sam_config", Sam), ("encoder_config", Queries)):
        settings = vision.get(key) or {}
        if not isinstance(settings, Mapping):
            raise FormatError(f"config.json: vision_config: {key} is {brief(settings)}, no object")
        objects.append({**settings, "model_type": kind.model_type, "architectures": None})
    sam: Sam = read_config(Sam, objects[0])
    choose("sam_config: hidden_act", sam.hidden_act, tuple(ACTIVATIONS))
    channels = [512, 896] if sam.downsample_channels is None else sam.downsample_channels
    fit = isinstance(channels, list) and len(channels) == 2
    if not fit or not all(type(n) is int and n > 0 for n in channels):
        raise FormatError(
            f"config.json: sam_config: downsample_channels is {brief(channels)}; it must be two "
            "numbers"
        )
    sam.downsample_channels = channels
    spec = qwen2.describe(read_config(Queries, objects[1]))
    if spec.width != channels[1]:
        raise FormatError(
            f"config.json: encoder_config: hidden_size is {spec.width}, but downsample_channels "
            f"end with {channels[1]}"
        )
    return sam, spec


def _text(within: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the language model as that of DeepSeekMoE."""
    within = {**_TEXT, **within}
    choose("text_config: topk_method", within.get("topk_method") or "greedy", ("greedy",))
    count = within.get("num_hidden_layers", 32)
    kinds = within.get("mlp_layer_types")
    if kinds is not None:
        known = isinstance(kinds, list) and all(kind in ("dense", "sparse") for kind in kinds)
        dense = kinds.index("sparse") if known and "sparse" in kinds else count
        if not known or len(kinds) != count or "dense" in kinds[dense:]:
            raise FormatError(
                f"config.json: text_config: mlp_layer_types is {brief(kinds)}; supported: dense "
                f"layers, then sparse ones, {count} in all"
            )
        within["first_k_dense_replace"] = dense
    return within


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    sam, encoder = _described(config)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, rows, first = model.model, [], 0
        pages = base.multi_modal_projector(base.vision_tower(inputs["pixels"]))
        counts = inputs["num_local_patches"].tolist()
        tiles = None
        if sum(counts):
            tiles = base.vision_tower(inputs["pixel_values_local"])
            tiles = base.multi_modal_projector(tiles).unbind(0)
        for page, count in zip(pages, counts, strict=True):
            rows += list(tiles[first : first + count]) if tiles is not None else []
            rows += [page, base.view_separator.unsqueeze(0).to(page.dtype)]
            first += count
        return cat(rows)

    def processor(files: Mapping[str, bytes], _: Any) -> _Pages:
        said = stored_settings(files)
        side, tile = square(said, "size", 1024), said.whole("tile_size", 768)

        def count(length: int) -> int:
            places = -((-length // sam.patch_size // 4) ** 2)
            return _FEW if places <= _FEW else _MANY

        colour = said.three("background_color", (127.0,) * 3)
        # The reference's processor crops so, whatever the file says.
        return _Pages(
            steps_of(said, replace(HALVES, filter="bicubic")), side, tile, 2, 6, True,
            (count(side), count(tile)), colour,
        )  # fmt: skip

    def sight(spec: DecoderSpec) -> Sight:
        parts: dict[str, Any] = {
            "model.vision_tower": _Seen(sam, encoder),
            "model.multi_modal_projector": nn.Linear(encoder.width, spec.width),
            "model.view_separator": (spec.width,),
        }
        return Sight(c.image_token_id, "<image>", parts, look, processor)

    return seeing_decoder(config, names, c, sight, text=_text)


_BLOCK = re.compile(r"model\.sam_model\.blocks\.(\d+)\.(.+)")
_WITHIN = (("norm1.", "layer_norm1."), ("norm2.", "layer_norm2."))
_NAMES = (
    ("model.sam_model.patch_embed.proj.", "model.vision_tower.sam_encoder.patch_embed.projection."),
    ("model.sam_model.pos_embed", "model.vision_tower.sam_encoder.pos_embed"),
    ("model.sam_model.neck.0.", "model.vision_tower.sam_encoder.neck.conv1."),
    ("model.sam_model.neck.1.", "model.vision_tower.sam_encoder.neck.layer_norm1."),
    ("model.sam_model.neck.2.", "model.vision_tower.sam_encoder.neck.conv2."),
    ("model.sam_model.neck.3.", "model.vision_tower.sam_encoder.neck.layer_norm2."),
    ("model.sam_model.net_2.", "model.vision_tower.sam_encoder.proj.conv1."),
    ("model.sam_model.net_3.", "model.vision_tower.sam_encoder.proj.conv2."),
    ("model.qwen2_model.model.model.", "model.vision_tower.vision_encoder."),
    ("model.qwen2_model.query_768.", "model.vision_tower.query_768_resolution."),
    ("model.qwen2_model.query_1024.", "model.vision_tower.query_1024_resolution."),
    ("model.projector.layers.", "model.multi_modal_projector."),
    ("model.view_seperator", "model.view_separator"),
    *((f"model.{name}.", f"model.language_model.{name}.") for name in
      ("embed_tokens", "layers", "norm")),
)  # fmt: skip


def _rename(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The authors' names as transformers has them; others stay."""
    renamed: dict[str, Tensor] = {}
    for name, t in tensors.items():
        block = _BLOCK.fullmatch(name)
        if block is not None:
            rest = block[2]
            old, new = next((pair for pair in _WITHIN if rest.startswith(pair[0])), ("", ""))
            within = new + rest.removeprefix(old)
            renamed[f"model.vision_tower.sam_encoder.layers.{block[1]}.{within}"] = t
            continue
        old, new = next((pair for pair in _NAMES if name.startswith(pair[0])), ("", ""))
        renamed[new + name.removeprefix(old)] = t
    return renamed


FAMILY = Family(
    model_types=("deepseek_ocr2",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=_rename,
)
