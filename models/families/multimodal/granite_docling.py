"""Granite for Docling (IBM, 2026): tiles of pages, whose features enter the first layers too.

A connector makes few rows of each tile, or, where the processor's file asks for the fine route,
four times as many. granite-docling-258M is an Idefics3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import (
    Cut,
    Steps,
    TileProcessor,
    nearest_grid,
    split,
    steps_of,
    stored_settings,
)
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TwoProducts, shuffled, tower_of, vision_of

ARCHITECTURES = ("GraniteDoclingForConditionalGeneration",)
_SIDE = 16  # tiles of a side: the tokenizer has no marks of more
# What a text_config leaves out.
_TEXT = {
    "vocab_size": 133800, "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5, "embedding_multiplier": 12.0, "logits_scaling": 4.0,
    "residual_multiplier": 0.263, "attention_multiplier": 0.015625, "eos_token_id": 100257,
}  # fmt: skip


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: Any = 512
    patch_size: Any = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    out_hidden_size: int = 1024
    scale_factor: int = 4
    deepstack_visual_indexes: Any = None
    use_fine_route: bool = True
    model_type: str = "granite_docling_vision"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 100337
    density_router_hidden_size: int | None = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "granite_docling"

    neutral = {"density_router_threshold": (), "density_router_loss_weight": ()}


class _Path(nn.Module):
    """States (n, rows, columns, width) -> (n, rows / factor, columns / factor, out)."""

    def __init__(self, seen: Vision, factor: int, grid: tuple[int, int], deep: int) -> None:
        self.factor, out = factor, seen.out_hidden_size
        wide = seen.hidden_size * factor**2
        if factor < 1 or grid[0] % factor or grid[1] % factor or out % 4:
            raise FormatError(
                f"config.json: vision_config: scale_factor {seen.scale_factor} and out_hidden_size "
                f"{out} do not fit {grid[0]} x {grid[1]} patches"
            )
        self.places = _waves((grid[0] // factor, grid[1] // factor), out)
        self.projection = nn.Linear(wide, out, bias=False)
        self.deepstack_mergers = nn.ModuleList(
            TwoProducts(wide, out, out, "gelu", norm="layer_norm") for _ in range(deep)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.projection(shuffled(x, self.factor))
        return x + from_numpy(self.places).to(x.device).to(x.dtype)


class _Connector(nn.Module):
    """Rows of the tower's last state, and of those of its deep layers."""

    def __init__(self, seen: Vision, grid: tuple[int, int], deep: int) -> None:
        width, out = seen.hidden_size, seen.out_hidden_size
        self.ln_in, self.ln_mid, self.ln_out = (nn.LayerNorm(n) for n in (width, out, out))
        self.coarse = _Path(seen, seen.scale_factor, grid, deep)
        if seen.use_fine_route:
            self.fine = _Path(seen, seen.scale_factor // 2, grid, deep)
        self.mlp_fc2 = nn.Linear(out, out, bias=False)

    def forward(self, x: Tensor, deep: list[Tensor], fine: bool) -> list[Tensor]:
        """x and each of deep: (n, rows, columns, width). Returns (places, out) of each of them."""
        path: Any = self.fine if fine else self.coarse
        x = ACTIVATIONS["gelu"](self.ln_mid(path(self.ln_in(x))))
        mergers = path.deepstack_mergers
        more = [m(shuffled(y, path.factor)) for m, y in zip(mergers, deep, strict=True)]
        return [y.flatten(0, 2) for y in (self.ln_out(self.mlp_fc2(x)), *more)]


class _Router(nn.Module):
    """What says whether a page needs the fine route; `fine_route` of the processor's file asks."""

    def __init__(self, width: int, inner: int) -> None:
        self.att, self.norm = nn.Linear(width, 1), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, 1)


