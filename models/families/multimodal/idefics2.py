"""Idefics2 (Laurençon et al., 2024): SigLIP for any size, and a resampler to a number of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import HALVES, Steps, steps_of, stored_settings, whole_settings
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, each_size, tower_of
from rushlight.models.layers.vision.transformer import put_parameter

ARCHITECTURES = ("Idefics2ForConditionalGeneration",)
_PLACE, _FRAME = "<image>", "<fake_token_around_image>"


@dataclass
class Resampler:
    """The keys of perceiver_config."""

    hidden_act: str = "silu"
    hidden_size: int = 4096
    rms_norm_eps: float = 1e-6
    resampler_n_latents: int = 64
    resampler_depth: int = 3
    resampler_n_heads: int = 16
    resampler_head_dim: int = 96
    num_key_value_heads: int = 4
    model_type: str = "idefics2_perceiver"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    perceiver_config: Any = None
    image_token_id: int = 32001
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "idefics2"


class _Mlp(nn.Module):
    """down_proj(act(gate_proj(x)) * up_proj(x)), without biases."""

    def __init__(self, inside: int, inner: int, out: int, act: str) -> None:
        self.act = ACTIVATIONS[act]
        self.gate_proj = nn.Linear(inside, inner, bias=False)
        self.up_proj = nn.Linear(inside, inner, bias=False)
        self.down_proj = nn.Linear(inner, out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))
        return out


class _Layer(nn.Module):
    """Latents (n, latents, width) that see what is seen, and themselves."""

    def __init__(self, c: Resampler) -> None:
        width, head = c.hidden_size, c.resampler_head_dim
        self.heads, self.groups = c.resampler_n_heads, c.num_key_value_heads
        for name in ("input_latents_norm", "input_context_norm", "post_attention_layernorm"):
            put(self, name, nn.RMSNorm(width, c.rms_norm_eps))
        for name, heads in (("q", self.heads), ("k", self.groups), ("v", self.groups)):
            put(self, f"self_attn.{name}_proj", nn.Linear(width, heads * head, bias=False))
        put(self, "self_attn.o_proj", nn.Linear(self.heads * head, width, bias=False))
        self.mlp = _Mlp(width, 4 * width, width, c.hidden_act)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        layer: Any = self
        attention = layer.self_attn
        latents = layer.input_latents_norm(x)
        both = cat([layer.input_context_norm(context), latents], 1)

        def heads(t: Tensor, count: int) -> Tensor:
            return t.reshape(len(t), t.shape[1], count, -1).transpose(1, 2)

        seen = scaled_dot_product_attention(
            heads(attention.q_proj(latents), self.heads),
            heads(attention.k_proj(both), self.groups),
            heads(attention.v_proj(both), self.groups),
            enable_gqa=True,
        )
        x = x + attention.o_proj(seen.transpose(1, 2).flatten(2))
        x = x + self.mlp(layer.post_attention_layernorm(x))
        return x


class _Resampler(nn.Module):
    """States (1, places, width) -> (1, latents, width)."""

    def __init__(self, c: Resampler) -> None:
        put_parameter(self, "latents", c.resampler_n_latents, c.hidden_size)
        self.layers = nn.ModuleList(_Layer(c) for _ in range(c.resampler_depth))
        self.norm = nn.RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, context: Tensor) -> Tensor:
        resampler: Any = self
        x = resampler.latents.unsqueeze(0)
        for layer in self.layers:
            x = layer(x, context)
        out: Tensor = self.norm(x)
        return out


@dataclass(frozen=True)
class _Bounded:
    """Pixels (n, 3, height, width) of a picture, or of its quarters and of the whole.

    least, most: pixels of a side; None: it is not resized. sides: the size instead, if it is given.
    patch: the least side that the tower reads.
    """

    steps: Steps
    least: int
    most: int | None
    sides: tuple[int, int] | None
    splits: bool
    count: int
    patch: int

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8; ValueError for too small ones."""
        height, width = pixels.shape[:2]
        parts = [pixels]
        if self.splits:
            rows, columns = (slice(0, height // 2), slice(height // 2, None)), width // 2
            parts = [
                pixels[down, across]
                for down in rows
                for across in (slice(0, columns), slice(columns, None))
            ] + [pixels]
        if min(height, width) < 2 and self.splits:
            raise ValueError(f"image: {height} x {width} pixels cannot be cut into quarters")
        tiles = [self.steps.resized(part, self._size(*part.shape[:2])) for part in parts]
        sizes = [tile.shape[:2] for tile in tiles]
        if min(min(size) for size in sizes) < self.patch:
            raise ValueError(
                f"image: {height} x {width} pixels: a side is shorter than a patch of {self.patch}"
            )
        tall, wide = max(size[0] for size in sizes), max(size[1] for size in sizes)
        made = np.zeros((len(tiles), 3, tall, wide), np.float32)
        for tile, (down, across), home in zip(tiles, sizes, made, strict=True):
            home[:, :down, :across] = self.steps([tile])[0]
        text = f"{_FRAME}{_PLACE * self.count}{_FRAME}" * len(tiles)
        inputs: dict[str, npt.NDArray[Any]]
        inputs = {"pixels": made, "image_sizes": np.array(sizes, np.int64)}
        return Picture(inputs, text, (height, width))

    def _size(self, height: int, width: int) -> tuple[int, int]:
        if self.sides is not None:
            return self.sides
        if self.most is None:
            return height, width
        ratio, most = width / height, self.most
        if width >= height and width > most:
            height, width = int(most / ratio), most
        elif height > width and height > most:
            height, width = most, int(most * ratio)
        return max(height, self.least), max(width, self.least)


def _joined(text: str) -> str:
    """A prompt whose pictures side by side share a frame; a space parts a word from a frame."""
    head, *pieces = text.replace(_FRAME * 2, _FRAME).split(_FRAME)
    for piece in pieces:
        apart = bool(piece) and not piece[0].isspace() and piece[0] != "<"
        head += f"{_FRAME} {piece}" if apart else _FRAME + piece
    return head


def _resampler(config: Mapping[str, Any]) -> Resampler:
    """perceiver_config; FormatError for values that do not fit."""
    values = config.get("perceiver_config") or {}
    if not isinstance(values, Mapping):
        raise FormatError(f"config.json: perceiver_config is {brief(values)}, no object")
    values = {**values, "model_type": Resampler.model_type, "architectures": None}
    c: Resampler = read_config(Resampler, values)
    choose("perceiver_config: hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    sizes = c.resampler_n_latents, c.resampler_n_heads, c.resampler_head_dim, c.num_key_value_heads
    if not all(1 <= n <= 1 << 16 for n in sizes) or c.resampler_n_heads % c.num_key_value_heads:
        raise FormatError(
            f"config.json: perceiver_config: {sizes} latents, heads, head_dim and "
            "num_key_value_heads do not fit"
        )
    if not 1 <= c.resampler_depth <= 1024:
        raise FormatError(
            f"config.json: perceiver_config: resampler_depth is {c.resampler_depth}; it must be "
            "from 1 to 1024"
        )
    return c


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    tower, resampler = tower_of(config, "idefics2_vision"), _resampler(config)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, pixels = model.model, inputs["pixels"]
        pixels = pixels.reshape(-1, *pixels.shape[-3:])
        rows = []
        for picture in each_size(pixels, inputs["image_sizes"]):
            states = base.vision_model.last(base.vision_model(picture)[-1])
            states = base.connector.modality_projection(states)
            rows.append(base.connector.perceiver_resampler(states)[0])
        return cat(rows)

    def processor(files: Mapping[str, bytes], _: Any) -> _Bounded:
        said = stored_settings(files)
        size = said.values.get("size") or {}
        if not isinstance(size, Mapping):
            raise said.bad("size", size)
        bounds = []
        for key, usual in (("shortest_edge", 378), ("longest_edge", 980)):
            value = size.get(key, usual)
            if type(value) is not int or not 1 <= value <= 1 << 14:
                raise said.bad("size", size)
            bounds.append(value)
        resizes = said.flag("do_resize", True)
        sides = said.pair("size", size) if resizes and "height" in size else None
        count = whole_settings(files).whole("image_seq_len", resampler.resampler_n_latents)
        return _Bounded(
            steps_of(said, replace(HALVES, filter="bilinear")), bounds[0],
            bounds[1] if resizes else None, sides, said.flag("do_image_splitting", False), count,
            max(tower.patch),
        )  # fmt: skip

    def sight(spec: DecoderSpec) -> Sight:
        if resampler.hidden_size != spec.width:
            raise FormatError(
                f"config.json: perceiver_config makes rows of {resampler.hidden_size} features, "
                f"but text_config has hidden_size {spec.width}"
            )
        inner = spec.layers[0].mlp
        if not isinstance(inner, MLPSpec):
            raise FormatError("config.json: text_config: idefics2 needs layers with an MLP")
        parts = {
            "model.vision_model": Tower(tower),
            "model.connector.modality_projection": _Mlp(
                tower.layer.width, inner.inner, spec.width, inner.activation
            ),
            "model.connector.perceiver_resampler": _Resampler(resampler),
        }
        return Sight(c.image_token_id, _PLACE, parts, look, processor, joined=_joined)

    return seeing_decoder(config, names, c, sight, base="model.text_model")


FAMILY = Family(
    model_types=("idefics2",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
)
