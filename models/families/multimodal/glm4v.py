"""GLM-4.1V, -4.5V, -4.6V (GLM-V Team, 2025), GLM-OCR (2026): patches, joined by a product."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.patches import PatchProcessor, patch_processor
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import by_sections, renaming, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qwen import (
    Grid,
    QwenTower,
    TowerSpec,
    axial_theta,
    patch_places,
)
from rushlight.models.layers.seeing.sight import Sight, grids_of
from rushlight.models.layers.seeing.towers import vision_of
from rushlight.models.reference import reference_keys

ARCHITECTURES = (
    "Glm4vForConditionalGeneration",
    "Glm46VForConditionalGeneration",
    "Glm4vMoeForConditionalGeneration",
    "GlmOcrForConditionalGeneration",
)
PLACE = "<|image|>"
_OWN = ("glm_ocr", "glm4v_moe")  # those whose parts have model_types of their own
_TOKENS = {"glm_ocr": 59280, "glm4v_moe": 151363}


@dataclass
class Config:
    """The keys of config.json that the models depend on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int | None = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "glm4v"

    neutral = dict.fromkeys(
        ("video_token_id", "image_start_token_id", "image_end_token_id", "video_start_token_id",
         "video_end_token_id", "num_local_experts"), (),
    )  # fmt: skip


@dataclass
class Vision:
    """The keys of vision_config."""

    depth: int = 24
    hidden_size: int = 1536
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_heads: int = 12
    in_channels: int = 3
    image_size: int = 336
    patch_size: int = 14
    rms_norm_eps: float = 1e-5
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    out_hidden_size: int = 4096
    intermediate_size: int = 13696
    rope_parameters: Any = None
    model_type: str = "glm4v_vision"

    neutral = {"rope_theta": (None,), "rope_scaling": (None,)}


class _Tower(QwenTower):
    """Qwen's blocks; a convolution joins the patches of a row. inner: of the MLP after it.

    table: rows and columns of the positions that are interpolated; 0: there are none.
    """

    def __init__(self, spec: TowerSpec, inner: int, table: int) -> None:
        self.inner, self.table = inner, table
        super().__init__(spec)

    def _surround(self) -> None:
        spec, merge = self.spec, self.spec.merge
        if self.table:
            put(self, "embeddings.position_embedding", nn.Embedding(self.table**2, spec.width))
            self.post_conv_layernorm = nn.RMSNorm(spec.width, spec.eps)
        self.post_layernorm = nn.RMSNorm(spec.width, spec.eps)
        self.downsample = nn.Conv2d(spec.width, spec.out, merge, merge)
        put(self, "merger.proj", nn.Linear(spec.out, spec.out, bias=False))
        put(self, "merger.post_projection_norm", nn.LayerNorm(spec.out, 1e-5))
        for name in ("gate_proj", "up_proj"):
            put(self, f"merger.{name}", nn.Linear(spec.out, self.inner, bias=False))
        put(self, "merger.down_proj", nn.Linear(self.inner, spec.out, bias=False))

    def _before(self, x: Tensor, grids: Sequence[Grid]) -> Tensor:
        if not self.table:
            return x
        table: Any = self.get_submodule("embeddings.position_embedding")
        square = table.weight.float().reshape(1, self.table, self.table, -1).permute(0, 3, 1, 2)
        found = []
        for grid in grids:
            places = patch_places(grid, self.spec.merge)
            index = from_numpy(places[:, 0] * grid[2] + places[:, 1]).to(x.device)
            shaped = interpolate(square, size=grid[1:], mode="bicubic")[0].flatten(1).t()
            found.append(shaped.index_select(0, index))
        out: Tensor = self.post_conv_layernorm(x) + cat(found).to(x.dtype)
        return out

    def _after(self, x: Tensor) -> Tensor:
        merge = self.spec.merge
        merger: Any = self.get_submodule("merger")
        x = self.post_layernorm(x).reshape(-1, merge, merge, x.shape[1]).permute(0, 3, 1, 2)
        x = merger.proj(self.downsample(x).flatten(1))
        x = ACTIVATIONS["gelu"](merger.post_projection_norm(x))
        act = ACTIVATIONS[self.spec.act]
        out: Tensor = merger.down_proj(act(merger.gate_proj(x)) * merger.up_proj(x))
        return out


