"""SigLIP (Zhai et al., 2023): CLIP trained on pairs by themselves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
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


def build(config: dict[str, Any], names: Collection[str]) -> ClipModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    named, kind = config.get("architectures") or [None], config["model_type"]
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
    spoken = TextTower(
        layer_of(text),
        text.num_hidden_layers,
        text.vocab_size,
        text.max_position_embeddings,
        -1,
        False,
        text.projection_size or text.hidden_size,
    )
    return ClipModel(c, _image(image), spoken, biased=True)


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
    model_types=("siglip", "siglip_vision_model"),
    tasks=TASKS,
    base_prefix="vision_model.",
    config=Config,
    build=build,
)
