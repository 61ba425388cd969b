"""FLUX.2 (Black Forest Labs, 2025): FLUX with one modulation for all layers of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.functional.network.activations import silu
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    Angles,
    Attention,
    LastNorm,
    Modulation,
    TwoLayers,
    angles_on,
    axis_angles,
    check_axes,
    joined_heads,
    modulated,
    plain_norm,
    rotated,
    split_heads,
    time_waves,
    within_half,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers


@dataclass
class Flux2Config:
    """The keys of the denoiser's config.json."""

    patch_size: int = 1
    in_channels: int = 128
    out_channels: int | None = None
    num_layers: int = 8
    num_single_layers: int = 48
    attention_head_dim: int = 128
    num_attention_heads: int = 48
    joint_attention_dim: int = 15360
    timestep_guidance_channels: int = 256
    mlp_ratio: float = 3.0
    axes_dims_rope: Any = (32, 32, 32, 32)
    rope_theta: float = 2000
    eps: float = 1e-6
    guidance_embeds: bool = True


def gated(x: Tensor) -> Tensor:
    """SiLU of the first half of the features times the second."""
    gate, value = x.chunk(2, -1)
    return silu(gate) * value


class GatedForward(nn.Module):
    """linear_out(silu(a) b), with a and b of linear_in(x)."""

    def __init__(self, width: int, ratio: float) -> None:
        inner = int(width * ratio)
        self.linear_in = nn.Linear(width, 2 * inner, bias=False)
        self.linear_out = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = self.linear_out(gated(self.linear_in(x)))
        return out


class DoubleLayer(nn.Module):
    """Pictures and prompts, each with weights of its own, attend to both."""

    def __init__(self, c: Flux2Config) -> None:
        width = c.num_attention_heads * c.attention_head_dim
        self.eps = c.eps
        self.attn = Attention(
            width,
            c.num_attention_heads,
            c.attention_head_dim,
            bias=False,
            out_bias=False,
            eps=c.eps,
            joint=True,
        )
        self.ff = GatedForward(width, c.mlp_ratio)
        self.ff_context = GatedForward(width, c.mlp_ratio)

    def forward(
        self,
        x: Tensor,
        texts: Tensor,
        modulation: tuple[Tensor, ...],
        other: tuple[Tensor, ...],
        angles: Angles,
    ) -> tuple[Tensor, Tensor]:
        """(batch, pixels, width), (batch, words, width) -> the same; modulation, other: of both."""
        eps = self.eps
        seen, seen_texts = self.attn(
            modulated(plain_norm(x, eps), modulation[1], modulation[0]),
            modulated(plain_norm(texts, eps), other[1], other[0]),
            angles,
        )
        x = x + modulation[2] * seen
        x = x + modulation[5] * self.ff(modulated(plain_norm(x, eps), modulation[4], modulation[3]))
        texts = texts + other[2] * seen_texts
        y = self.ff_context(modulated(plain_norm(texts, eps), other[4], other[3]))
        return x, within_half(texts + other[5] * y)


class _FusedAttention(nn.Module):
    """Attention and a gated feed-forward part beside it, with one matrix before and one after."""

    def __init__(self, c: Flux2Config) -> None:
        width = c.num_attention_heads * c.attention_head_dim
        inner = int(width * c.mlp_ratio)
        self.heads, self.width = c.num_attention_heads, width
        self.to_qkv_mlp_proj = nn.Linear(width, 3 * width + 2 * inner, bias=False)
        self.norm_q = nn.RMSNorm(c.attention_head_dim, eps=c.eps)
        self.norm_k = nn.RMSNorm(c.attention_head_dim, eps=c.eps)
        self.to_out = nn.Linear(width + inner, width, bias=False)

    def forward(self, x: Tensor, angles: Angles) -> Tensor:
        """(batch, length, width) -> the same."""
        y, width = self.to_qkv_mlp_proj(x), self.width
        q, k, v = (split_heads(y[..., i * width : (i + 1) * width], self.heads) for i in range(3))
        q, k = rotated(self.norm_q(q), angles), rotated(self.norm_k(k), angles)
        seen = joined_heads(ops.attention(q, k, v))
        out: Tensor = self.to_out(cat([seen, gated(y[..., 3 * width :])], -1))
        return out


