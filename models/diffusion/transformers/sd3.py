"""Stable Diffusion 3 and 3.5 (Esser et al., 2024): the first transformer of two joint streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import Buffer
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    Attention,
    FeedForward,
    LastNorm,
    Modulation,
    TimeAndText,
    check_pixels,
    modulated,
    plain_norm,
    unpatched,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers


@dataclass
class SD3Config:
    """The keys of the denoiser's config.json."""

    sample_size: int = 128
    patch_size: int = 2
    in_channels: int = 16
    num_layers: int = 18
    attention_head_dim: int = 64
    num_attention_heads: int = 18
    joint_attention_dim: int = 4096
    caption_projection_dim: int = 1152
    pooled_projection_dim: int = 2048
    out_channels: int | None = 16
    pos_embed_max_size: int = 96
    dual_attention_layers: Any = ()
    qk_norm: str | None = None


class CroppedPatches(nn.Module):
    """Patches with the middle of a stored grid of positions."""

    def __init__(self, c: SD3Config, width: int) -> None:
        self.size, self.side = c.patch_size, c.pos_embed_max_size
        self.proj = nn.Conv2d(c.in_channels, width, c.patch_size, c.patch_size)
        self.pos_embed = Buffer(ops.empty((1, self.side**2, width), device="meta"))

    def forward(self, latents: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, tokens, width)."""
        rows, columns = (n // self.size for n in latents.shape[2:])
        if max(rows, columns) > self.side:
            raise ValueError(
                f"SD3Transformer2DModel: {rows} x {columns} patches are more than "
                f"pos_embed_max_size {self.side}; ask for a smaller picture"
            )
        top, left = (self.side - rows) // 2, (self.side - columns) // 2
        grid = self.pos_embed.reshape(self.side, self.side, -1)
        places = grid[top : top + rows, left : left + columns].reshape(1, rows * columns, -1)
        tokens: Tensor = self.proj(latents).flatten(2).transpose(1, 2)
        return tokens + places.to(tokens.dtype)


class JointLayer(nn.Module):
    """Attention of pictures and prompts; of pictures once more if `dual`; `last` drops prompts."""

    def __init__(self, width: int, sizes: tuple[int, int], norm: str, dual: bool, last: bool):
        self.dual, self.last = dual, last
        self.norm1 = Modulation(width, 9 if dual else 6)
        self.norm1_context: Modulation = LastNorm(width) if last else Modulation(width, 6)
        self.attn = Attention(width, *sizes, norm=norm, joint=True, last=last)
        if dual:
            self.attn2 = Attention(width, *sizes, norm=norm)
        self.ff = FeedForward(width)
        if not last:
            self.ff_context = FeedForward(width)

    def forward(self, x: Tensor, texts: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, pixels, width), (batch, words, width) -> the same."""
        modulation, y = self.norm1(condition), plain_norm(x)
        other: tuple[Tensor, ...] = ()
        if isinstance(self.norm1_context, LastNorm):
            read = self.norm1_context.normed(texts, condition)
        else:
            other = self.norm1_context(condition)
            read = modulated(plain_norm(texts), other[1], other[0])
        seen, seen_texts = self.attn(modulated(y, modulation[1], modulation[0]), read)
        x = x + modulation[2] * seen
        if self.dual:
            seen, _ = self.attn2(modulated(y, modulation[7], modulation[6]))
            x = x + modulation[8] * seen
        x = x + modulation[5] * self.ff(modulated(plain_norm(x), modulation[4], modulation[3]))
        if self.last:
            return x, texts
        texts = texts + other[2] * seen_texts
        y = self.ff_context(modulated(plain_norm(texts), other[4], other[3]))
        return x, texts + other[5] * y


class SD3Transformer2DModel(nn.Module):
    """The denoiser of Stable Diffusion 3 and 3.5."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(SD3Config, config)
        choose("qk_norm", c.qk_norm, (None, "rms_norm"))
        width = c.num_attention_heads * c.attention_head_dim
        if c.caption_projection_dim != width:
            raise FormatError(
                f"config.json: caption_projection_dim is {c.caption_projection_dim}; it must be "
                f"the width of all heads, {width}"
            )
        sizes = (c.num_attention_heads, c.attention_head_dim)
        self.pos_embed = CroppedPatches(c, width)
        self.time_text_embed = TimeAndText(width, c.pooled_projection_dim)
        self.context_embedder = nn.Linear(c.joint_attention_dim, width)
        norm, dual = "head" if c.qk_norm else "", set(c.dual_attention_layers)
        self.transformer_blocks = nn.ModuleList(
            [
                JointLayer(width, sizes, norm, i in dual, i == c.num_layers - 1)
                for i in range(c.num_layers)
            ]
        )
        self.norm_out = LastNorm(width)
        self.outputs = c.in_channels if c.out_channels is None else c.out_channels
        self.proj_out = nn.Linear(width, c.patch_size**2 * self.outputs)

    rename_tensors = staticmethod(as_diffusers)

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        pooled_projections: Tensor,
        skip_layers: Collection[int] = (),
    ) -> Tensor:
        """The velocity (batch, channels, height, width) of latents of this shape.

        `hidden_states`: the latents. `timestep`: (batch,), from 1000, noise, to 0.
        `encoder_hidden_states`: states of CLIP and T5 (batch, words, joint_attention_dim).
        `pooled_projections`: the vectors of both CLIPs, joined. `skip_layers`: numbers of layers
        that are left out, for guidance by them.
        """
        c = self.config
        check_pixels("SD3Transformer2DModel", hidden_states, c.in_channels, c.patch_size)
        x, texts = self.pos_embed(hidden_states), self.context_embedder(encoder_hidden_states)
        condition = self.time_text_embed(timestep, pooled_projections)
        for i, layer in enumerate(self.transformer_blocks):
            if i not in skip_layers:
                x, texts = layer(x, texts, condition)
        out = self.proj_out(self.norm_out.normed(x, condition))
        return unpatched(out, c.patch_size, *hidden_states.shape[2:])
