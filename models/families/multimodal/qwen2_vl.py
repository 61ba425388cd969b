"""Qwen2-VL (Wang et al., 2024), 2.5-VL, 3-VL and 3.5, EXAONE 4.5 (LG, 2026): any grid."""

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
from rushlight.models.parts import stacked_experts, swap

ARCHITECTURES = (
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "Exaone4_5_ForConditionalGeneration",
)
PLACE = "<|image_pad|>"


# What EXAONE 4.5 asks of its language model's configuration.
_OF_TEXT: dict[str, Any] = dict.fromkeys(
    ("num_attention_heads", "rms_norm_eps", "sliding_window", "sliding_window_pattern"), ()
)


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
        "torch_dtype": (),
        "layer_types": (),
    } | _OF_TEXT


# theta is that of rope_parameters.
_ROTARY: dict[str, Any] = {
    "rope_theta": (None, 10000.0), "rope_scaling": (None,), "layer_types": (),
}  # fmt: skip


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

    neutral = _ROTARY


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

    neutral = {"tokens_per_second": ()} | _ROTARY


@dataclass
class VisionExaone(Vision25):
    """The keys of vision_config of EXAONE 4.5."""

    num_key_value_heads: int = 8
    model_type: str = "exaone4_5_vision"

    neutral = _OF_TEXT | _ROTARY


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

    neutral = _ROTARY


@dataclass
class Vision35(Vision3):
    """The keys of vision_config of Qwen3.5."""

    deepstack_visual_indexes: Any = ()
    model_type: str = "qwen3_5_vision"


_VISIONS: dict[str, Any] = {
    "qwen2_vl": (Vision, "qwen2_vl_vision"),
    "qwen2_5_vl": (Vision25, "qwen2_5_vl_vision"),
    "exaone4_5": (VisionExaone, "exaone4_5_vision"),
    "qwen3_vl": (Vision3, "qwen3_vl_vision"),
    "qwen3_vl_moe": (Vision3, "qwen3_vl_moe_vision"),
    "qwen3_5": (Vision35, "qwen3_5_vision"),
    "qwen3_5_moe": (Vision35, "qwen3_5_moe_vision"),
}


def tower_of(kind: str, values: Mapping[str, Any]) -> TowerSpec:
    """The tower that a vision_config describes."""
    cls, name = _VISIONS[kind]
    v: Any = read_config(cls, {**values, "model_type": name, "architectures": None})
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
    if kind in ("qwen2_5_vl", "exaone4_5"):
        return TowerSpec(
            *sizes, patch, merge, **common, norm="rms", gated=True,
            window=v.window_size // v.patch_size,
            full=tuple(numbers_of("fullatt_block_indexes", v.fullatt_block_indexes)),
            groups=v.num_key_value_heads if kind == "exaone4_5" else 0,
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


def _sections(text: Mapping[str, Any], kind: str) -> Any:
    """mrope_section of a text_config, or Qwen's own."""
    for name in ("rope_scaling", "rope_parameters"):
        if isinstance(text.get(name), Mapping) and "mrope_section" in text[name]:
            return text[name]["mrope_section"]
    if kind.startswith("qwen3_5"):
        return [11, 11, 10]
    return [24, 20, 20] if kind.startswith("qwen3") else [16, 24, 24]


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = config["model_type"]
    known = read_config(Config, config, ARCHITECTURES)
    vision = config.get("vision_config") or {}
    if not isinstance(vision, Mapping):
        raise FormatError(f"config.json: vision_config is {brief(vision)}; it must be an object")
    tower = tower_of(kind, vision)
    inner = config.get("text_config") or config
    third, plain = kind.startswith("qwen3"), kind == "exaone4_5"  # plain: of one position
    usual = 67 if plain else 151655
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
            usual if known.image_token_id is None else known.image_token_id,
            PLACE,
            {"model.visual": QwenTower(tower)},
            look,
            lambda files, _: patch_processor(files, patches, PLACE),
            deep=len(tower.deep),
            sections=not plain,
            merge=tower.merge,
            scale="pixels" if kind == "qwen2_5_vl" else "thousandths",
            inline=f"<|vision_start|>{PLACE}<|vision_end|>",
        )

    def text(within: dict[str, Any]) -> dict[str, Any]:
        if kind == "qwen3_vl_moe":  # whose weights of experts always sum to one
            within = {**within, "norm_topk_prob": True}
            within["tie_word_embeddings"] = bool(config.get("tie_word_embeddings"))
            if inner.get("num_local_experts") is not None:
                within["num_experts"] = inner["num_local_experts"]
        return within

    return seeing_decoder(
        config, names, known, sight,
        None if plain else lambda spec: by_sections(spec, _sections(inner, kind), third), text=text,
    )  # fmt: skip


def _rename(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """transformers' names; Qwen3-VL's experts (experts, in, out) as (experts, out, in)."""
    named = _PREFIXES(tensors)
    if not any("deepstack_merger_list" in n for n in named):
        return named
    for name, t in named.items():
        router = named.get(f"{name.rpartition('.experts.')[0]}.gate.weight")
        if ".experts." not in name or t.ndim != 3 or router is None:
            continue
        if t.shape[1 if name.endswith("gate_up_proj") else 2] == router.shape[1]:
            named[name] = swap(t)
    return named


_PREFIXES = renaming(
    ("model.visual.", "model.visual."),
    ("model.language_model.", "model.language_model."),
    ("visual.", "model.visual."),
    ("model.", "model.language_model."),
)

FAMILY = Family(
    model_types=tuple(_VISIONS),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=_rename,
    parts=stacked_experts(),
    unused=lambda name, config: name.startswith("mtp."),
)
