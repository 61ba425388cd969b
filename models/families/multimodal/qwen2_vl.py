"""Qwen2-VL (Wang et al., 2024), Qwen2.5-VL (Bai et al., 2025) and Qwen3-VL: patches of any grid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.patches import PatchProcessor, patch_processor
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.built import by_sections, renaming, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qwen import QwenTower, TowerSpec, axial_theta
from rushlight.models.layers.seeing.sight import Sight, grids_of

ARCHITECTURES = (
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
)
PLACE = "<|image_pad|>"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int | None = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "qwen2_vl"

    neutral = {
        "video_token_id": (),
        "vision_start_token_id": (),
        "vision_end_token_id": (),
        "vision_token_id": (),
    }


@dataclass
class Vision:
    """The keys of vision_config of Qwen2-VL."""

    depth: int = 32
    embed_dim: int = 1280
    hidden_size: int = 3584
    hidden_act: str = "quick_gelu"
    mlp_ratio: float = 4
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 14
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    rope_parameters: Any = None
    model_type: str = "qwen2_vl_vision"


@dataclass
class Vision25:
    """The keys of vision_config of Qwen2.5-VL."""

    depth: int = 32
    hidden_size: int = 3584
    hidden_act: str = "silu"
    intermediate_size: int = 3420
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 14
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    window_size: int = 112
    out_hidden_size: int = 3584
    fullatt_block_indexes: Any = (7, 15, 23, 31)
    rope_parameters: Any = None
    model_type: str = "qwen2_5_vl_vision"

    neutral = {"tokens_per_second": ()}


@dataclass
class Vision3:
    """The keys of vision_config of Qwen3-VL."""

    depth: int = 27
    hidden_size: int = 1152
    hidden_act: str = "gelu_pytorch_tanh"
    intermediate_size: int = 4304
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 16
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    out_hidden_size: int = 3584
    num_position_embeddings: int = 2304
    deepstack_visual_indexes: Any = (8, 16, 24)
    rope_parameters: Any = None
    model_type: str = "qwen3_vl_vision"


_VISIONS: dict[str, Any] = {"qwen2_vl": Vision, "qwen2_5_vl": Vision25, "qwen3_vl": Vision3}
_TOKENS = {"qwen2_vl": 151655, "qwen2_5_vl": 151655, "qwen3_vl": 151655}


def tower_of(kind: str, values: Mapping[str, Any]) -> TowerSpec:
    """The tower that a vision_config describes."""
    v: Any = read_config(
        _VISIONS[kind], {**values, "model_type": _VISIONS[kind].model_type, "architectures": None}
    )
    choose("vision_config: hidden_act", v.hidden_act, tuple(ACTIVATIONS))
    patch = (v.temporal_patch_size, v.patch_size, v.patch_size)
    theta = axial_theta(v.rope_parameters)
    common = {"channels": v.in_channels, "act": v.hidden_act, "theta": theta}
    merge = v.spatial_merge_size
    if kind == "qwen2_vl":
        inner = int(v.embed_dim * v.mlp_ratio)
        return TowerSpec(
            v.embed_dim, v.num_heads, v.depth, inner, v.hidden_size, patch, merge, **common
        )
    sizes = (v.hidden_size, v.num_heads, v.depth, v.intermediate_size, v.out_hidden_size)
    if kind == "qwen2_5_vl":
        return TowerSpec(
            *sizes, patch, merge, **common, norm="rms", gated=True,
            window=v.window_size // v.patch_size,
            full=tuple(numbers_of("fullatt_block_indexes", v.fullatt_block_indexes)),
        )  # fmt: skip
    if int(v.num_position_embeddings**0.5) ** 2 != v.num_position_embeddings:
        raise FormatError(
            f"config.json: num_position_embeddings is {v.num_position_embeddings}; it must be the "
            "square of a whole number"
        )
    return TowerSpec(
        *sizes, patch, merge, **common, mlp=("linear_fc1", "linear_fc2"), patch_bias=True,
        table=v.num_position_embeddings, late=True,
        deep=tuple(numbers_of("deepstack_visual_indexes", v.deepstack_visual_indexes)),
    )  # fmt: skip


def _sections(text: Mapping[str, Any], alternating: bool) -> Any:
    """mrope_section of a text_config, or Qwen's own."""
    for name in ("rope_scaling", "rope_parameters"):
        if isinstance(text.get(name), Mapping) and "mrope_section" in text[name]:
            return text[name]["mrope_section"]
    return [24, 20, 20] if alternating else [16, 24, 24]


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = config["model_type"]
    known = read_config(Config, config, ARCHITECTURES)
    vision = config.get("vision_config") or {}
    if not isinstance(vision, Mapping):
        raise FormatError(f"config.json: vision_config is {brief(vision)}; it must be an object")
    tower = tower_of(kind, vision)
    inner = config.get("text_config") or config
    third = kind == "qwen3_vl"
    patches = PatchProcessor(tower.patch[1], tower.patch[0], tower.merge)

    def look(model: PictureDecoder, inputs: Mapping[str, Tensor]) -> Tensor:
        rows: Tensor = model.get_submodule("model.visual")(
            inputs["pixels"], grids_of(inputs["image_grid_thw"])
        )
        return rows

    def sight(spec: DecoderSpec) -> Sight:
        if tower.out != spec.width:
            raise FormatError(
                f"config.json: vision_config makes rows of {tower.out} features, but text_config "
                f"has hidden_size {spec.width}"
            )
        return Sight(
            known.image_token_id if known.image_token_id is not None else _TOKENS[kind],
            PLACE,
            {"model.visual": QwenTower(tower)},
            look,
            lambda files, _: patch_processor(files, patches, PLACE),
            deep=len(tower.deep),
            sections=True,
            merge=tower.merge,
            scale="pixels" if kind == "qwen2_5_vl" else "thousandths",
            inline=f"<|vision_start|>{PLACE}<|vision_end|>",
        )

    return seeing_decoder(
        config, names, known, sight,
        lambda spec: by_sections(spec, _sections(inner, third), third),
    )  # fmt: skip


FAMILY = Family(
    model_types=("qwen2_vl", "qwen2_5_vl", "qwen3_vl"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=renaming(
        ("model.visual.", "model.visual."),
        ("model.language_model.", "model.language_model."),
        ("visual.", "model.visual."),
        ("model.", "model.language_model."),
    ),
)
