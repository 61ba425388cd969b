"""Ovis 2 (Lu et al., 2024): AIMv2's patches as words of a vocabulary that pictures have.

Each place has a probability of each of these words; its row is the mean of their embeddings. Marks
in a picture's text are such words, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import (
    Cut,
    Size,
    Steps,
    TileProcessor,
    nearest_grid,
    split,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import (
    Tower,
    TowerNames,
    TowerSpec,
    shuffled,
    vision_of,
)
from rushlight.models.layers.vision.transformer import LayerNames, LayerSpec
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("Ovis2ForConditionalGeneration",)
_START, _GRID, _COLUMN, _ROW, _END = range(5)  # of the marks
_ATOM = "<IMG_ATOM>"
_COVERED = 0.9  # of a picture's area, by tiles that are not shrunk


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 1024
    intermediate_size: int = 2816
    num_hidden_layers: int = 24
    num_attention_heads: int = 8
    num_channels: int = 3
    image_size: Any = 224
    patch_size: Any = 14
    rms_norm_eps: float = 1e-5
    qkv_bias: bool = False
    mlp_bias: bool = False
    hidden_act: str = "silu"
    vocab_size: int = 16384
    hidden_stride: int = 1
    num_visual_indicator_tokens: int = 5
    tokenize_function: str = "softmax"
    model_type: str = "ovis2_vision"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 151665
    visual_indicator_token_ids: Any = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "ovis2"

    neutral = {"vocab_size": (), "hidden_size": ()}  # those of text_config


class _Seen(nn.Module):
    """Pixels (n, channels, height, width) -> (n, places, words): the share of each word."""

    def __init__(self, seen: Vision, spec: TowerSpec) -> None:
        self.stride, self.grid = seen.hidden_stride, spec.grid
        self.hard = seen.tokenize_function == "st_argmax"
        self.transformer = Tower(spec)
        self.transformer.rms_norm = nn.RMSNorm(spec.layer.width, spec.layer.eps)
        words = seen.vocab_size - seen.num_visual_indicator_tokens
        self.head_linear = nn.Linear(spec.layer.width * self.stride**2, words, bias=False)
        self.head_norm = nn.LayerNorm(words)

    def forward(self, pixels: Tensor) -> Tensor:
        tower: Any = self.transformer
        x = tower.rms_norm(tower(pixels)[-1]).reshape(len(pixels), *self.grid, -1)
        x = shuffled(x, self.stride).flatten(1, 2)
        logits: Tensor = self.head_norm(self.head_linear(x))
        if not self.hard:
            return logits.softmax(-1)
        chosen: Tensor = logits == logits.amax(-1, keepdim=True)
        return chosen.to(logits.dtype)


def _tower(seen: Vision) -> TowerSpec:
    layer = LayerSpec(
        seen.hidden_size, seen.num_attention_heads, seen.intermediate_size, seen.hidden_act,
        seen.rms_norm_eps, (seen.qkv_bias,) * 3, gated=True, out_bias=seen.qkv_bias,
        mlp_bias=seen.mlp_bias, rms=True,
        names=LayerNames(
            "attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.out_proj",
            "ffn.up_proj", "ffn.down_proj", "rms_norm1", "rms_norm2", gate="ffn.gate_proj",
        ),
    )  # fmt: skip
    return TowerSpec(
        layer, seen.num_hidden_layers, pair(seen.image_size, "vision_config: image_size"),
        pair(seen.patch_size, "vision_config: patch_size"), seen.num_channels,
        TowerNames(fresh="embeddings.rms_norm", last=""),
    )  # fmt: skip


def _covering(height: int, width: int, side: int, most: int) -> Size:
    """(rows, columns) of the fewest tiles that hold nearly all of a picture at its size.

    As the reference counts, a picture is cut into as many rows as there will be columns.
    """
    grids = sorted(
        ((a, b) for a in range(1, most + 1) for b in range(1, most + 1) if a * b <= most),
        key=lambda grid: grid[0] * grid[1],
    )
    shares = {}
    for a, b in grids:
        tall, wide = height // a, width // b
        area = 0.0
        for i in range(a):
            for j in range(b):
                sides = (
                    width - j * wide if j == b - 1 else wide,
                    height - i * tall if i == a - 1 else tall,
                )
                long, short = float(max(sides)), float(min(sides))
                area += short * long if long <= side else short / long * side * side
        shares[a, b] = area / (height * width)
    enough = [grid for grid in grids if shares[grid] > _COVERED]
    if enough:
        columns, rows = min(enough, key=lambda grid: (grid[0] * grid[1], -shares[grid]))
    else:
        columns, rows = min(grids, key=lambda grid: (-shares[grid], grid[0] * grid[1]))
    return rows, columns


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**vision_of(config), "model_type": Vision.model_type, "architectures": None}
    seen: Vision = read_config(Vision, values)
    choose("vision_config: hidden_act", seen.hidden_act, tuple(ACTIVATIONS))
    choose(
        "vision_config: tokenize_function", seen.tokenize_function, ("softmax", "st_argmax")
    )  # gumbel_argmax draws
    tower, stride = _tower(seen), seen.hidden_stride
    marks = c.visual_indicator_token_ids
    marks = list(range(151666, 151671)) if marks is None else marks
    if not isinstance(marks, list) or len(marks) != 5 or seen.num_visual_indicator_tokens != 5:
        raise FormatError(
            f"config.json: visual_indicator_token_ids are {brief(marks)} and "
            f"num_visual_indicator_tokens is {seen.num_visual_indicator_tokens}; supported: 5 ids"
        )
    if stride < 1 or tower.grid[0] % stride or tower.grid[1] % stride or seen.vocab_size <= 5:
        raise FormatError(
            f"config.json: vision_config: hidden_stride is {stride} and vocab_size "
            f"{seen.vocab_size}; the first must divide {tower.grid[0]} x {tower.grid[1]} patches, "
            "the second be above 5"
        )
    count = tower.grid[0] // stride * (tower.grid[1] // stride)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        table: Tensor = base.visual_embeddings_table.weight
        tiles = base.vision_tower(inputs["pixels"]) @ table[:-5]
        mark = [table[i - 5 + len(table)].unsqueeze(0) for i in range(5)]
        rows, first = [], 0
        for tall, wide in inputs["grid"].tolist():
            rows += [mark[_START], tiles[first], mark[_GRID]]
            first += 1
            for place in range(tall * wide if tall * wide > 1 else 0):
                rows.append(tiles[first])
                first += 1
                if (place + 1) % wide:
                    rows.append(mark[_COLUMN])
                elif place + 1 < tall * wide:
                    rows.append(mark[_ROW])
            rows.append(mark[_END])
        return cat(rows)

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        said = stored_settings(files)
        usual = dict(zip(("height", "width"), tower.image, strict=True))
        tile = said.pair("size", said.values.get("size") or usual)
        least, most = said.whole("min_patches", 1), said.whole("max_patches", 12)
        if least > most or most > 1024:
            raise FormatError(f"{said.name}: min_patches {least}, max_patches {most} fit no tiles")
        crops = said.flag("crop_to_patches", False) and most > 1
        covers = said.flag("use_covering_area_grid", True)

        def cut(steps: Steps, pixels: Pixels) -> Cut:
            height, width = pixels.shape[:2]
            rows, columns = 1, 1
            if crops and covers:
                rows, columns = _covering(height, width, tile[0], most)
            elif crops:
                rows, columns = nearest_grid(height, width, tile, least, most)
            canvas = steps.resized(pixels, (tile[0] * rows, tile[1] * columns))
            tiles = split(canvas, rows, columns)
            if len(tiles) > 1:
                tiles.insert(0, steps.resized(pixels, tile))
            return Cut(tiles, rows, columns, {"grid": np.array([[rows, columns]], np.int64)})

        def text(made: Cut) -> str:
            lines = ["<IMG_COL>".join([_ATOM * count] * made.columns)] * made.rows
            tiles = "<IMG_ROW>".join(lines) if len(made.tiles) > 1 else ""
            return f"<IMG_START>{_ATOM * count}<IMG_GRID>{tiles}<IMG_END>"

        return TileProcessor(steps_of(said, Steps()), cut, text)

    def sight(spec: DecoderSpec) -> Sight:
        parts = {
            "model.vision_tower": _Seen(seen, tower),
            "model.visual_embeddings_table": nn.Embedding(seen.vocab_size, spec.width),
        }
        return Sight(c.image_token_id, "<image>", parts, look, processor, others=tuple(marks))

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("ovis2",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
