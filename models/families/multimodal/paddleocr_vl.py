"""PaddleOCR-VL (Cui et al., 2025): SigLIP of any grid, rotated too, before ERNIE 4.5."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.patches import PatchProcessor, patch_processor
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.built import by_sections, renaming, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qwen import axial_theta
from rushlight.models.layers.seeing.sight import Sight, grids_of
from rushlight.models.layers.seeing.towers import (
    Tower,
    TowerSpec,
    TwoProducts,
    shuffled,
    vision_of,
)
from rushlight.models.layers.vision.attention.places import Rotary
from rushlight.models.layers.vision.clip import layer_of

ARCHITECTURES = ("PaddleOCRVLForConditionalGeneration",)
PLACE = "<|IMAGE_PLACEHOLDER|>"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 100295
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "paddleocr_vl"

    neutral = dict.fromkeys(
        ("video_token_id", "vision_start_token_id", "vision_end_token_id", "torch_dtype",
         "layer_types", "sliding_window"), (),
    )  # fmt: skip


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 1152
    intermediate_size: int = 4304
    num_hidden_layers: int = 27
    num_attention_heads: int = 16
    num_channels: int = 3
    image_size: int = 384
    patch_size: int = 14
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    spatial_merge_size: int = 2
    rope_parameters: Any = None
    model_type: str = "paddleocr_vl_vision"

    neutral = {
        "rope_theta": (None,), "rope_scaling": (None,), "layer_types": (), "sliding_window": (),
    }  # fmt: skip


class _Projector(TwoProducts):
    """Patches (1, rows, columns, width) normalized, joined, then two products."""

    def __init__(self, width: int, merge: int, out: int) -> None:
        self.merge = merge
        super().__init__(width * merge**2, width * merge**2, out, "gelu")
        self.pre_norm = nn.LayerNorm(width, 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(shuffled(self.pre_norm(x), self.merge)).flatten(0, 2)


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**vision_of(config), "model_type": "paddleocr_vl_vision", "architectures": None}
    v = read_config(Vision, values)
    choose("vision_config: hidden_act", v.hidden_act, tuple(ACTIVATIONS))
    theta = axial_theta(v.rope_parameters)
    head, merge = v.hidden_size // max(v.num_attention_heads, 1), v.spatial_merge_size
    layer = replace(layer_of(v), rotary=Rotary(head, theta, (0, 0)))
    tower = TowerSpec(
        layer, v.num_hidden_layers, (v.image_size,) * 2, (v.patch_size,) * 2, v.num_channels,
        places="stretched",
    )  # fmt: skip
    patches = PatchProcessor(
        v.patch_size, 1, merge, 384 * 384, 1536 * 1536, place=PLACE, blocks=False
    )
    inner = config.get("text_config") or config
    rotary = inner.get("rope_parameters") or inner.get("rope_scaling") or {}

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, found, first = model.model, [], 0
        whole = base.visual.vision_model
        for _, tall, wide in grids_of(inputs["image_grid_thw"]):
            pixels = inputs["pixels"][first : first + tall * wide]
            pixels = pixels.reshape(tall, wide, v.num_channels, v.patch_size, v.patch_size)
            pixels = pixels.permute(2, 0, 3, 1, 4).reshape(
                1, v.num_channels, tall * v.patch_size, wide * v.patch_size
            )
            states = whole.last(whole(pixels)[-1]).reshape(1, tall, wide, -1)
            found.append(base.projector(states))
            first += tall * wide
        return cat(found)

    def sight(spec: DecoderSpec) -> Sight:
        parts = {
            "model.visual.vision_model": Tower(tower),
            "model.projector": _Projector(v.hidden_size, merge, spec.width),
        }
        return Sight(
            c.image_token_id, PLACE, parts, look,
            lambda files, _: patch_processor(files, patches, PLACE), sections=True, merge=merge,
        )  # fmt: skip

    def change(spec: DecoderSpec) -> DecoderSpec:
        def halved(_: int, a: AttentionSpec) -> AttentionSpec:
            assert a.rotary is not None
            return replace(a, rotary=replace(a.rotary, interleaved=False))

        return by_sections(each_attention(spec, halved), rotary.get("mrope_section", [16, 24, 24]))

    return seeing_decoder(config, names, c, sight, change)


FAMILY = Family(
    model_types=("paddleocr_vl",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=renaming(
        ("visual.", "model.visual."),
        ("mlp_AR.", "model.projector."),
        ("model.visual.", "model.visual."),
        ("model.projector.", "model.projector."),
        ("model.language_model.", "model.language_model."),
        ("model.", "model.language_model."),
    ),
    unused=lambda name, config: (
        "packing_position_embedding" in name or ".vision_model.head." in name
    ),
)
