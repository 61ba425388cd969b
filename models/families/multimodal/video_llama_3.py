"""VideoLLaMA 3 (Zhang et al., 2025): SigLIP rotated by row and column, for any grid; pictures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.patches import PatchProcessor, patch_processor
from rushlight.models.image.preprocessor_config import HALF
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qwen import axial_theta
from rushlight.models.layers.seeing.sight import Sight, grids_of
from rushlight.models.layers.seeing.towers import Tower, TowerNames, TowerSpec, vision_of
from rushlight.models.layers.vision.attention.places import Rotary
from rushlight.models.layers.vision.clip import layer_of

ARCHITECTURES = ("VideoLlama3ForConditionalGeneration",)
_PLACE = "<|image_pad|>"


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    patch_size: int = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    rope_parameters: Any = None
    model_type: str = "video_llama_3_vision"

    neutral = {"rope_theta": (None,), "rope_scaling": (None,), "layer_types": ()}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 151655
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "video_llama_3"

    neutral = {"video_token_id": ()}


@dataclass(frozen=True)
class _Merged:
    """Patches by the steps of Qwen's processor, and how many of a side become one row."""

    patches: PatchProcessor

    def limited(self, least: int | None, most: int | None) -> _Merged:
        """The processor with other bounds of pixels; ValueError if they exclude each other."""
        return replace(self, patches=self.patches.limited(least, most))

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        picture = self.patches(pixels, alone)
        merges = np.array([self.patches.merge], np.int64)
        inputs = {**picture.inputs, "image_merge_sizes": merges}
        return Picture(inputs, picture.text, picture.size, None, picture.read)


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**vision_of(config), "model_type": Vision.model_type, "architectures": None}
    v: Vision = read_config(Vision, values)
    choose("vision_config: hidden_act", v.hidden_act, tuple(ACTIVATIONS))
    head, side, channels = v.hidden_size // max(v.num_attention_heads, 1), v.patch_size, 3
    choose("vision_config: num_channels", v.num_channels, (channels,))
    layer = replace(layer_of(v), rotary=Rotary(head, axial_theta(v.rope_parameters), (0, 0)))
    tower = TowerSpec(
        layer, v.num_hidden_layers, (side, side), (side, side), channels, TowerNames(positions="")
    )
    usual = PatchProcessor(side, 1, 1, 56 * 56, mean=HALF[0], std=HALF[1], place=_PLACE)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, rows, first = model.model, [], 0
        grids = grids_of(inputs["image_grid_thw"])
        for (_, tall, wide), merge in zip(grids, inputs["image_merge_sizes"].tolist(), strict=True):
            pixels = inputs["pixels"][first : first + tall * wide]
            first += tall * wide
            blocks = (tall // merge, wide // merge, merge, merge, channels, side, side)
            pixels = pixels.reshape(*blocks).permute(4, 0, 2, 5, 1, 3, 6)
            pixels = pixels.reshape(1, channels, tall * side, wide * side)
            states = base.vision_model.last(base.vision_model(pixels)[-1])
            if merge > 1:
                x = states.reshape(1, tall, wide, -1).permute(0, 3, 1, 2)
                x = interpolate(x, size=(tall // merge, wide // merge), mode="bilinear")
                states = x.flatten(2).transpose(1, 2)
            rows.append(base.projector.readout(states)[0])
        return cat(rows)

    def processor(files: Mapping[str, bytes], _: Any) -> _Merged:
        return _Merged(patch_processor(files, usual, _PLACE))

    def sight(spec: DecoderSpec) -> Sight:
        parts = {
            "model.vision_model": Tower(tower),
            "model.projector.readout": nn.Sequential(
                nn.Linear(v.hidden_size, spec.width), nn.GELU(), nn.Linear(spec.width, spec.width)
            ),
        }
        return Sight(c.image_token_id, _PLACE, parts, look, processor)

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("video_llama_3",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
)
