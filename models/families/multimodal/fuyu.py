"""Fuyu (Bavishi et al., 2023): Persimmon, which reads the patches of a picture by one product."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import HALVES, Steps, steps_of, stored_settings
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.built import LLAVA_NAMES, renaming, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight

ARCHITECTURES = ("FuyuForCausalLM",)
_PLACE, _LINE, _BEGIN, _ANSWER = "|SPEAKER|", "|NEWLINE|", "<s>", "<0x04>"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    patch_size: int = 30
    num_channels: int = 3
    image_token_id: int = 71011
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "fuyu"

    neutral = {"image_size": (), "torch_dtype": ()}


@dataclass(frozen=True)
class _Lines:
    """Patches (n, side * side * 3) of a picture within a size, line by line.

    fill: the value of a byte where the last line or column of patches is not full.
    """

    steps: Steps
    within: tuple[int, int]
    patch: tuple[int, int]
    resizes: bool
    fill: float

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8; ValueError if they do not fit."""
        height, width = size = pixels.shape[0], pixels.shape[1]
        share = min(self.within[0] / height, self.within[1] / width)
        if share < 1 and not self.resizes:
            raise ValueError(
                f"image: {height} x {width} pixels are larger than {self.within[0]} x "
                f"{self.within[1]}, and do_resize is false"
            )
        if share < 1:
            tall, wide = max(int(height * share), 1), max(int(width * share), 1)
            pixels = self.steps.resized(pixels, (tall, wide))
        side, across = self.patch
        rows = min(self.within[0] // side, math.ceil(pixels.shape[0] / side))
        columns = min(self.within[1] // across, math.ceil(pixels.shape[1] / across))
        canvas = np.full((rows * side, columns * across, 3), int(self.fill), np.uint8)
        inside = pixels[: rows * side, : columns * across]
        canvas[: inside.shape[0], : inside.shape[1]] = inside
        values = self.steps.numbers(canvas).reshape(rows, side, columns, across, 3)
        patches = values.transpose(0, 2, 1, 3, 4).reshape(rows * columns, -1)
        inputs: dict[str, npt.NDArray[Any]] = {"pixels": np.ascontiguousarray(patches)}
        return Picture(inputs, (_PLACE * columns + _LINE) * rows + _BEGIN, size)


def _processor(files: Mapping[str, bytes], patch: int) -> _Lines:
    said = stored_settings(files)
    size = said.values.get("size") or {"height": 1080, "width": 1920}
    within = said.pair("size", size)
    sides = said.pair("patch_size", said.values.get("patch_size") or [patch, patch])
    if sides != (patch, patch):
        raise FormatError(
            f"{said.name}: patch_size is {sides}, but config.json says {patch}; they must agree"
        )
    if min(within) < patch:
        raise FormatError(f"{said.name}: size {within} is below a patch of {patch}")
    return _Lines(
        steps_of(said, replace(HALVES, filter="bilinear")), within, sides,
        said.flag("do_resize", True), said.number("padding_value", 1.0, 0.0, 255.0),
    )  # fmt: skip


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    if not 1 <= c.patch_size <= 1 << 12 or c.num_channels != 3:
        raise FormatError(
            f"config.json: patch_size {c.patch_size} and num_channels {c.num_channels}: patches "
            "have 1 to 4096 pixels of a side and 3 channels"
        )

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        rows: Tensor = model.model.vision_embed_tokens(inputs["pixels"])
        return rows

    def sight(spec: DecoderSpec) -> Sight:
        product = nn.Linear(c.patch_size**2 * c.num_channels, spec.width)
        return Sight(
            c.image_token_id, _PLACE, {"model.vision_embed_tokens": product}, look,
            lambda files, _: _processor(files, c.patch_size),
            framed=lambda text, _: text + _ANSWER,
        )  # fmt: skip

    return seeing_decoder(config, names, c, sight)


_OWN = renaming(("vision_embed_tokens.", "model.vision_embed_tokens."))

FAMILY = Family(
    model_types=("fuyu",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=lambda tensors: LLAVA_NAMES(_OWN(tensors)),
)
