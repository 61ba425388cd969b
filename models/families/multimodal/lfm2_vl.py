"""LFM2-VL (Liquid AI, 2025): SigLIP 2 at any size, in tiles where a picture is large."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import (
    HALVES,
    Steps,
    nearest_grid,
    split,
    steps_of,
    stored_settings,
    whole_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TwoProducts, shuffled, tower_of

ARCHITECTURES = ("Lfm2VlForConditionalGeneration",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 396
    projector_hidden_act: str = "gelu"
    projector_hidden_size: int = 2560
    projector_bias: bool = True
    projector_use_layernorm: bool = True
    downsample_factor: int = 2
    tie_word_embeddings: bool | None = None
    tie_embedding: bool | None = None
    eos_token_id: Any = None
    model_type: str = "lfm2_vl"


@dataclass(frozen=True)
class _Processor:
    """Patches (tiles, most, channels * side * side) of a picture's tiles, filled up with zeros.

    tokens: the least and most rows of a picture that is not cut; `much` times as many are. tiles:
    the least and the most of one that is.
    """

    steps: Steps
    patch: int = 16
    factor: int = 2
    tokens: tuple[int, int] = (64, 256)
    much: float = 2.0
    tile: int = 512
    tiles: tuple[int, int] = (2, 10)
    whole: bool = True
    splits: bool = True
    signs: bool = True

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        height, width = pixels.shape[:2]
        step = self.patch * self.factor
        rounded = [max(self.patch, round(side / step) * step) for side in (height, width)]
        size, rows, columns = self._size(height, width), 1, 1
        parts = [self.steps.resized(pixels, size)]
        if self.splits and math.prod(rounded) > self.tokens[1] * step**2 * self.much:
            rows, columns = nearest_grid(height, width, (self.tile, self.tile), *self.tiles)
            canvas = self.steps.resized(pixels, (self.tile * rows, self.tile * columns))
            after = parts if self.whole and rows * columns > 1 else []
            parts = [*split(canvas, rows, columns), *after]
        most = max(
            self.tokens[1] * self.factor**2,
            (self.tile // self.patch) ** 2 if self.splits else 0,
        )
        patches = np.zeros((len(parts), most, 3 * self.patch**2), np.float32)
        mask, shapes = np.zeros((len(parts), most), np.int32), []
        for i, part in enumerate(parts):
            tall, wide = part.shape[0] // self.patch, part.shape[1] // self.patch
            values = self.steps.numbers(part).reshape(tall, self.patch, wide, self.patch, 3)
            patches[i, : tall * wide] = values.transpose(0, 2, 1, 3, 4).reshape(tall * wide, -1)
            mask[i, : tall * wide] = 1
            shapes.append((tall, wide))
        inputs: dict[str, npt.NDArray[Any]] = {
            "pixels": patches, "pixel_attention_mask": mask,
            "spatial_shapes": np.array(shapes, np.int64),
        }  # fmt: skip
        return Picture(inputs, self._text(rows, columns, size), (height, width))

    def _size(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture that is not cut."""
        step = self.patch * self.factor
        least, most = (n * step**2 for n in self.tokens)
        size = [max(step, round(side / step) * step) for side in (height, width)]
        if math.prod(size) > most:
            share = math.sqrt(height * width / most)
            size = [max(step, math.floor(side / share / step) * step) for side in (height, width)]
        elif math.prod(size) < least:
            share = math.sqrt(least / (height * width))
            size = [math.ceil(side * share / step) * step for side in (height, width)]
        return size[0], size[1]

    def _text(self, rows: int, columns: int, size: tuple[int, int]) -> str:
        step = self.patch * self.factor
        whole = "<image>" * (size[0] // step * (size[1] // step))
        text = whole
        if rows > 1 or columns > 1:
            tile = "<image>" * math.ceil(self.tile // self.patch / self.factor) ** 2
            text = "".join(
                (f"<|img_row_{i}_col_{j}|>" if self.signs else "") + tile
                for i in range(1, rows + 1)
                for j in range(1, columns + 1)
            )
            if self.whole:
                text += ("<|img_thumbnail|>" if self.signs else "") + whole
        return f"<|image_start|>{text}<|image_end|>" if self.signs else text


def _processor(files: Mapping[str, bytes], factor: int, patch: int) -> _Processor:
    said, whole = stored_settings(files), whole_settings(files)
    return _Processor(
        steps_of(said, replace(HALVES, filter="bilinear")),
        said.whole("encoder_patch_size", patch),
        said.whole("downsample_factor", factor),
        (said.whole("min_image_tokens", 64), said.whole("max_image_tokens", 256)),
        said.number("max_pixels_tolerance", 2.0, 0.0, 1e9),
        said.whole("tile_size", 512),
        (said.whole("min_tiles", 2), said.whole("max_tiles", 10)),
        said.flag("use_thumbnail", True),
        said.flag("do_image_splitting", True),
        whole.flag("use_image_special_tokens", True),
    )


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    if config.get("tie_embedding") is not None:
        config = {**config, "tie_word_embeddings": config["tie_embedding"]}
    c = read_config(Config, config, ARCHITECTURES)
    tower, factor = tower_of(config, "siglip2_vision_model"), c.downsample_factor

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, found = model.model, []
        shapes = inputs["spatial_shapes"].tolist()
        for tile, (tall, wide) in zip(inputs["pixels"], shapes, strict=True):
            states = base.vision_tower(tile[: tall * wide].unsqueeze(0), (tall, wide))[-1]
            states = base.vision_tower.last(states).reshape(1, tall, wide, -1)
            found.append(base.multi_modal_projector(shuffled(states, factor)).flatten(0, 2))
        return cat(found)

    def sight(spec: DecoderSpec) -> Sight:
        projector = TwoProducts(
            tower.layer.width * factor**2, c.projector_hidden_size, spec.width,
            c.projector_hidden_act, c.projector_bias,
            "layer_norm" if c.projector_use_layernorm else "",
        )  # fmt: skip
        parts = {"model.vision_tower": Tower(tower), "model.multi_modal_projector": projector}
        return Sight(
            c.image_token_id, "<image>", parts, look,
            lambda files, _: _processor(files, factor, tower.patch[0]), special=False,
        )  # fmt: skip

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("lfm2_vl",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
