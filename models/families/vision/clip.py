"""CLIP (Radford et al., 2021): vectors of images and of texts that say what they show."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.attention import open_clip
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, TextTower, layer_of
from rushlight.models.layers.vision.vit import pair

TASKS = ("zero-shot-image-classification", "image-feature-extraction")
TENSORS = ("visual.class_embedding",)


@dataclass
class Config:
    """The keys of config.json."""

    text_config: Any = None
    vision_config: Any = None
    text_config_dict: Any = None
    vision_config_dict: Any = None
    projection_dim: int = 512
    logit_scale_init_value: float = 2.6592
    model_type: str = "clip"


def build(config: dict[str, Any], names: Collection[str]) -> ClipModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    named, kind = config.get("architectures") or [None], config["model_type"]
    if kind == "clip" and named in ([None], ["CLIPModel"]):
        c = read_config(Config, config | {"architectures": None})
        image = towers.tower(config, "vision_config", towers.ClipVision)
        text = towers.tower(config, "text_config", towers.ClipText)
        return ClipModel(
            c, image_tower(image, c.projection_dim), text_tower(text, c.projection_dim)
        )
    if kind == "clip_text_model" or named[0] == "CLIPTextModelWithProjection":
        text_config = towers.read(config, towers.ClipText)
        wide = text_config.projection_dim if "text_projection.weight" in names else None
        return _served(ClipModel(text_config, None, text_tower(text_config, wide)), ())
    seeing = ("CLIPVisionModel", "CLIPVisionModelWithProjection")
    if kind == "clip_vision_model" or named[0] in seeing:
        inside = kind == "clip" and "vision_config" in config  # as a classifier of images has it
        seen = (
            towers.tower(config, "vision_config", towers.ClipVision)
            if inside
            else towers.read(config, towers.ClipVision)
        )
        wide = seen.projection_dim if "visual_projection.weight" in names else None
        return _served(ClipModel(seen, image_tower(seen, wide), None), TASKS[1:])
    raise ArchitectureError(named, ("CLIPModel", "CLIPTextModelWithProjection", *seeing))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of OpenCLIP under transformers' names, and those of a tower of texts alone with the
    prefix that they have beside images.
    """
    if TENSORS[0] in tensors:
        return open_clip.rename_tensors(tensors)
    if "embeddings.token_embedding.weight" not in tensors:
        return dict(tensors)
    projection = "text_projection.weight"
    return {n if n == projection else f"text_model.{n}": t for n, t in tensors.items()}


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of OpenCLIP without a configuration."""
    return open_clip.config_of(tensors, {})


def files_of(tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that open_clip_config.json and the tensors of OpenCLIP make."""
    return open_clip.files_of(tensors, files, open_clip.config_of)


def _served(model: ClipModel, tasks: tuple[str, ...]) -> ClipModel:
    model.tasks = tasks or ("feature-extraction",)
    return model


def text_tower(c: towers.ClipText, projection: int | None) -> TextTower:
    """The tower of texts of a configuration."""
    # Files from before the id of the end was right have 2, and the end is the largest id.
    end = None if c.eos_token_id in (2, None) else c.eos_token_id
    return TextTower(
        layer_of(c),
        c.num_hidden_layers,
        c.vocab_size,
        c.max_position_embeddings,
        end,
        projection=projection,
    )


def image_tower(c: towers.ClipVision, projection: int | None) -> ImageTower:
    """The tower of images of a configuration."""
    return ImageTower(
        layer_of(c),
        c.num_hidden_layers,
        pair(c.image_size, "image_size"),
        pair(c.patch_size, "patch_size"),
        c.num_channels,
        projection=projection,
    )


FAMILY = Family(
    model_types=("clip", "clip_text_model", "clip_vision_model"),
    tasks=TASKS,
    base_prefix="vision_model.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    files_of=files_of,
)
