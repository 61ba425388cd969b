"""Janus (Chen et al., 2025), DeepSeek-VL (Lu et al., 2024): pictures in squares, read by SigLIP.

DeepSeek-VL's larger one has SAM's encoder beside it, for the picture at a higher resolution. Of
Janus what reads pictures is loaded, not what draws them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.settings import Settings
from rushlight.models.image.tiles import Steps, square, steps_of, stored_settings, whole_settings
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TowerSpec, tower_of, vision_of
from rushlight.models.layers.vision.masks.encoder import Neck, SamKeys, SamVision
from rushlight.models.layers.vision.transformer import CLIP_NAMES

ARCHITECTURES = (
    "JanusForConditionalGeneration",
    "DeepseekVLForConditionalGeneration",
    "DeepseekVLHybridForConditionalGeneration",
)
_PLACE = "<image_placeholder>"
_SYSTEM = (
    "You are a helpful language and vision assistant. You are able to understand the visual "
    "content that the user provides, and assist the user with a variety of tasks using natural "
    "language.\n\n"
)


@dataclass
class Vision:
    """The keys of vision_config of Janus."""

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_channels: int = 3
    image_size: Any = 384
    patch_size: Any = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    mlp_ratio: float = 4.0
    attention_bias: bool = True
    projection_dim: int = 2048
    use_qk_norm: bool = False
    depth: int = 2
    model_type: str = "janus_vision_model"

    neutral = {
        "projection_dropout": (), "hidden_dropout_rate": (), "num_image_tokens": (), "beta": (),
    }  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the models depend on."""

    text_config: Any = None
    vision_config: Any = None
    high_res_vision_config: Any = None
    image_token_id: int | None = None
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "janus"

    # Of what draws, and what files read of other parts.
    neutral = {"vq_config": (), "beta": (), "hidden_size": (), "output_channels": ()}


