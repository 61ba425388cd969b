"""LLaVA (Liu et al., 2023), ViP-LLaVA (Cai et al., 2023), LLaVA-NeXT and -OneVision (2024)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS, processor_of
from rushlight.models.image.tiles import (
    RowsProcessor,
    Steps,
    WholeProcessor,
    sizes_of,
    square,
    steps_of,
    stored_settings,
    whole_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.anyres import AnyRes, any_tiles
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import PictureProcessor, Sight
from rushlight.models.layers.seeing.towers import (
    Tower,
    TowerSpec,
    TwoProducts,
    each_size,
    tower_of,
)

ARCHITECTURES = (
    "LlavaForConditionalGeneration",
    "LlavaNextForConditionalGeneration",
    "LlavaOnevisionForConditionalGeneration",
    "VipLlavaForConditionalGeneration",
)
# What config.json without a vision_config means, by model_type.
_CLIP = {
    "intermediate_size": 4096, "hidden_size": 1024, "patch_size": 14, "image_size": 336,
    "num_hidden_layers": 24, "num_attention_heads": 16, "model_type": "clip_vision_model",
}  # fmt: skip
_SIGLIP = {
    "intermediate_size": 4304, "hidden_size": 1152, "patch_size": 14, "image_size": 384,
    "num_hidden_layers": 26, "num_attention_heads": 16, "vision_use_head": False,
    "model_type": "siglip_vision_model",
}  # fmt: skip
_NEXT = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_ONE = [[384 * i, 384 * j] for i in range(1, 7) for j in range(1, 7)]


@dataclass
class Config:
    """The keys of config.json that the models depend on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_index: int = 32000
    projector_hidden_act: str = "gelu"
    vision_feature_select_strategy: str = "default"
    vision_feature_layer: Any = None
    vision_feature_layers: Any = None  # of older files of ViP-LLaVA
    projector_layernorm_eps: float = 1e-5
    multimodal_projector_bias: bool = True
    image_grid_pinpoints: Any = None
    vision_aspect_ratio: str = "anyres_max_9"
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "llava"

    neutral = {"image_seq_length": (), "video_token_index": ()}


def _whole(files: Mapping[str, bytes], tower: TowerSpec, text: str) -> PictureProcessor:
    usual = KINDS["CLIP" if tower.names.first else "Siglip"]
    size = tower.image
    usual = replace(
        usual, size=None if usual.size is None else size,
        shortest=None if usual.shortest is None else min(size),
        crop=None if usual.crop is None else size,
    )  # fmt: skip
    return WholeProcessor(processor_of(files, usual), text)


def pixtral_processor(
    files: Mapping[str, bytes],
    patch: int,
    merge: int,
    place: str = "[IMG]",
    lines: bool = True,
) -> PictureProcessor:
    """Pixtral's processor as the files say it; patch, merge: of the model.

    place: the text of a row of features. lines: whether marks stand after those of each line.
    """
    said, whole = stored_settings(files), whole_settings(files).values
    size = said.values.get("size")
    sides = size if isinstance(size, Mapping) and "height" in size else None
    longest = said.pair("size", sides) if sides else (square(said, "size", 1024),) * 2
    steps = steps_of(said, Steps())
    if not lines:
        return RowsProcessor(
            steps, longest, square(said, "patch_size", patch * merge), place, "", ""
        )
    return RowsProcessor(
        steps, longest, patch * merge, str(whole.get("image_token", place)),
        str(whole.get("image_break_token", "[IMG_BREAK]")),
        str(whole.get("image_end_token", "[IMG_END]")),
    )  # fmt: skip


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("vision_feature_select_strategy", c.vision_feature_select_strategy, ("default", "full"))
    one, tiled = c.model_type == "llava_onevision", c.model_type not in ("llava", "vipllava")
    usual = {} if config.get("vision_config") else _SIGLIP if one else _CLIP
    tower = tower_of(config, "siglip_vision_model" if one else "clip_vision_model", **usual)
    several = c.model_type == "vipllava"
    chosen = c.vision_feature_layer
    if chosen is None:
        chosen = (c.vision_feature_layers or [-2, -5, -8, -11, 6]) if several else -2
    # The class token, or the first patch.
    cut = c.vision_feature_select_strategy == "default" or several
    rotary = tower.places == "rotary"
    count = tower.grid[0] * tower.grid[1] + bool(tower.names.first) - cut
    pinpoints = c.image_grid_pinpoints or (_ONE if one else _NEXT)
    most = c.vision_aspect_ratio.removeprefix("anyres_max_") if one else "0"
    if not most.isdecimal():
        raise FormatError(
            f"config.json: vision_aspect_ratio is {brief(c.vision_aspect_ratio)}; it must be "
            "anyres_max_ and a number"
        )
    res = AnyRes(
        sizes_of("config.json: image_grid_pinpoints", pinpoints), tower.image, tower.grid, int(most)
    )

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, pixels = model.model, inputs["pixels"]

        def rows(tiles: Tensor) -> Tensor:
            states = base.vision_tower.chosen(tiles, chosen)
            out: Tensor = base.multi_modal_projector(states[:, 1:] if cut else states)
            return out

        if not tiled:
            each = each_size(pixels, inputs["image_sizes"]) if rotary else [pixels]
            return cat([rows(part).flatten(0, 1) for part in each])
        found = []
        for picture, size in zip(pixels, inputs["image_sizes"].tolist(), strict=True):
            down, across = res.tiles(size)
            made = rows(picture[: 1 + down * across] if len(picture) > 1 else picture)
            found.append(res.joined(made, size, base.image_newline))
        return cat(found)

    def processor(files: Mapping[str, bytes], _: Any) -> PictureProcessor:
        if tiled:
            return any_tiles(files, res, count, "<image>")
        if rotary:
            return pixtral_processor(files, tower.patch[0], 1)
        return _whole(files, tower, "<image>" * count)

    def sight(spec: DecoderSpec) -> Sight:
        layers = 1 if isinstance(chosen, int) else len(chosen)
        parts: dict[str, Any] = {
            "model.vision_tower": Tower(tower),
            "model.multi_modal_projector": TwoProducts(
                tower.layer.width * layers, spec.width, spec.width, c.projector_hidden_act,
                c.multimodal_projector_bias, "projector_layernorm" if several else "",
                c.projector_layernorm_eps,
            ),
        }  # fmt: skip
        if tiled:
            parts["model.image_newline"] = (spec.width,)
        place = "[IMG]" if rotary else "<image>"
        return Sight(c.image_token_index, place, parts, look, processor)

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("llava", "llava_next", "llava_onevision", "vipllava"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
