"""Idefics3 (Laurençon et al., 2024) and SmolVLM (Marafioti et al., 2025): rows of tiles."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import (
    HALVES,
    Cut,
    Steps,
    TileProcessor,
    split,
    square,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, shuffled, tower_of

ARCHITECTURES = ("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration")
_MOST = 4096  # pixels of a side


@dataclass
class Config:
    """The keys of config.json that the models depend on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 128257
    scale_factor: int = 2
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "idefics3"


@dataclass(frozen=True)
class _Tiles:
    """longest: the longer side that a picture has first; None: it stays. tile: of a side."""

    longest: int | None
    tile: int
    splits: bool

    def __call__(self, steps: Steps, pixels: Pixels) -> Cut:
        """The tiles of a picture, then the whole of it."""
        if self.longest is not None:
            pixels = steps.resized(pixels, self._longest(*pixels.shape[:2]))
        tile = self.tile
        if not self.splits:
            return Cut([steps.resized(pixels, (tile, tile))])
        height, width = pixels.shape[:2]
        long = math.ceil(max(height, width) / tile) * tile
        if width >= height:
            size = math.ceil(int(long / (width / height)) / tile) * tile, long
        else:
            size = long, math.ceil(int(long * (width / height)) / tile) * tile
        pixels = steps.resized(pixels, size)
        rows, columns = size[0] // tile, size[1] // tile
        if rows * columns == 1:
            return Cut([pixels])
        whole = steps.resized(pixels, (tile, tile))
        return Cut([*split(pixels, rows, columns), whole], rows, columns)

    def _longest(self, height: int, width: int) -> tuple[int, int]:
        ratio, long = width / height, self.longest or 1
        if width >= height:
            size = int(long / ratio), long
            size = size[0] + size[0] % 2, long
        else:
            size = long, int(long * ratio)
            size = long, size[1] + size[1] % 2
        height, width = max(size[0], 1), max(size[1], 1)
        ratio = width / height
        if width >= height and width > _MOST:
            height, width = int(_MOST / ratio), _MOST
        elif height > width and height > _MOST:
            height, width = _MOST, int(_MOST * ratio)
        return max(height, 1), max(width, 1)


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    tower = tower_of(config, f"{c.model_type}_vision")
    factor = c.scale_factor

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, pixels = model.model, inputs["pixels"]
        pixels = pixels.reshape(-1, *pixels.shape[-3:])
        states = base.vision_model.last(base.vision_model(pixels)[-1])
        rows, columns = (pixels.shape[2 + i] // tower.patch[i] for i in range(2))
        states = shuffled(states.reshape(len(states), rows, columns, -1), factor)
        proj = base.get_submodule("connector.modality_projection.proj")
        return proj(states).flatten(0, 2)  # type: ignore[no-any-return]

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        said = stored_settings(files)
        tile = square(said, "max_image_size", 364)
        count = (tile // tower.patch[0] // factor) ** 2
        longest = square(said, "size", 4 * 364) if said.flag("do_resize", True) else None
        place = "<fake_token_around_image>", "<image>" * count

        def text(cut: Cut) -> str:
            tiles = "".join(
                "".join(f"{place[0]}<row_{i}_col_{j}>{place[1]}" for j in range(1, cut.columns + 1))
                + "\n"
                for i in range(1, cut.rows + 1)
            )
            tiles += "\n" if cut.rows else ""
            return f"{tiles}{place[0]}<global-img>{place[1]}{place[0]}"

        cuts = _Tiles(longest, tile, said.flag("do_image_splitting", True))
        return TileProcessor(steps_of(said, replace(HALVES, filter="lanczos")), cuts, text)

    def sight(spec: DecoderSpec) -> Sight:
        proj = nn.Linear(tower.layer.width * factor**2, spec.width, bias=False)
        parts = {
            "model.vision_model": Tower(tower),
            "model.connector.modality_projection.proj": proj,
        }
        return Sight(c.image_token_id, "<image>", parts, look, processor)

    return seeing_decoder(config, names, c, sight, base="model.text_model")


FAMILY = Family(
    model_types=("idefics3", "smolvlm"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
)
