"""FLUX.1 (Black Forest Labs, 2024): two streams that see each other, then one of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    Angles,
    Attention,
    FeedForward,
    LastNorm,
    Modulation,
    TimeAndText,
    angles_on,
    axis_angles,
    check_axes,
    modulated,
    plain_norm,
    tanh_gelu,
    within_half,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers

THETA = 10000.0


@dataclass
class FluxConfig:
    """The keys of the denoiser's config.json."""

    patch_size: int = 1
    in_channels: int = 64
    out_channels: int | None = None
    num_layers: int = 19
    num_single_layers: int = 38
    attention_head_dim: int = 128
    num_attention_heads: int = 24
    joint_attention_dim: int = 4096
    pooled_projection_dim: int = 768
    guidance_embeds: bool = False
    axes_dims_rope: Any = (16, 56, 56)


class DoubleLayer(nn.Module):
    """Pictures and prompts, each with weights of its own, attend to both (Esser et al., 2024)."""

    def __init__(self, width: int, heads: int, head_dim: int) -> None:
        self.norm1, self.norm1_context = Modulation(width, 6), Modulation(width, 6)
        self.attn = Attention(width, heads, head_dim, joint=True)
        self.ff, self.ff_context = FeedForward(width), FeedForward(width)

    def forward(
        self, x: Tensor, texts: Tensor, condition: Tensor, angles: Angles
    ) -> tuple[Tensor, Tensor]:
        """(batch, pixels, width), (batch, words, width) -> the same."""
        modulation, other = self.norm1(condition), self.norm1_context(condition)
        seen, seen_texts = self.attn(
            modulated(plain_norm(x), modulation[1], modulation[0]),
            modulated(plain_norm(texts), other[1], other[0]),
            angles,
        )
        x = x + modulation[2] * seen
        x = x + modulation[5] * self.ff(modulated(plain_norm(x), modulation[4], modulation[3]))
        texts = texts + other[2] * seen_texts
        y = self.ff_context(modulated(plain_norm(texts), other[4], other[3]))
        return x, within_half(texts + other[5] * y)


class SingleLayer(nn.Module):
    """Attention and a feed-forward part beside it, over the tokens of both."""

    def __init__(self, width: int, heads: int, head_dim: int) -> None:
        self.norm = Modulation(width, 3)
        self.proj_mlp = nn.Linear(width, 4 * width)
        self.proj_out = nn.Linear(5 * width, width)
        self.attn = Attention(width, heads, head_dim, out=False)

    def forward(self, x: Tensor, condition: Tensor, angles: Angles) -> Tensor:
        """(batch, length, width) -> the same."""
        shift, scale, gate = self.norm(condition)
        y = modulated(plain_norm(x), scale, shift)
        seen, _ = self.attn(y, angles=angles)
        out = self.proj_out(cat([seen, tanh_gelu(self.proj_mlp(y))], -1))
        return within_half(x + gate * out)


class FluxTransformer2DModel(nn.Module):
    """FLUX.1's denoiser: schnell, dev, and what is trained of them."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(FluxConfig, config)
        width, sizes = (
            c.num_attention_heads * c.attention_head_dim,
            (c.num_attention_heads, c.attention_head_dim),
        )
        check_axes("axes_dims_rope", c.axes_dims_rope, c.attention_head_dim)
        outputs = c.patch_size**2 * (c.out_channels or c.in_channels)
        self.time_text_embed = TimeAndText(width, c.pooled_projection_dim, c.guidance_embeds)
        self.context_embedder = nn.Linear(c.joint_attention_dim, width)
        self.x_embedder = nn.Linear(c.in_channels, width)
        self.transformer_blocks = nn.ModuleList(
            [DoubleLayer(width, *sizes) for _ in range(c.num_layers)]
        )
        self.single_transformer_blocks = nn.ModuleList(
            [SingleLayer(width, *sizes) for _ in range(c.num_single_layers)]
        )
        self.norm_out = LastNorm(width)
        self.proj_out = nn.Linear(width, outputs)

    rename_tensors = staticmethod(as_diffusers)

    def angles(self, places: npt.NDArray[Any]) -> Angles:
        """The angles of tokens at `places` (tokens, 3), those of prompts first, on the device."""
        return angles_on(self, *axis_angles(places, self.config.axes_dims_rope, THETA))

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        pooled_projections: Tensor,
        image_rotary_emb: Angles,
        guidance: Tensor | None = None,
    ) -> Tensor:
        """The velocity (batch, tokens, channels) of packed latents.

        `hidden_states`: (batch, tokens, in_channels). `timestep`: (batch,), from 1, noise, to 0.
        `encoder_hidden_states`: states of T5 (batch, words, joint_attention_dim).
        `pooled_projections`: CLIP's vector of the prompt. `image_rotary_emb`: what `angles` gives,
        of words, then tokens. `guidance`: (batch,), for models that are distilled with it.
        """
        x, texts = self.x_embedder(hidden_states), self.context_embedder(encoder_hidden_states)
        strength = None if guidance is None else guidance * 1000.0
        condition = self.time_text_embed(timestep * 1000.0, pooled_projections, strength)
        for double in self.transformer_blocks:
            x, texts = double(x, texts, condition, image_rotary_emb)
        words = texts.shape[1]
        x = cat([texts, x], 1)
        for single in self.single_transformer_blocks:
            x = single(x, condition, image_rotary_emb)
        out: Tensor = self.proj_out(self.norm_out.normed(x[:, words:], condition))
        return out