class SingleLayer(nn.Module):
    """A layer over the tokens of prompts and pictures."""

    def __init__(self, c: Flux2Config) -> None:
        self.eps = c.eps
        self.attn = _FusedAttention(c)

    def forward(self, x: Tensor, modulation: tuple[Tensor, ...], angles: Angles) -> Tensor:
        """(batch, length, width) -> the same."""
        shift, scale, gate = modulation
        y = modulated(plain_norm(x, self.eps), scale, shift)
        return within_half(x + gate * self.attn(y, angles))


class _TimeAndGuidance(nn.Module):
    """A vector of a time, and if `guided` of the strength of guidance."""

    def __init__(self, waves: int, width: int, guided: bool) -> None:
        self.waves, self.guided = waves, guided
        self.timestep_embedder = TwoLayers(waves, width, bias=False)
        if guided:
            self.guidance_embedder = TwoLayers(waves, width, bias=False)

    def forward(self, times: Tensor, guidance: Tensor | None) -> Tensor:
        """(batch,), (batch,) -> (batch, width)."""
        out: Tensor = self.timestep_embedder(time_waves(times, self.waves).to(times.dtype))
        if self.guided and guidance is not None:
            waves = time_waves(guidance, self.waves).to(times.dtype)
            out = out + self.guidance_embedder(waves)
        return out


class Flux2Transformer2DModel(nn.Module):
    """FLUX.2's denoiser: dev, and the klein models."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(Flux2Config, config)
        width = c.num_attention_heads * c.attention_head_dim
        check_axes("axes_dims_rope", c.axes_dims_rope, c.attention_head_dim)
        self.time_guidance_embed = _TimeAndGuidance(
            c.timestep_guidance_channels, width, c.guidance_embeds
        )
        self.double_stream_modulation_img = Modulation(width, 6, bias=False)
        self.double_stream_modulation_txt = Modulation(width, 6, bias=False)
        self.single_stream_modulation = Modulation(width, 3, bias=False)
        self.x_embedder = nn.Linear(c.in_channels, width, bias=False)
        self.context_embedder = nn.Linear(c.joint_attention_dim, width, bias=False)
        self.transformer_blocks = nn.ModuleList([DoubleLayer(c) for _ in range(c.num_layers)])
        self.single_transformer_blocks = nn.ModuleList(
            [SingleLayer(c) for _ in range(c.num_single_layers)]
        )
        self.norm_out = LastNorm(width, c.eps, bias=False)
        outputs = c.patch_size**2 * (c.out_channels or c.in_channels)
        self.proj_out = nn.Linear(width, outputs, bias=False)

    rename_tensors = staticmethod(as_diffusers)

    def angles(self, places: npt.NDArray[Any]) -> Angles:
        """The angles of tokens at `places` (tokens, 4), those of prompts first, on the device."""
        c = self.config
        return angles_on(self, *axis_angles(places, c.axes_dims_rope, c.rope_theta))

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        image_rotary_emb: Angles,
        guidance: Tensor | None = None,
    ) -> Tensor:
        """The velocity (batch, tokens, channels) of packed latents.

        `hidden_states`: (batch, tokens, in_channels), those of reference pictures last.
        `timestep`: (batch,), from 1, noise, to 0. `encoder_hidden_states`: states of the language
        model (batch, words, joint_attention_dim). `image_rotary_emb`: what `angles` gives, of
        words, then tokens. `guidance`: (batch,), for models that are distilled with it.
        """
        times = timestep.to(hidden_states.dtype) * 1000.0
        strength = None if guidance is None else guidance.to(hidden_states.dtype) * 1000.0
        condition = self.time_guidance_embed(times, strength)
        modulation = self.double_stream_modulation_img(condition)
        other = self.double_stream_modulation_txt(condition)
        x, texts = self.x_embedder(hidden_states), self.context_embedder(encoder_hidden_states)
        for double in self.transformer_blocks:
            x, texts = double(x, texts, modulation, other, image_rotary_emb)
        words = texts.shape[1]
        x, each = cat([texts, x], 1), self.single_stream_modulation(condition)
        for single in self.single_transformer_blocks:
            x = single(x, each, image_rotary_emb)
        out: Tensor = self.proj_out(self.norm_out.normed(x[:, words:], condition))
        return out
