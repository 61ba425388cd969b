"""Sana (Xie et al., 2024): linear attention, and convolutions in place of feed-forward parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn
from rushlight.core.basis.dtype import float32
from rushlight.core.functional.network.activations import relu, silu
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    WAVES,
    Attention,
    Table,
    TwoLayers,
    check_pixels,
    modulated,
    plain_norm,
    tanh_gelu,
    time_waves,
    unpatched,
    within_half,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers
from rushlight.models.diffusion.transformers.pixart import TimesOfLayers, positions
from rushlight.models.layers.naming import put

_NORMS = {None: "", "rms_norm": "head", "rms_norm_across_heads": "all"}


@dataclass
class SanaConfig:
    """The keys of the denoiser's config.json."""

    in_channels: int = 32
    out_channels: int | None = 32
    num_attention_heads: int = 70
    attention_head_dim: int = 32
    num_layers: int = 20
    num_cross_attention_heads: int = 20
    cross_attention_head_dim: int = 112
    cross_attention_dim: int = 2240
    caption_channels: int = 2304
    mlp_ratio: float = 2.5
    attention_bias: bool = False
    sample_size: int = 32
    patch_size: int = 1
    norm_elementwise_affine: bool = False
    norm_eps: float = 1e-6
    interpolation_scale: float | None = None
    guidance_embeds: bool = False
    guidance_embeds_scale: float = 0.1  # of the guidance that a pipeline gives
    qk_norm: str | None = None
    timestep_scale: float = 1.0  # of the times that a pipeline gives

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"dropout": ()}


class LinearAttention(Attention):
    """Attention whose scores are products of positive features (Katharopoulos et al., 2020)."""

    def forward(  # type: ignore[override]
        self, x: Tensor
    ) -> Tensor:
        """(batch, length, width) -> the same."""
        q, k, v = self.projected(x, ("to_q", "to_k", "to_v", "norm_q", "norm_k"), x)
        q, k, v = relu(q).to(float32), relu(k).to(float32), v.to(float32)
        sums = k.transpose(-1, -2) @ v
        total = q @ k.sum(-2, keepdim=True).transpose(-1, -2)
        seen = (q @ sums) / (total + 1e-15)
        seen = seen.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)
        out: Tensor = self.to_out[0](seen.to(x.dtype))
        return within_half(out)


