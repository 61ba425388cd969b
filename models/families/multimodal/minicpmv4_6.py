"""MiniCPM-V 4.6 (OpenBMB, 2026): slices of a picture by SigLIP, merged twice, before Qwen 3.5.

Within the tower windows of 2 x 2 patches become one, and behind it 2 x 2 of these; in the mode "4x"
only the latter.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, parse_object, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import NUMBER, Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import HALVES, Size, Steps, split, steps_of, stored_settings
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TowerSpec, shuffled, tower_of, vision_of

ARCHITECTURES = ("MiniCPMV4_6ForConditionalGeneration",)
_PLACE = "<|image_pad|>"
# The marks of a tokenizer that does not name them.
_MARKS = {
    "image_token": _PLACE, "image_start_token": "<image>", "image_end_token": "</image>",
    "slice_start_token": "<slice>", "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>", "image_id_end_token": "</image_id>",
}  # fmt: skip


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: Any = 224
    patch_size: int = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    window_kernel_size: Any = (2, 2)
    model_type: str = "minicpmv4_6_vision"

    neutral = {"insert_layer_id": ()}  # that of the whole


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    insert_layer_id: Any = 6
    image_token_id: int | None = None
    downsample_mode: str = "16x"
    merge_kernel_size: Any = (2, 2)
    merger_times: int = 1
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "minicpmv4_6"

    neutral = {"image_size": (), "video_token_id": (), "drop_vision_last_layer": ()}


class _Windows(nn.Module):
    """Attention in windows of 2 x 2: (1, n, width) -> (1, n / 4, width)."""

    def __init__(self, spec: TowerSpec) -> None:
        layer = spec.layer
        self.heads, width = layer.heads, layer.width
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            put(self, f"self_attn.{name}", nn.Linear(width, width))
        self.layer_norm1 = nn.LayerNorm(width, layer.eps)
        self.pre_norm = nn.LayerNorm(4 * width, layer.eps)
        self.linear_1 = nn.Linear(4 * width, 4 * layer.inner)
        self.linear_2 = nn.Linear(4 * layer.inner, width)

    def forward(self, x: Tensor, grid: Size) -> Tensor:
        width = x.shape[-1]
        x = shuffled(x.reshape(1, *grid, width), 2).reshape(-1, 4, width)
        attention: Any = self.get_submodule("self_attn")
        y = self.layer_norm1(x)
        q, k, v = (
            p(y).reshape(len(y), 4, self.heads, -1).transpose(1, 2)
            for p in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + attention.out_proj(seen)
        act = ACTIVATIONS["gelu_pytorch_tanh"]
        y = self.linear_2(act(self.linear_1(self.pre_norm(x.flatten(1)))))
        out: Tensor = (y + x.mean(1)).unsqueeze(0)
        return out


class _Merged(nn.Module):
    """2 x 2 places as one."""

    def __init__(self, width: int, out: int) -> None:
        self.pre_norm = nn.LayerNorm(4 * width, 1e-6)
        self.linear_1, self.linear_2 = nn.Linear(4 * width, 4 * width), nn.Linear(4 * width, out)

    def forward(self, x: Tensor) -> Tensor:
        """(1, rows, columns, width) -> (1, rows / 2, columns / 2, out)."""
        y = self.linear_1(self.pre_norm(shuffled(x, 2)))
        out: Tensor = self.linear_2(ACTIVATIONS["gelu"](y))
        return out


@dataclass(frozen=True)
class _Slices:
    """Patches (1, 3, side, patches * side) of the whole picture, then of its slices.

    most: slices; 1: none. scale: the side of a slice, about. step: of sides. rows: how many patches
    a row of features stands for. numbered: whether a picture's text begins with its number.
    """

    steps: Steps
    patch: int
    most: int
    scale: int
    merges: int
    numbered: bool
    marks: Mapping[str, str]

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        size: Size = (pixels.shape[0], pixels.shape[1])
        grid = self._grid(size) if self.most > 1 else None
        tiles = [self.steps.resized(pixels, self._resized(size, grid is None))]
        if grid is not None:
            near = [max(round(n / m) * m, m) / m for n, m in zip(size, grid, strict=True)]
            tall, wide = self._resized((near[0], near[1]), True)
            canvas = self.steps.resized(pixels, (tall * grid[0], wide * grid[1]))
            tiles += split(canvas, *grid)
        sizes = np.array([[n // self.patch for n in tile.shape[:2]] for tile in tiles], np.int32)
        packed = np.concatenate([self._packed(tile) for tile in tiles], 2)
        counts = sizes.prod(1) // 4**self.merges
        inputs = {
            "pixels": packed[None], "target_sizes": sizes,
            "slices": np.array([len(tiles)], np.int64),
        }  # fmt: skip
        return Picture(inputs, self._text(counts.tolist(), grid), size)

    def _packed(self, tile: Pixels) -> Any:
        """Patches (3, side, patches * side) side by side."""
        values = self.steps([tile])[0]
        channels, height, width = values.shape
        side = self.patch
        parts = values.reshape(channels, height // side, side, width // side, side)
        return parts.transpose(0, 2, 1, 3, 4).reshape(channels, side, -1)

    def _resized(self, size: tuple[float, float], grows: bool) -> Size:
        height, width = size
        if height * width > self.scale**2 or grows:
            ratio = width / height
            height = int(self.scale / math.sqrt(ratio))
            width = int(height * ratio)
        step = self.patch * 2**self.merges
        return max(round(height / step) * step, step), max(round(width / step) * step, step)

    def _grid(self, size: Size) -> Size | None:
        """The rows and columns of slices; None for a picture that is small enough."""
        ratio = math.log(size[1] / size[0])
        count = min(math.ceil(size[0] * size[1] / self.scale**2), self.most)
        if count <= 1:
            return None
        best, least = (1, 1), math.inf
        for slices in (count - 1, count, count + 1):
            if slices == 1 or slices > self.most:
                continue
            for rows in range(1, slices + 1):
                if slices % rows:
                    continue
                apart = abs(ratio - math.log(slices // rows / rows))
                if apart < least or (apart == least and rows > best[0]):
                    best, least = (rows, slices // rows), apart
        return best

    def _text(self, counts: list[int], grid: Size | None) -> str:
        m = self.marks
        number = f"{m['image_id_start_token']}{NUMBER}{m['image_id_end_token']}"
        place = m["image_token"]
        text = f"{m['image_start_token']}{place * counts[0]}{m['image_end_token']}"
        if grid is not None:
            slices = [f"{m['slice_start_token']}{place * n}{m['slice_end_token']}"
                      for n in counts[1:]]  # fmt: skip
            lines = (slices[i : i + grid[1]] for i in range(0, len(slices), grid[1]))
            text += "\n".join("".join(line) for line in lines)
        return number + text if self.numbered else text


def _marks(files: Mapping[str, bytes]) -> dict[str, str]:
    """The marks that tokenizer_config.json names, beside others or among the extra ones."""
    name = "tokenizer_config.json"
    said = parse_object(name, files[name]) if name in files else {}
    extra = said.get("extra_special_tokens")
    more = dict(extra) if isinstance(extra, Mapping) else {}
    marks = {key: said.get(key) or more.get(key) or usual for key, usual in _MARKS.items()}
    return {key: str(v.get("content")) if isinstance(v, Mapping) else str(v)
            for key, v in marks.items()}  # fmt: skip


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**vision_of(config), "model_type": Vision.model_type, "architectures": None}
    seen: Vision = read_config(Vision, values)
    choose("downsample_mode", c.downsample_mode, ("16x", "4x"))
    for name, kernel in (("merge_kernel_size", c.merge_kernel_size),
                         ("window_kernel_size", seen.window_kernel_size)):  # fmt: skip
        if not isinstance(kernel, list | tuple) or list(kernel) != [2, 2]:
            raise FormatError(f"config.json: {name} is {brief(kernel)}; supported: [2, 2]")
    vision_keys = {f.name: getattr(seen, f.name) for f in fields(Vision)}
    del vision_keys["window_kernel_size"]
    vision_keys |= {"model_type": "idefics3_vision"}
    tower = tower_of({"model_type": c.model_type, "vision_config": vision_keys}, "idefics3_vision")
    last = c.insert_layer_id
    if type(last) is not int or not -1 <= last < tower.layers or c.merger_times < 1:
        raise FormatError(
            f"config.json: insert_layer_id is {brief(last)} and merger_times {c.merger_times}; the "
            f"first must be one of {tower.layers} layers, or -1, the second 1 or more"
        )
    # The reference counts a window in the mode "16x" even where no layer has one.
    windows = c.downsample_mode == "16x" and last >= 0

    def rows_of(base: Any, tile: Tensor, grid: Size) -> Tensor:
        """The rows of a slice (channels, side, patches * side)."""
        channels, side = tile.shape[0], tower.patch[0]
        parts = tile.reshape(channels, side, *grid, side).permute(0, 2, 1, 3, 4)
        pixels = parts.reshape(1, channels, grid[0] * side, grid[1] * side)
        seen = base.vision_tower
        x = seen(pixels, depth=last + 1 if windows else None)[-1]
        if windows:
            x, grid = seen.vit_merger(x, grid), (grid[0] // 2, grid[1] // 2)
            for layer in list(seen.encoder.layers.children())[last + 1 :]:
                x = layer(x)
        x = seen.last(x).reshape(1, *grid, -1)
        for merged in base.merger.mlp:
            x = merged(x)
        rows: Tensor = x.flatten(0, 2)
        return rows

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        sizes = inputs["target_sizes"].tolist()
        rows, number = [], 0
        for picture, count in zip(inputs["pixels"], inputs["slices"].tolist(), strict=True):
            begin = 0
            for tall, wide in sizes[number : number + count]:
                end = begin + tall * wide * tower.patch[0]
                rows.append(rows_of(model.model, picture[:, :, begin:end], (tall, wide)))
                begin = end
            number += count
        return cat(rows)

    def processor(files: Mapping[str, bytes], _: Any) -> _Slices:
        said = stored_settings(files)
        mode = said.values.get("downsample_mode", "16x")
        if mode != c.downsample_mode or not said.flag("do_resize", True):
            raise FormatError(
                f"{said.name}: downsample_mode is {brief(mode)} and do_resize "
                f"{said.flag('do_resize', True)}; supported: config.json's, {c.downsample_mode}, "
                "and true"
            )
        slices = said.whole("max_slice_nums", 9) if said.flag("slice_mode", True) else 1
        return _Slices(
            steps_of(said, replace(HALVES, filter="bicubic")),
            said.whole("patch_size", 14), slices, said.whole("scale_resolution", 448),
            c.merger_times + (1 if c.downsample_mode == "16x" else 0),
            said.flag("use_image_id", True), _marks(files),
        )  # fmt: skip

    def sight(spec: DecoderSpec) -> Sight:
        width = tower.layer.width
        mlps = [_Merged(width, width) for _ in range(c.merger_times - 1)]
        parts: dict[str, Any] = {
            "model.vision_tower": Tower(tower),
            "model.vision_tower.vit_merger": _Windows(tower),
            "model.merger.mlp": nn.ModuleList([*mlps, _Merged(width, spec.width)]),
        }
        token = -1 if c.image_token_id is None else c.image_token_id
        return Sight(token, _PLACE, parts, look, processor)

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("minicpmv4_6",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
)
