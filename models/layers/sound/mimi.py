"""Mimi's model: SEANet with a transformer on both sides of the codes, the first of them apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import Rotary, RotarySpec
from rushlight.models.layers.sound.codec import CodecModel, Coding, Flow, Flowing
from rushlight.models.layers.sound.seanet import (
    SeaConv,
    SeaDecoder,
    SeaEncoder,
    SeaSpec,
    SeaTransposed,
    residual_codes,
)

_FEWEST = 1e-5  # uses of a code


class _Scale(nn.Module):
    """A factor for each channel (Touvron et al., 2021)."""

    def __init__(self, width: int) -> None:
        self.scale = parameter(width)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class _Attention(nn.Module):
    """Attention to the `window` last frames, the own one included, with rotary positions."""

    def __init__(self, c: Any, rotary: RotarySpec) -> None:
        self.heads, self.shared, self.size = (
            c.num_attention_heads,
            c.num_key_value_heads,
            c.head_dim,
        )
        self.window, self.rotary = c.sliding_window, Rotary([rotary])
        bias, inner = c.attention_bias, c.num_attention_heads * c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, inner, bias)
        self.k_proj = nn.Linear(c.hidden_size, self.shared * self.size, bias)
        self.v_proj = nn.Linear(c.hidden_size, self.shared * self.size, bias)
        self.o_proj = nn.Linear(inner, c.hidden_size, bias)

    def forward(self, x: Tensor, flow: Flow | None) -> Tensor:
        batch, n, _ = x.shape
        q, k, v = (
            layer(x).reshape(batch, n, -1, self.size).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        held = None if flow is None else flow.held.get(id(self))
        start = 0 if held is None else held[2]
        places = ops.arange(start, start + n, device=x.device)
        [(cos, sin)] = self.rotary.angles(places.unsqueeze(0)).values()
        q, k = (ops.rope(y, cos, sin, interleaved=False) for y in (q, k))
        if held is not None:
            k, v = cat([held[0], k], 2), cat([held[1], v], 2)
        total = k.shape[2]
        if flow is not None:
            keep = min(total, self.window - 1)
            flow.held[id(self)] = k[:, :, total - keep :], v[:, :, total - keep :], start + n
        before = total - n
        distance = ops.arange(before, total, device=x.device).unsqueeze(1) - ops.arange(
            total, device=x.device
        )
        seen = (distance >= 0) & (distance < self.window)
        if self.shared != self.heads:
            k, v = (y.repeat_interleave(self.heads // self.shared, 1) for y in (k, v))
        y = scaled_dot_product_attention(q, k, v, attn_mask=seen)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(batch, n, -1))
        return out


class _Layer(nn.Module):
    """Attention and an MLP, each after a norm, scaled, and added to what it read."""

    def __init__(self, c: Any, rotary: RotarySpec) -> None:
        self.self_attn, self.act = _Attention(c, rotary), ACTIVATIONS[c.hidden_act]
        self.mlp = nn.Module()
        self.mlp.fc1 = nn.Linear(c.hidden_size, c.intermediate_size, False)
        self.mlp.fc2 = nn.Linear(c.intermediate_size, c.hidden_size, False)
        self.input_layernorm = nn.LayerNorm(c.hidden_size, c.norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(c.hidden_size, c.norm_eps)
        self.self_attn_layer_scale = _Scale(c.hidden_size)
        self.mlp_layer_scale = _Scale(c.hidden_size)

    def forward(self, x: Tensor, flow: Flow | None) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), flow))
        mlp: Any = self.mlp
        y = mlp.fc2(self.act(mlp.fc1(self.post_attention_layernorm(x))))
        out: Tensor = x + self.mlp_layer_scale(y)
        return out


class FrameTransformer(nn.Module):
    """Layers over frames (batch, width, n)."""

    def __init__(self, c: Any, rotary: RotarySpec) -> None:
        self.layers = nn.ModuleList([_Layer(c, rotary) for _ in range(c.num_hidden_layers)])

    def forward(self, x: Tensor, flow: Flow | None) -> Tensor:
        x = x.transpose(1, 2)
        for layer in self.layers:
            x = layer(x, flow)
        return x.transpose(1, 2)


class _Book(nn.Module):
    """A table of codes as sums of what had them, and how much had."""

    def __init__(self, size: int, width: int) -> None:
        self.codebook = nn.Module()
        self.codebook.embed_sum, self.codebook.cluster_usage = (
            parameter(size, width),
            parameter(size),
        )

    @property
    def table(self) -> Tensor:
        """The rows of the table."""
        book: Any = self.codebook
        rows: Tensor = book.embed_sum / book.cluster_usage.clamp(min=_FEWEST).unsqueeze(1)
        return rows


class _Quantizer(nn.Module):
    """Residual codes of projected frames."""

    def __init__(self, width: int, narrow: int, count: int, size: int) -> None:
        if narrow != width:
            self.input_proj = nn.Conv1d(width, narrow, 1, bias=False)
            self.output_proj = nn.Conv1d(narrow, width, 1, bias=False)
        self.projects = narrow != width
        self.layers = nn.ModuleList([_Book(size, narrow) for _ in range(count)])

    def codes(self, x: Tensor, count: int) -> list[Tensor]:
        """The first `count` codes (batch, n) of x (batch, width, n)."""
        x = self.input_proj(x) if self.projects else x
        return residual_codes(x.transpose(1, 2), [book.table for book in list(self.layers)[:count]])

    def frames(self, codes: list[Tensor]) -> Tensor:
        """(batch, width, n) of codes (batch, n) each."""
        books = list(self.layers)
        x = books[0].table[codes[0]]
        for book, code in zip(books[1:], codes[1:], strict=False):
            x = x + book.table[code]
        x = x.transpose(1, 2)
        return self.output_proj(x) if self.projects else x


class MimiModel(CodecModel):
    """Sound (batch, channels, n) -> codes (batch, codebooks, frames), and back.

    The first `semantic` codebooks say what is spoken and have a quantizer of their own.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: SeaSpec, rotary: RotarySpec, step: int) -> None:
        """step: how many of SEANet's frames are one frame of codes; 1 for none."""
        c = self.config = config
        self.rate, self.channels, self.semantic = c.sampling_rate, c.audio_channels, 1
        self.hop, self.bits = math.prod(spec.ratios) * step, math.log2(c.codebook_size)
        self.codebooks, self.semantic, self.step = c.num_quantizers, c.num_semantic_quantizers, step
        self.in_parts = spec.streams
        width, narrow = c.hidden_size, c.vector_quantization_hidden_dimension
        self.encoder, self.decoder = SeaEncoder(spec), SeaDecoder(spec)
        self.encoder_transformer = FrameTransformer(c, rotary)
        self.decoder_transformer = FrameTransformer(c, rotary)
        if step > 1:
            kernel, groups = 2 * step, c.upsample_groups
            self.downsample = SeaConv(
                spec, width, width, kernel, step, bias=False, padding="replicate"
            )
            self.upsample = SeaTransposed(spec, width, width, kernel, step, groups, False)
        self.quantizer = nn.Module()
        for name, count in (
            ("semantic", self.semantic),
            ("acoustic", self.codebooks - self.semantic),
        ):
            books = _Quantizer(width, narrow, count, c.codebook_size)
            setattr(self.quantizer, f"{name}_residual_vector_quantizer", books)

    def checked_count(self, codebooks: int | None) -> int:
        count = super().checked_count(codebooks)
        if count < self.semantic:
            raise ValueError(
                f"mimi: codebooks is {codebooks}; the first {self.semantic} cannot be parted"
            )
        return count

    def encoding(self, codebooks: int | None = None) -> Coding:
        count = self.checked_count(codebooks)
        empty = tensor(np.zeros((1, count, 0), np.int64), device=self.device)
        return Flowing(lambda x, flow: self._codes(x, count, flow), self.hop, empty)

    def decoding(self) -> Coding:
        first: Any = next(iter(self.parameters()))
        empty = first.new_zeros(1, self.channels, 0)
        return Flowing(self._sound, 1, empty)

    def _codes(self, x: Tensor, count: int, flow: Flow) -> Tensor:
        known = self._known(flow)
        x = self.encoder_transformer(self.encoder(x, known), known)
        x = self.downsample(x, known) if self.step > 1 else x
        parts: Any = self.quantizer
        codes: list[Tensor] = parts.semantic_residual_vector_quantizer.codes(x, self.semantic)
        if count > self.semantic:
            codes += parts.acoustic_residual_vector_quantizer.codes(x, count - self.semantic)
        return stack(codes, 1)

    def _sound(self, codes: Tensor, flow: Flow) -> Tensor:
        known = self._known(flow)
        self.checked_codes(codes)
        rows = list(codes.unbind(1))
        parts: Any = self.quantizer
        x = parts.semantic_residual_vector_quantizer.frames(rows[: self.semantic])
        if len(rows) > self.semantic:
            x = x + parts.acoustic_residual_vector_quantizer.frames(rows[self.semantic :])
        x = self.upsample(x, known) if self.step > 1 else x
        sound: Tensor = self.decoder(self.decoder_transformer(x, known), known)
        return sound

    def _known(self, flow: Flow) -> Flow | None:
        """The flow; None for layers that look ahead, whose only part is the whole."""
        return flow if self.in_parts else None
