"""Gemma 3 (Gemma Team, 2025) and PaliGemma (Beyer et al., 2024; Steiner et al., 2024)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.files import Pixels
from rushlight.models.image.settings import Settings
from rushlight.models.image.tiles import (
    HALVES,
    Cut,
    Steps,
    TileProcessor,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.norms import OffsetRMSNorm
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, tower_of

ARCHITECTURES = ("Gemma3ForConditionalGeneration", "PaliGemmaForConditionalGeneration")
_PALI = {
    "intermediate_size": 4096, "hidden_size": 1152, "patch_size": 14, "image_size": 224,
    "num_hidden_layers": 27, "num_attention_heads": 16, "vision_use_head": False,
}  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the models depend on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_index: int | None = None
    mm_tokens_per_image: int = 256
    projection_dim: int = 2048
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "gemma3"

    neutral = {
        "boi_token_index": (), "eoi_token_index": (), "vocab_size": (), "hidden_size": (),
    }  # fmt: skip


class _Pooled(nn.Module):
    """Patches (n, side * side, width), averaged within squares, normalized and projected."""

    def __init__(self, width: int, out: int, side: int, eps: float) -> None:
        self.side = side
        self.mm_input_projection_weight = parameter(width, out)
        self.mm_soft_emb_norm = OffsetRMSNorm(width, eps)

    def forward(self, x: Tensor) -> Tensor:
        n, patches, width = x.shape
        side, whole = self.side, math.isqrt(patches)
        step = whole // side
        x = x.reshape(n, whole, whole, width)[:, : side * step, : side * step]
        x = x.reshape(n, side, step, side, step, width).mean((2, 4)).reshape(n, -1, width)
        out: Tensor = self.mm_soft_emb_norm(x) @ self.mm_input_projection_weight
        return out


@dataclass(frozen=True)
class _Scan:
    """Cuts a picture that is long and narrow into crops, which follow the whole of it."""

    size: tuple[int, int]
    scans: bool
    least: int
    most: int
    ratio: float

    def __call__(self, steps: Steps, pixels: Pixels) -> Cut:
        """The whole picture and its crops, each of `size`."""
        crops = self._crops(pixels) if self.scans else []
        return Cut([steps.resized(p, self.size) for p in (pixels, *crops)])

    def _crops(self, pixels: Pixels) -> list[Pixels]:
        sides = pixels.shape[:2]
        short, long = sorted(sides)
        if long / short < self.ratio:
            return []
        count = min(self.most, max(2, min(long // self.least, math.floor(long / short + 0.5))))
        counts = [1 if side == short else count for side in sides]
        if short == long:  # by the width
            counts = [1, count]
        steps = [math.ceil(side / n) for side, n in zip(sides, counts, strict=True)]
        if min(steps) < self.least:
            return []
        places = itertools.product(*(range(n) for n in counts))
        return [
            pixels[i * steps[0] : (i + 1) * steps[0], j * steps[1] : (j + 1) * steps[1]]
            for i, j in places
        ]


def _framed(text: str, pictures: int) -> str:
    """PaliGemma's prompt: pictures, the beginning, the text, the end of a line."""
    if "<image>" not in text:
        text = "<image>" * pictures + text
    before, marker, after = text.rpartition("<image>")
    return f"{before}{marker}<bos>{after}\n"


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    pali = c.model_type == "paligemma"
    usual = _PALI if pali and not config.get("vision_config") else {}
    tower = tower_of(config, "siglip_vision_model", **usual)
    side = math.isqrt(c.mm_tokens_per_image)
    count = tower.grid[0] * tower.grid[1] if pali else side * side

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        states = base.vision_tower.last(base.vision_tower(inputs["pixels"])[-1])
        projector = base.multi_modal_projector
        rows = projector.linear(states) if pali else projector(states)
        return rows.flatten(0, 1)  # type: ignore[no-any-return]

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        said = stored_settings(files)
        usual = said.values.get("size") or list(tower.image)
        size = said.pair("size", usual)
        scans = not pali and said.flag("do_pan_and_scan", False)
        told = Settings({k: v for k, v in said.values.items() if v is not None}, said.name)
        scan = _Scan(
            size, scans, told.whole("pan_and_scan_min_crop_size", 256),
            told.whole("pan_and_scan_max_num_crops", 4),
            told.number("pan_and_scan_min_ratio_to_activate", 1.2, 0.0, 1e6),
        )  # fmt: skip
        steps = steps_of(said, HALVES if pali else replace(HALVES, filter="bilinear"))
        return TileProcessor(steps, scan, lambda cut: _text(pali, count, len(cut.tiles)))

    def sight(spec: DecoderSpec) -> Sight:
        width, parts = tower.layer.width, {"model.vision_tower": Tower(tower)}
        if pali:
            linear = nn.Linear(width, c.projection_dim)
            parts["model.multi_modal_projector.linear"] = linear  # type: ignore[assignment]
            token = 256000 if c.image_token_index is None else c.image_token_index
            return Sight(
                token, "<image>", parts, look, processor, together="prompt", framed=_framed
            )
        projector = _Pooled(width, spec.width, side, tower.layer.eps)
        parts["model.multi_modal_projector"] = projector  # type: ignore[assignment]
        token = 262144 if c.image_token_index is None else c.image_token_index
        return Sight(token, "<start_of_image>", parts, look, processor, together="picture")

    return seeing_decoder(config, names, c, sight, text=_causal if pali else None)


def _text(pali: bool, count: int, tiles: int) -> str:
    if pali:
        return "<image>" * count
    rows = "<image_soft_token>" * count
    whole = f"\n\n<start_of_image>{rows}<end_of_image>\n\n"
    if tiles == 1:
        return whole
    crops = " ".join([whole] * (tiles - 1))
    return (
        f"Here is the original image {whole} and here are some crops to help you see better {crops}"
    )


def _causal(text: dict[str, Any]) -> dict[str, Any]:
    """What PaliGemma's text_config says of attention is said by the prompt."""
    return {key: value for key, value in text.items() if key != "use_bidirectional_attention"}


FAMILY = Family(
    model_types=("gemma3", "paligemma"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
