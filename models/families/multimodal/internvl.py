"""InternVL 3 (Zhu et al., 2025), Qianfan-OCR, Aya and Command A Vision (Cohere): shuffled tiles."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.tiles import (
    Steps,
    TileProcessor,
    by_scale,
    ratio_settings,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.built import LLAVA_NAMES, renaming, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TwoProducts, shuffled, tower_of

ARCHITECTURES = (
    "InternVLForConditionalGeneration",
    "QianfanOCRForConditionalGeneration",
    "AyaVisionForConditionalGeneration",
    "Cohere2VisionForConditionalGeneration",
)
# The placeholder, and a picture's marker in a prompt.
_TOKENS = {
    "internvl": ("<IMG_CONTEXT>", "<IMG_CONTEXT>"),
    "qianfan_ocr": ("<IMG_CONTEXT>", "<image>"),
    "aya_vision": ("<|IMG_PATCH|>", "<image>"),
    "cohere2_vision": ("<|IMG_PATCH|>", "<|IMG_PATCH|>"),
}


@dataclass
class Config:
    """The keys of config.json that the models depend on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int | None = None
    image_token_index: int | None = None
    downsample_ratio: float = 0.5
    downsample_factor: int = 2
    projector_hidden_act: str = "gelu"
    alignment_intermediate_size: int | None = None
    adapter_layer_norm_eps: float = 1e-6
    vision_feature_layer: Any = -1
    vision_feature_select_strategy: str = "default"
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "internvl"

    neutral = {"image_seq_length": ()}


def _text(kind: str, count: int, tiles: int) -> str:
    """What stands for a picture of so many tiles, each of `count` rows."""
    tile = _TOKENS[kind][0] * count
    if kind in ("internvl", "qianfan_ocr"):
        return f"<img>{tile * tiles}</img>"
    if kind == "cohere2_vision":
        return "<|START_OF_IMG|>" + (tile + "<|IMG_LINE_BREAK|>") * tiles + "<|END_OF_IMG|>"
    parts = "".join(f"TILE_{i}{tile}" for i in range(1, tiles))
    return f"<|START_OF_IMG|>{parts}TILE_GLOBAL{tile}<|END_OF_IMG|>"


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("vision_feature_select_strategy", c.vision_feature_select_strategy, ("default", "full"))
    kind, own = c.model_type, c.model_type in ("internvl", "qianfan_ocr")
    tower = tower_of(config, f"{kind}_vision" if own else "siglip_vision_model")
    factor = max(int(1 / c.downsample_ratio), 1) if own else c.downsample_factor
    cut = kind != "cohere2_vision" and c.vision_feature_select_strategy == "default"
    normed = kind == "cohere2_vision" or (own and c.vision_feature_layer == -1)
    count = tower.grid[0] // factor * (tower.grid[1] // factor)
    token = c.image_token_index if kind == "aya_vision" else c.image_token_id

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        states = base.vision_tower.chosen(
            inputs["pixels"], -1 if kind == "cohere2_vision" else c.vision_feature_layer
        )
        states = base.vision_tower.last(states) if normed else states
        states = states[:, 1:] if cut else states
        side = int(states.shape[1] ** 0.5)
        states = shuffled(states.reshape(len(states), side, side, -1), factor)
        return base.multi_modal_projector(states).flatten(0, 2)  # type: ignore[no-any-return]

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        said = stored_settings(files)
        find = by_scale if kind == "cohere2_vision" else None
        crops = ratio_settings(said, tower.image[0], None if own else kind != "aya_vision", find)
        return TileProcessor(
            steps_of(said, Steps()), crops, lambda made: _text(kind, count, len(made.tiles))
        )

    def sight(spec: DecoderSpec) -> Sight:
        wide = tower.layer.width * factor**2
        inner = spec.width if own else c.alignment_intermediate_size or spec.width
        projector = TwoProducts(
            wide, inner, spec.width, c.projector_hidden_act if own else "silu",
            norm={"aya_vision": "layernorm"}.get(kind, "layer_norm" if own else ""),
            eps=1e-5 if own else c.adapter_layer_norm_eps, halved=not own,
        )  # fmt: skip
        parts = {"model.vision_tower": Tower(tower), "model.multi_modal_projector": projector}
        usual = 151667 if own else 255036
        return Sight(usual if token is None else token, _TOKENS[kind][1], parts, look, processor)

    return seeing_decoder(config, names, c, sight)


# InternVL's own names, which Qianfan-OCR has, and what they are here.
_PREFIXES = renaming(
    ("vision_model.encoder.", "model.vision_tower."),
    ("vision_model.", "model.vision_tower."),
    ("language_model.model.encoder.", "model.language_model."),
    ("language_model.model.", "model.language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("mlp1.0.", "model.multi_modal_projector.layer_norm."),
    ("mlp1.1.", "model.multi_modal_projector.linear_1."),
    ("mlp1.3.", "model.multi_modal_projector.linear_2."),
)
_WORDS = {
    ".attn.proj.": ".attention.projection_layer.", ".attn.": ".attention.", ".ls1": ".lambda_1",
    ".ls2": ".lambda_2", ".norm1.": ".layernorm_before.", ".norm2.": ".layernorm_after.",
    ".class_embedding": ".cls_token", ".position_embedding": ".position_embeddings",
    ".patch_embedding.": ".patch_embeddings.projection.",
}  # fmt: skip


def _rename(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under transformers' names; queries, keys and values apart."""
    if not any(name.startswith("mlp1.") for name in tensors):
        return LLAVA_NAMES(tensors)
    renamed: dict[str, Tensor] = {}
    for name, t in _PREFIXES(tensors).items():
        if not name.startswith("model.vision_tower."):
            renamed[name] = t
            continue
        for old, new in _WORDS.items():
            name = name.replace(old, new)
        if ".attention.qkv." not in name:
            renamed[name] = t
            continue
        if t.shape[0] % 3:
            raise FormatError(f"{name} has {t.shape[0]} rows, no multiple of three")
        for part, values in zip("qkv", t.chunk(3), strict=True):
            renamed[name.replace(".qkv.", f".{part}_proj.")] = values
    return renamed


FAMILY = Family(
    model_types=("internvl", "qianfan_ocr", "aya_vision", "cohere2_vision"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=_rename,
)
