"""SigLIP (Zhai et al., 2023): CLIP trained on pairs by themselves.

SigLIP 2 (Tschannen et al., 2025) of the naflex kind takes pictures of any shape.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, TextTower, layer_of
from rushlight.models.layers.vision.vit import pair

TASKS = ("zero-shot-image-classification", "image-feature-extraction")


@dataclass
class Config:
    """The keys of config.json."""

    text_config: Any = None
    vision_config: Any = None
    model_type: str = "siglip"


@dataclass
class Second(Config):
    """The keys of SigLIP 2's config.json."""

    model_type: str = "siglip2"


@dataclass
class SecondText(towers.SiglipText):
    """The keys of its text_config."""

    model_type: str = "siglip2_text_model"


@dataclass
class SecondVision(towers.SiglipVision):
    """The keys of its vision_config."""

    num_patches: int = 256
    model_type: str = "siglip2_vision_model"


class Siglip2(ClipModel):
    """SigLIP 2 in transformers' names; pixels are patches' multiples, of any shape."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, image: ImageTower, text: TextTower) -> None:
        super().__init__(c, image, text, biased=True)
        inputs = image.channels * image.patch[0] * image.patch[1]
        projection = nn.Linear(inputs, image.layer.width)
        put(self, "vision_model.embeddings.patch_embedding", projection)
        count = image.image[0] // image.patch[0]
        self.processor = replace(KINDS["Siglip2"], multiple=image.patch[0], longest=count**2)

    def patched(self, pixels: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """The patches (batch, tokens, width), and their grid."""
        assert self.image is not None
        (tall, wide), table = self.image.patch, self.get_submodule("vision_model.embeddings")
        grid = pixels.shape[2] // tall, pixels.shape[3] // wide
        x = pixels[:, :, : grid[0] * tall, : grid[1] * wide]
        x = x.reshape(len(x), -1, grid[0], tall, grid[1], wide).permute(0, 2, 4, 3, 5, 1)
        patches = x.reshape(len(x), grid[0] * grid[1], -1)
        return table.get_submodule("patch_embedding")(patches), grid


def _second(config: dict[str, Any]) -> Siglip2:
    c = read_config(Second, config, ("Siglip2Model",))
    seen = towers.tower(config, "vision_config", SecondVision)
    text = towers.tower(config, "text_config", SecondText)
    side = math.isqrt(seen.num_patches)
    if side < 1 or side**2 != seen.num_patches:
        raise FormatError(f"config.json: num_patches {seen.num_patches} is no square")
    seen.image_size = [n * side for n in pair(seen.patch_size, "patch_size")]
    choose("vision_use_head", seen.vision_use_head, (True,))
    image = replace(_image(seen), resized=True, smooth=True)
    return Siglip2(c, image, _text(text))


def _text(text: towers.SiglipText) -> TextTower:
    return TextTower(
        layer_of(text),
        text.num_hidden_layers,
        text.vocab_size,
        text.max_position_embeddings,
        -1,
        False,
        text.projection_size or text.hidden_size,
    )


def build(config: dict[str, Any], names: Collection[str]) -> ClipModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    named, kind = config.get("architectures") or [None], config["model_type"]
    if kind == "siglip2":
        return _second(config)
    if kind == "siglip_vision_model" or named[0] == "SiglipVisionModel":
        inside = kind == "siglip" and "vision_config" in config  # as a classifier of images has it
        vision = (
            towers.tower(config, "vision_config", towers.SiglipVision)
            if inside
            else towers.read(config, towers.SiglipVision)
        )
        model = ClipModel(vision, _image(vision), None)
        model.tasks = TASKS[1:]
        return model
    if named not in ([None], ["SiglipModel"]):
        raise ArchitectureError(named, ("SiglipModel", "SiglipVisionModel"))
    c = read_config(Config, config | {"architectures": None})
    image = towers.tower(config, "vision_config", towers.SiglipVision)
    text = towers.tower(config, "text_config", towers.SiglipText)
    return ClipModel(c, _image(image), _text(text), biased=True)


def _image(c: towers.SiglipVision) -> ImageTower:
    return ImageTower(
        layer_of(c),
        c.num_hidden_layers,
        pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"),
        c.num_channels,
        False,
        c.vision_use_head,
    )


FAMILY = Family(
    model_types=("siglip", "siglip_vision_model", "siglip2"),
    tasks=TASKS,
    base_prefix="vision_model.",
    config=Config,
    build=build,
)