def _waves(grid: tuple[int, int], width: int) -> npt.NDArray[np.float32]:
    """Sines and cosines (rows, columns, width) of each column, then of each row."""
    spacing = 1 / 10000 ** (np.arange(width // 4) / (width // 4))
    rows, columns = (axis[:, :, None] * spacing for axis in np.indices(grid))
    parts = [f(axis) for axis in (columns, rows) for f in (np.sin, np.cos)]
    return np.concatenate(parts, 2).astype(np.float32)


@dataclass(frozen=True)
class _Tiles:
    """Tiles of a page, then the whole of it where they are several.

    dense: the most tiles of a page that `scale` and `ratios` choose: (0: none; how much narrower
    than the page its tiles are; widths by height that are wider, and no wider; 0: not asked).
    """

    tile: tuple[int, int]
    crops: bool
    least: int
    most: int
    dense: int
    scale: float
    ratios: tuple[float, float]

    def __call__(self, steps: Steps, pixels: Pixels) -> Cut:
        rows, columns = self._grid(*pixels.shape[:2])
        size = self.tile[0] * rows, self.tile[1] * columns
        tiles = split(steps.resized(pixels, size), rows, columns)
        if len(tiles) > 1:
            tiles.append(steps.resized(pixels, self.tile))
        return Cut(tiles, rows, columns)

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        if not self.crops or self.most <= 1:
            return 1, 1
        grid = nearest_grid(height, width, self.tile, self.least, self.most, _SIDE)
        above, below = self.ratios
        if not self.dense or (self.scale <= 0 and above <= 0):
            return grid
        if (above > 0 and width / height <= above) or (0 < below < width / height):
            return grid
        if self.scale > 0 and grid[1] * self.tile[1] / width >= self.scale:
            return grid
        least = min(self.least, self.dense)
        return nearest_grid(height, width, self.tile, least, self.dense, _SIDE)


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**vision_of(config), "model_type": Vision.model_type, "architectures": None}
    seen: Vision = read_config(Vision, values)
    own = ("out_hidden_size", "scale_factor", "deepstack_visual_indexes", "use_fine_route")
    plain = {f.name: getattr(seen, f.name) for f in fields(Vision) if f.name not in own}
    plain |= {"model_type": "siglip_vision_model", "vision_use_head": False}
    tower = tower_of({"model_type": c.model_type, "vision_config": plain}, "siglip_vision_model")
    layers = seen.deepstack_visual_indexes
    layers = numbers_of("deepstack_visual_indexes", [3, 7, 10] if layers is None else layers)
    deep = sorted({i for i in layers if 0 <= i < tower.layers})
    if len(deep) != len(layers):
        raise FormatError(
            f"config.json: vision_config: deepstack_visual_indexes {list(layers)} are not layers "
            f"of {tower.layers}, each once"
        )

    def look(model: PictureDecoder, inputs: Mapping[str, Tensor]) -> Tensor:
        base: Any = model.get_submodule("model.vision_model")
        states = base(inputs["pixels"].reshape(-1, *inputs["pixels"].shape[-3:]))
        grids = [y.reshape(len(y), *tower.grid, -1) for y in (base.last(states[-1]), *states)]
        last, *deeper = base.connector(grids[0], [grids[i + 2] for i in deep], "fine" in inputs)
        return cat([last * model.spec.embedding_scale, *deeper], 1)

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        said = stored_settings(files)
        usual = dict(zip(("height", "width"), tower.image, strict=True))
        tile = said.pair("size", said.values.get("size") or usual)
        least, most = said.whole("min_patches", 1), said.whole("max_patches", 32)
        if least > most or most > 1024:
            raise FormatError(f"{said.name}: min_patches {least}, max_patches {most} fit no tiles")
        fine = said.flag("fine_route", False)
        if fine and not seen.use_fine_route:
            raise FormatError(f"{said.name}: fine_route is true, but the model has no such route")
        dense = said.values.get("dense_max_patches") or 0
        cuts = _Tiles(
            tile, said.flag("crop_to_patches", True), least, most,
            said.whole("dense_max_patches", 1) if dense else 0,
            said.number("dense_max_scale", 0.0, 0.0, 1e9),
            (said.number("dense_min_aspect", 0.0, 0.0, 1e9),
             said.number("dense_max_aspect", 0.0, 0.0, 1e9)),
        )  # fmt: skip
        shrinks = seen.scale_factor // (2 if fine else 1)
        place = "<image>" * (tower.grid[0] // shrinks * (tower.grid[1] // shrinks))
        mark = "<fake_token_around_image>"

        def cut(steps: Steps, pixels: Pixels) -> Cut:
            made = cuts(steps, pixels)
            if fine:
                made.inputs["fine"] = np.ones((1,), np.int64)
            return made

        def text(made: Cut) -> str:
            lines = "".join(
                "".join(f"{mark}<row_{i}_col_{j}>{place}" for j in range(1, made.columns + 1))
                + "\n"
                for i in range(1, made.rows + 1)
            )
            return lines + (f"\n{mark}<global-img>{place}{mark}" if len(made.tiles) > 1 else "")

        return TileProcessor(steps_of(said, Steps()), cut, text)

    def sight(spec: DecoderSpec) -> Sight:
        if seen.out_hidden_size != spec.width:
            raise FormatError(
                f"config.json: vision_config makes rows of {seen.out_hidden_size} features, but "
                f"text_config has hidden_size {spec.width}"
            )
        parts: dict[str, Any] = {
            "model.vision_model": Tower(tower),
            "model.vision_model.connector": _Connector(seen, tower.grid, len(deep)),
        }
        if c.density_router_hidden_size is not None:
            inner = c.density_router_hidden_size
            parts["model.density_router"] = _Router(seen.hidden_size, inner)
        return Sight(c.image_token_id, "<image>", parts, look, processor, deep=len(deep))

    return seeing_decoder(
        config, names, c, sight, base="model.text_model", text=lambda within: {**_TEXT, **within}
    )


FAMILY = Family(
    model_types=("granite_docling",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    unused=lambda name, config: name.startswith("mtp."),
)