def _tower(kind: str, values: Mapping[str, Any]) -> _Tower:
    ocr = kind == "glm_ocr"
    name = f"{kind if kind in _OWN else 'glm4v'}_vision"
    v = read_config(Vision, {**values, "model_type": name, "architectures": None})
    choose("vision_config: hidden_act", v.hidden_act, tuple(ACTIVATIONS))
    bias = v.attention_bias
    spec = TowerSpec(
        v.hidden_size, v.num_heads, v.depth, v.intermediate_size if ocr else v.out_hidden_size,
        v.out_hidden_size, (v.temporal_patch_size, v.patch_size, v.patch_size),
        v.spatial_merge_size, v.in_channels, v.hidden_act, "rms", True, patch_bias=True,
        eps=v.rms_norm_eps, theta=axial_theta(v.rope_parameters),
        biases=(bias, bias and ocr, bias and ocr), head_norms=ocr,
    )  # fmt: skip
    inner = v.out_hidden_size * v.in_channels if ocr else v.intermediate_size
    return _Tower(spec, inner, 0 if ocr else v.image_size // v.patch_size)


def _text(kind: str, inner: Mapping[str, Any]) -> dict[str, Any]:
    """What GLM-4's language model is here where text_config leaves it out."""
    told = reference_keys(f"{kind if kind in _OWN else 'glm4v'}_text")
    usual = {k: v for k, v in (told.keys if told else {}).items() if v is not None}
    width, heads = (inner.get(k, usual.get(k)) for k in ("hidden_size", "num_attention_heads"))
    rotary = inner.get("rope_parameters") or inner.get("rope_scaling") or {}
    usual_share = 0.5 if kind == "glm4v_moe" else 1.0
    share = rotary.get("partial_rotary_factor", inner.get("partial_rotary_factor", usual_share))
    more = {"attention_bias": kind != "glm_ocr", "partial_rotary_factor": share}
    if kind == "glm4v_moe":
        more["attention_bias"] = inner.get("attention_bias", True)
    if not inner.get("head_dim") and width and heads:
        more["head_dim"] = width // heads
    return {"intermediate_size": 0, **usual, **inner, **more}


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    tower = _tower(c.model_type, vision_of(config))
    spec_of = tower.spec
    patches = PatchProcessor(
        spec_of.patch[1], spec_of.patch[0], spec_of.merge, 112 * 112, 28 * 28 * 15000,
        frames=spec_of.patch[0],
    )  # fmt: skip
    inner = config.get("text_config") or {}
    rotary = inner.get("rope_parameters") or inner.get("rope_scaling") or {}
    sections = rotary.get("mrope_section", [8, 12, 12])

    def look(model: PictureDecoder, inputs: Mapping[str, Tensor]) -> Tensor:
        rows: Tensor = model.get_submodule("model.visual")(
            inputs["pixels"], grids_of(inputs["image_grid_thw"])
        )
        return rows

    def sight(spec: DecoderSpec) -> Sight:
        usual = _TOKENS.get(c.model_type, 151343)
        return Sight(
            usual if c.image_token_id is None else c.image_token_id, PLACE,
            {"model.visual": tower}, look, lambda files, _: patch_processor(files, patches, PLACE),
            sections=True, merge=spec_of.merge,
        )  # fmt: skip

    return seeing_decoder(
        config, names, c, sight, lambda spec: by_sections(spec, sections),
        text=lambda within: within | _text(c.model_type, inner) | {
            key: within[key] for key in ("model_type", "tie_word_embeddings")
        },
    )  # fmt: skip


FAMILY = Family(
    model_types=("glm4v", "glm46v", "glm4v_moe", "glm_ocr"),
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
    unused=lambda name, config: config["model_type"] == "glm_ocr" and ".layers.16." in name,
)
