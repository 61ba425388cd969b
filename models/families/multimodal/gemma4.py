"""Gemma 4 (Gemma Team, 2026) with pictures: patches by two axes, averaged in squares."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.tiles import Steps, steps_of, stored_settings
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import renaming, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qwen import axial_theta
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import vision_of
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.small_files import small_json

ARCHITECTURES = ("Gemma4ForConditionalGeneration",)
PLACE = "<|image|>"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_id: int = 258880
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "gemma4"

    neutral = dict.fromkeys(
        ("audio_config", "boi_token_id", "eoi_token_id", "video_token_id", "boa_token_id",
         "eoa_token_index", "audio_token_id"), (),
    )  # fmt: skip


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 16
    num_attention_heads: int = 12
    num_key_value_heads: int = 12
    head_dim: int = 64
    hidden_activation: str = "gelu_pytorch_tanh"
    rms_norm_eps: float = 1e-6
    rope_parameters: Any = None
    pooling_kernel_size: int = 3
    patch_size: int = 16
    position_embedding_size: int = 10240
    use_clipped_linears: bool = False
    standardize: bool = False
    model_type: str = "gemma4_vision"

    neutral = {
        "attention_bias": (), "max_position_embeddings": (), "layer_types": (None,),
        "rope_theta": (None,), "rope_scaling": (None,),
    }  # fmt: skip


class _Linear(nn.Module):
    """A product whose inputs and results are kept within stored bounds, if `clipped`."""

    def __init__(self, given: int, out: int, clipped: bool) -> None:
        self.clipped = clipped
        self.linear = nn.Linear(given, out, bias=False)
        for name in ("input_min", "input_max", "output_min", "output_max") if clipped else ():
            put_parameter(self, name)

    def forward(self, x: Tensor) -> Tensor:
        if not self.clipped:
            return self.linear(x)  # type: ignore[no-any-return]
        of: Any = self
        y: Tensor = self.linear(x.clamp(of.input_min, of.input_max))
        return y.clamp(of.output_min, of.output_max)


class _Layer(nn.Module):
    def __init__(self, v: Vision) -> None:
        self.v = v
        width, queries = v.hidden_size, v.num_attention_heads * v.head_dim
        keys = v.num_key_value_heads * v.head_dim
        for path, given, out in (
            ("self_attn.q_proj", width, queries), ("self_attn.k_proj", width, keys),
            ("self_attn.v_proj", width, keys), ("self_attn.o_proj", queries, width),
            ("mlp.gate_proj", width, v.intermediate_size),
            ("mlp.up_proj", width, v.intermediate_size),
            ("mlp.down_proj", v.intermediate_size, width),
        ):  # fmt: skip
            put(self, path, _Linear(given, out, v.use_clipped_linears))
        for path in ("self_attn.q_norm", "self_attn.k_norm"):
            put(self, path, nn.RMSNorm(v.head_dim, v.rms_norm_eps))
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm"):  # fmt: skip
            put(self, name, nn.RMSNorm(width, v.rms_norm_eps))

    def forward(self, x: Tensor, axes: list[tuple[Tensor, Tensor]]) -> Tensor:
        """axes: cosines and sines (1, 1, patches, head/4) by column, then by row."""
        of: Any = self
        v, attention, y = self.v, of.self_attn, of.input_layernorm(x)
        q, k, value = (
            part(y).reshape(1, x.shape[1], -1, v.head_dim)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        value = ops.rms_norm(value, (v.head_dim,), None, v.rms_norm_eps).transpose(1, 2)
        q, k = attention.q_norm(q).transpose(1, 2), attention.k_norm(k).transpose(1, 2)
        q, k = (
            cat([ops.rope(half, *axis, interleaved=False) for half, axis in zip(
                heads.chunk(2, -1), axes, strict=True)], 3)
            for heads in (q, k)
        )  # fmt: skip
        groups = v.num_attention_heads // v.num_key_value_heads
        if groups > 1:
            k, value = (t.repeat_interleave(groups, 1) for t in (k, value))
        seen = scaled_dot_product_attention(q, k, value, scale=1.0).transpose(1, 2)
        y = attention.o_proj(seen.reshape(1, x.shape[1], -1))
        x = x + of.post_attention_layernorm(y)
        y, mlp = of.pre_feedforward_layernorm(x), of.mlp
        y = mlp.down_proj(ACTIVATIONS[v.hidden_activation](mlp.gate_proj(y)) * mlp.up_proj(y))
        out: Tensor = x + of.post_feedforward_layernorm(y)
        return out


class _Tower(nn.Module):
    """Patches (1, rows * columns, features) of a picture -> (rows * columns / side**2, width)."""

    def __init__(self, v: Vision) -> None:
        self.v, self.theta = v, axial_theta(v.rope_parameters or {"rope_theta": 100.0})
        put(self, "patch_embedder.input_proj",
            nn.Linear(3 * v.patch_size**2, v.hidden_size, bias=False))  # fmt: skip
        put_parameter(
            self, "patch_embedder.position_embedding_table", 2, v.position_embedding_size,
            v.hidden_size,
        )  # fmt: skip
        put(self, "encoder.layers", nn.ModuleList(_Layer(v) for _ in range(v.num_hidden_layers)))
        for name in ("std_bias", "std_scale") if v.standardize else ():
            put_parameter(self, name, v.hidden_size)

    def forward(self, pixels: Tensor, rows: int, columns: int) -> Tensor:
        of: Any = self
        v, patch = self.v, of.patch_embedder
        x = patch.input_proj(((pixels - 0.5) * 2).to(patch.input_proj.weight.dtype))
        table = patch.position_embedding_table
        across, down = table[0, :columns].unsqueeze(0), table[1, :rows].unsqueeze(1)
        x = x + (across + down).reshape(1, rows * columns, -1)
        places = np.indices((rows, columns)).reshape(2, -1)
        quarter = v.head_dim // 4
        frequencies = self.theta ** (-np.arange(quarter) / quarter)
        axes = []
        for place in (places[1], places[0]):
            angles = (place[:, None] * frequencies)[None, None]
            cos, sin = (from_numpy(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
            axes.append((cos.to(x.device), sin.to(x.device)))
        for layer in self.get_submodule("encoder.layers").children():
            x = layer(x, axes)
        k = v.pooling_kernel_size
        x = x.float().reshape(rows // k, k, columns // k, k, -1).mean((1, 3))
        x = x.reshape(-1, v.hidden_size) * v.hidden_size**0.5
        if v.standardize:
            x = (x - of.std_bias.float()) * of.std_scale.float()
        out: Tensor = x.to(patch.input_proj.weight.dtype)
        return out


@dataclass(frozen=True)
class _Processor:
    """Patches (1, most, features) filled up with zeros, and their columns and rows, else -1."""

    steps: Steps
    patch: int
    side: int
    most: int
    marks: tuple[str, str]
    resizes: bool = True

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        height, width = pixels.shape[:2]
        if self.resizes:
            pixels = self.steps.resized(pixels, self._size(height, width))
        tall, wide = (n // self.patch for n in pixels.shape[:2])
        values = self.steps.numbers(pixels).reshape(tall, self.patch, wide, self.patch, 3)
        most = self.most * self.side**2
        patches = np.zeros((1, most, 3 * self.patch**2), np.float32)
        places = np.full((1, most, 2), -1, np.int64)
        patches[0, : tall * wide] = values.transpose(0, 2, 1, 3, 4).reshape(tall * wide, -1)
        places[0, : tall * wide] = np.indices((tall, wide))[::-1].reshape(2, -1).T
        text = PLACE * (tall * wide // self.side**2)
        inputs: dict[str, npt.NDArray[Any]]
        inputs = {"pixels": patches, "image_position_ids": places}
        return Picture(inputs, f"{self.marks[0]}{text}{self.marks[1]}", (height, width))

    def _size(self, height: int, width: int) -> tuple[int, int]:
        step = self.side * self.patch
        share = math.sqrt(self.most * step**2 / (height * width))
        tall, wide = (math.floor(share * n / step) * step for n in (height, width))
        if not tall and not wide:
            raise ValueError(f"image: {height} x {width} pixels make no patch of {step}")
        if not tall:
            tall, wide = step, min(width // height, self.most) * step
        elif not wide:
            tall, wide = min(height // width, self.most) * step, step
        return tall, wide


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    values = {**vision_of(config), "model_type": "gemma4_vision", "architectures": None}
    v = read_config(Vision, values)
    choose("vision_config: hidden_activation", v.hidden_activation, tuple(ACTIVATIONS))
    if v.head_dim % 4 or v.num_attention_heads % max(v.num_key_value_heads, 1):
        raise FormatError(
            f"config.json: vision_config: heads of {v.head_dim} features, {v.num_attention_heads} "
            f"and {v.num_key_value_heads} of them, do not fit"
        )
    text = config.get("text_config") or {}
    seeing = bool(config.get("vision_config"))
    wide = text.get("use_bidirectional_attention") == "vision"

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, found = model.model, []
        places = inputs["image_position_ids"].numpy()
        for i, place in enumerate(places):
            columns, rows = (place.max(0) + 1).tolist()
            pixels = inputs["pixels"][i : i + 1, : rows * columns]
            x = base.vision_tower(pixels, rows, columns)
            x = ops.rms_norm(x, (v.hidden_size,), None, v.rms_norm_eps)
            found.append(base.embed_vision.embedding_projection(x))
        return cat(found)

    def processor(files: Mapping[str, bytes], _: Any) -> _Processor:
        said, told = stored_settings(files), small_json(files, "tokenizer_config.json")
        marks = (str(told.get("boi_token", "<|image>")), str(told.get("eoi_token", "<image|>")))
        return _Processor(
            steps_of(said, Steps(mean=None, std=None)), said.whole("patch_size", v.patch_size),
            said.whole("pooling_kernel_size", v.pooling_kernel_size),
            said.whole("max_soft_tokens", 280), marks, said.flag("do_resize", True),
        )  # fmt: skip

    def sight(spec: DecoderSpec) -> Sight:
        projection = nn.Linear(v.hidden_size, spec.width, bias=False)
        parts = {
            "model.vision_tower": _Tower(v),
            "model.embed_vision.embedding_projection": projection,
        }
        blank = text.get("pad_token_id")
        return Sight(
            c.image_token_id, PLACE, parts if seeing else {}, look, processor,
            together="window" if wide else "",
            blank=0 if blank is None else blank,
        )  # fmt: skip

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("gemma4",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=renaming(("language_model.", "model.language_model.")),
    unused=lambda name, config: ".audio_tower." in name or ".embed_audio." in name,
)