class _Products(nn.Module):
    """The rows of states: `depth` products with an activation between each two."""

    def __init__(self, seen: Vision) -> None:
        self.act, width = ACTIVATIONS[seen.hidden_act], seen.projection_dim
        self.fc1 = nn.Linear(seen.hidden_size, width)
        self.hidden_layers = nn.ModuleList(nn.Linear(width, width) for _ in range(seen.depth - 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        for layer in self.hidden_layers:
            x = layer(self.act(x))
        return x


class _Aligner(nn.Module):
    """The rows of states, and of those at a higher resolution (n, places, wide), if there are."""

    def __init__(self, width: int, wide: int, out: int) -> None:
        self.wide = wide
        if wide:
            self.vision_proj = nn.Linear(width, out // 2)
            self.high_res_vision_proj = nn.Linear(wide, out // 2)
            self.proj = nn.Linear(out, out)
        else:
            self.linear1, self.linear2 = nn.Linear(width, out), nn.Linear(out, out)

    def forward(self, x: Tensor, high: Tensor | None = None) -> Tensor:
        gelu = ACTIVATIONS["gelu"]
        if high is not None:
            halves = cat([self.high_res_vision_proj(high), self.vision_proj(x)], -1)
            out: Tensor = self.proj(gelu(halves))
            return out
        out = self.linear2(gelu(self.linear1(x)))
        return out


class _Shrunk(nn.Module):
    """A map (n, channels, rows, columns) -> (n, 4 * channels, side, side)."""

    def __init__(self, channels: int, side: int) -> None:
        self.side = 4 * side
        self.conv1 = nn.Conv2d(channels, channels * 2, 3, 2, 1, bias=False)
        self.conv2 = nn.Conv2d(channels * 2, channels * 4, 3, 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = interpolate(x, size=(self.side, self.side), mode="bilinear")
        out: Tensor = self.conv2(self.conv1(x))
        return out


@dataclass(frozen=True)
class _Squares:
    """Pixels (1, 3, side, side) of a picture whose longer side is that of the square.

    least: pixels of the shorter one. pads: whether the rest has the mean colour. high: the square
    that comes first, whose pixels are an input of their own. prefix: of prompts.
    """

    steps: Steps
    side: int
    least: int
    pads: bool
    text: str
    high: tuple[Steps, int] | None = None
    prefix: str = ""

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        inputs: dict[str, npt.NDArray[Any]] = {}
        size = (pixels.shape[0], pixels.shape[1])
        if self.high is not None:
            pixels = self._square(*self.high, pixels)
            inputs["high_res_pixel_values"] = self.high[0]([pixels])
        inputs = {"pixels": self.steps([self._square(self.steps, self.side, pixels)]), **inputs}
        return Picture(inputs, self.text, size)

    def _square(self, steps: Steps, side: int, pixels: Pixels) -> Pixels:
        height, width = pixels.shape[:2]
        share = side / max(height, width)
        tall, wide = (max(round(length * share), self.least) for length in (height, width))
        pixels = steps.resized(pixels, (tall, wide))
        if not self.pads or tall == wide:
            return pixels
        long = max(tall, wide)
        colour = [127] * 3 if steps.mean is None else [int(x * 255) for x in steps.mean]
        canvas = np.full((long, long, 3), colour, np.uint8)
        top, left = (long - tall) // 2, (long - wide) // 2
        canvas[top : top + tall, left : left + wide] = pixels
        return canvas


def _high_steps(said: Settings, steps: Steps) -> Steps:
    """The steps of the higher resolution, whose keys have a prefix."""
    begin = "high_res_"
    named = {k.removeprefix(begin): v for k, v in said.values.items() if k.startswith(begin)}
    high_settings = Settings(named, said.name)
    mean = None if steps.mean is None else high_settings.three("image_mean", Steps().mean or ())
    std = None if steps.std is None else high_settings.three("image_std", Steps().std or ())
    return replace(steps, filter=high_settings.filter("bicubic"), mean=mean, std=std)


def _janus(config: Mapping[str, Any]) -> tuple[Vision, TowerSpec]:
    """Janus' vision_config, and the tower that it describes."""
    values = {**vision_of(config), "model_type": Vision.model_type, "architectures": None}
    seen: Vision = read_config(Vision, values)
    choose("vision_config: use_qk_norm", seen.use_qk_norm, (False,))
    siglip_keys = {name: getattr(seen, name) for name in
            ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_channels",
             "image_size", "patch_size", "hidden_act", "layer_norm_eps")}  # fmt: skip
    siglip_keys |= {
        "intermediate_size": int(seen.hidden_size * seen.mlp_ratio),
        "vision_use_head": False,
    }
    tower = tower_of({"model_type": "janus", "vision_config": siglip_keys}, "siglip_vision_model")
    layer = replace(
        tower.layer, names=replace(CLIP_NAMES, out="self_attn.projection_layer"),
        biases=(seen.attention_bias,) * 3,
    )  # fmt: skip
    return seen, replace(tower, layer=layer)


def _high(config: Mapping[str, Any]) -> SamKeys:
    """SAM's encoder as high_res_vision_config says it; FormatError for values that do not fit."""
    high_config = config.get("high_res_vision_config") or {}
    if not isinstance(high_config, Mapping):
        raise FormatError(f"config.json: high_res_vision_config is {brief(high_config)}, no object")
    values = {**high_config, "model_type": SamKeys.model_type, "architectures": None}
    high: SamKeys = read_config(SamKeys, values)
    choose("high_res_vision_config: hidden_act", high.hidden_act, tuple(ACTIVATIONS))
    layers = high.global_attn_indexes
    good = isinstance(layers, list | tuple) and layers and all(type(i) is int for i in layers)
    if not good or not 0 <= layers[0] < high.num_hidden_layers:
        raise FormatError(
            f"config.json: high_res_vision_config: global_attn_indexes is {brief(layers)}; its "
            f"first must be one of {high.num_hidden_layers} layers"
        )
    return high


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    draws = c.model_type == "janus"
    seen: Vision | None = None
    if draws:
        seen, tower = _janus(config)
    else:
        tower = tower_of(config, "siglip_vision_model")
    high = _high(config) if c.model_type == "deepseek_vl_hybrid" else None
    count = tower.grid[0] * tower.grid[1]
    wide = 4 * high.output_channels if high else 0
    token = c.image_token_id if c.image_token_id is not None else 100581 if draws else 100015

    def detailed(base: Any, pixels: Tensor) -> Tensor:
        """The places (n, places, wide) at the higher resolution."""
        assert high is not None
        first = high.global_attn_indexes[0]
        last, inner = base.high_res_vision_model.both(pixels, first)
        shrink = base.high_res_vision_proj
        x = shrink(last) + shrink(base.high_res_vision_neck(inner)) * base.high_res_vision_alpha
        places: Tensor = x.flatten(2).transpose(1, 2)
        return places

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        states = base.vision_model.last(base.vision_model(inputs["pixels"])[-1])
        if high is None:
            return base.aligner(states).flatten(0, 1)  # type: ignore[no-any-return]
        more = detailed(base, inputs["high_res_pixel_values"])
        return base.aligner(states, more).flatten(0, 1)  # type: ignore[no-any-return]

    def processor(files: Mapping[str, bytes], _: Any) -> _Squares:
        said, all_settings = stored_settings(files), whole_settings(files).values
        steps = steps_of(said, Steps())
        least, pads = said.whole("min_size", 14), said.flag("do_pad", True)
        more = None
        if high is not None:
            more = _high_steps(said, steps), square(said, "high_res_size", high.image_size)
        place = str(all_settings.get("image_token") or _PLACE)
        text = f"<begin_of_image>{place * count}<end_of_image>" if draws else place * count
        begins = draws and whole_settings(files).flag("use_default_system_prompt", False)
        side = square(said, "size", tower.image[0])
        return _Squares(steps, side, least, pads, text, more, _SYSTEM if begins else "")

    def sight(spec: DecoderSpec) -> Sight:
        if seen is not None and seen.projection_dim != spec.width:
            raise FormatError(
                f"config.json: vision_config makes rows of {seen.projection_dim} features, but "
                f"text_config has hidden_size {spec.width}"
            )
        width = tower.layer.width
        parts: dict[str, Any] = {
            "model.vision_model": Tower(tower),
            "model.aligner": _Products(seen) if seen else _Aligner(width, wide, spec.width),
        }
        if high is not None:
            parts |= {
                "model.high_res_vision_model": _HighTower(high),
                "model.high_res_vision_neck": Neck(high.hidden_size, high.output_channels),
                "model.high_res_vision_proj": _Shrunk(high.output_channels, tower.grid[0]),
                "model.high_res_vision_alpha": (1,),
            }
        return Sight(token, _PLACE, parts, look, processor)

    return seeing_decoder(config, names, c, sight)


class _HighTower(nn.Module):
    """SAM's encoder, under the name that its model of pictures alone has."""

    def __init__(self, high: SamKeys) -> None:
        put(self, "vision_encoder", SamVision(high))

    def both(self, pixels: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """The map after the neck, and the state (n, rows, columns, width) after layer `first`."""
        encoder: Any = self.get_submodule("vision_encoder")
        states: dict[int, Tensor] = {first: pixels}
        return encoder(pixels, states), states[first]


_DRAWS = ("model.vqmodel.", "model.generation_embeddings.", "model.generation_aligner.",
          "model.generation_head.")  # fmt: skip

FAMILY = Family(
    model_types=("janus", "deepseek_vl", "deepseek_vl_hybrid"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    unused=lambda name, config: name.startswith(_DRAWS),
)