class GatedConvolutions(nn.Module):
    """A convolution of each channel between products of channels; half of them open the others.

    normed: an RMS norm of the result, which is added to what is read.
    """

    def __init__(self, channels: int, ratio: float, normed: bool = False) -> None:
        inner, self.normed = int(ratio * channels), normed
        self.conv_inverted = nn.Conv2d(channels, 2 * inner, 1)
        self.conv_depth = nn.Conv2d(2 * inner, 2 * inner, 3, padding=1, groups=2 * inner)
        self.conv_point = nn.Conv2d(inner, channels, 1, bias=False)
        if normed:
            self.norm = BiasedNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> the same."""
        value, gate = self.conv_depth(silu(self.conv_inverted(x))).chunk(2, 1)
        y: Tensor = self.conv_point(value * silu(gate))
        if self.normed:
            y = self.norm.of_channels(y) + x
        return y


class BiasedNorm(nn.RMSNorm):
    """An RMS norm with a bias."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        self.bias = parameter(width)
        super().__init__(width, eps=eps)

    def reset_parameters(self) -> None:
        """Weights one, biases zero."""
        super().reset_parameters()
        init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        return super().forward(x) + self.bias

    def of_channels(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) -> the same, over the channels."""
        return self.forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class SanaLayer(Table):
    """Linear attention to the picture, attention to the prompt, convolutions."""

    def __init__(self, c: SanaConfig, width: int) -> None:
        norm = _NORMS[c.qk_norm]
        self.eps, self.affine = c.norm_eps, c.norm_elementwise_affine
        self.attn1 = LinearAttention(
            width,
            c.num_attention_heads,
            c.attention_head_dim,
            bias=c.attention_bias,
            norm=norm,
            eps=1e-5,
        )
        if self.affine:
            self.norm2 = nn.LayerNorm(width, c.norm_eps)
        self.attn2 = Attention(
            width,
            c.num_cross_attention_heads,
            c.cross_attention_head_dim,
            norm=norm,
            eps=1e-5,
            memory=c.cross_attention_dim,
        )
        self.ff = GatedConvolutions(width, c.mlp_ratio)
        self.put_table(6, width)

    def forward(
        self,
        x: Tensor,
        texts: Tensor,
        times: Tensor,
        mask: Tensor | None,
        size: tuple[int, int],
    ) -> Tensor:
        """(batch, height * width, features) -> the same; mask: bool (batch, words)."""
        shift, scale, gate, shift_inner, scale_inner, gate_inner = self.vectors(times)
        x = x + gate * self.attn1(modulated(plain_norm(x, self.eps), scale, shift))
        x = x + self.attn2(x, mask=mask, memory=texts)[0]
        y = self.norm2(x) if self.affine else plain_norm(x, self.eps)
        y = modulated(y, scale_inner, shift_inner).transpose(1, 2)
        y = self.ff(y.reshape(*y.shape[:2], *size)).flatten(2).transpose(1, 2)
        out: Tensor = x + gate_inner * y
        return out


class TimeAndGuidance(nn.Module):
    """Six vectors for every layer, of a time and of the strength of guidance."""

    def __init__(self, width: int) -> None:
        self.timestep_embedder, self.guidance_embedder = (TwoLayers(WAVES, width) for _ in "tg")
        self.linear = nn.Linear(width, 6 * width)

    def forward(self, times: Tensor, like: Tensor, guidance: Tensor) -> tuple[Tensor, Tensor]:
        """(batch,), (batch,) -> (batch, 6 width) and (batch, width), in the dtype of `like`."""
        vector = self.timestep_embedder(time_waves(times).to(like.dtype))
        vector = vector + self.guidance_embedder(time_waves(guidance).to(like.dtype))
        return self.linear(silu(vector)), vector


class SanaTransformer2DModel(Table):
    """The denoiser of Sana, Sana 1.5 and Sana Sprint."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(SanaConfig, config)
        choose("qk_norm", c.qk_norm, (None, "rms_norm_across_heads"))
        width = c.num_attention_heads * c.attention_head_dim
        put(self, "patch_embed.proj", nn.Conv2d(c.in_channels, width, c.patch_size, c.patch_size))
        self.time_embed = TimeAndGuidance(width) if c.guidance_embeds else TimesOfLayers(width)
        self.caption_projection = TwoLayers(c.caption_channels, width, tanh_gelu)
        self.caption_norm = nn.RMSNorm(width, eps=1e-5)
        self.transformer_blocks = nn.ModuleList([SanaLayer(c, width) for _ in range(c.num_layers)])
        self.proj_out = nn.Linear(width, c.patch_size**2 * (c.out_channels or c.in_channels))
        self.put_table(2, width)

    rename_tensors = staticmethod(as_diffusers)

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor | None = None,
        guidance: Tensor | None = None,
    ) -> Tensor:
        """The velocity (batch, channels, height, width) of latents of this shape.

        `hidden_states`: the latents. `timestep`: (batch,), from 1000, noise, to 0, times
        timestep_scale of config.json. `encoder_hidden_states`: states of Gemma (batch, words,
        caption_channels), and `encoder_attention_mask` (batch, words), 0 for padding. `guidance`:
        (batch,), times guidance_embeds_scale, for models that are distilled with it.
        """
        c = self.config
        check_pixels("SanaTransformer2DModel", hidden_states, c.in_channels, c.patch_size)
        height, width = hidden_states.shape[2:]
        first: Any = self.get_submodule("patch_embed.proj")
        x = first(hidden_states).flatten(2).transpose(1, 2)
        if c.interpolation_scale is not None:
            stretch = c.interpolation_scale
            x = x + positions(x, height, width, c.patch_size, c.sample_size, stretch)
        if c.guidance_embeds and guidance is None:
            raise ValueError(
                "SanaTransformer2DModel: the model is distilled with guidance: give guidance="
            )
        more = (guidance,) if c.guidance_embeds else ()
        times, vector = self.time_embed(timestep, x, *more)
        texts = self.caption_norm(self.caption_projection(encoder_hidden_states))
        mask = None if encoder_attention_mask is None else encoder_attention_mask > 0
        size = (height // c.patch_size, width // c.patch_size)
        for layer in self.transformer_blocks:
            x = layer(x, texts, times, mask, size)
        shift, scale = self.vectors(vector)
        out = self.proj_out(modulated(plain_norm(x), scale, shift))
        return unpatched(out, c.patch_size, height, width)
