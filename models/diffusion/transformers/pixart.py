"""PixArt (Chen et al., 2023): alpha and sigma, whose layers read prompts beside pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import silu
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import (
    WAVES,
    Attention,
    FeedForward,
    Table,
    TwoLayers,
    check_pixels,
    modulated,
    plain_norm,
    sine_grid,
    tanh_gelu,
    time_waves,
    unpatched,
)
from rushlight.models.diffusion.transformers.originals import as_diffusers
from rushlight.models.layers.naming import put

WITH_SIZES = 128  # the sample_size of models that are told the picture's size


@dataclass
class PixArtConfig:
    """The keys of the denoiser's config.json."""

    num_attention_heads: int = 16
    attention_head_dim: int = 72
    in_channels: int = 4
    out_channels: int | None = 8
    num_layers: int = 28
    cross_attention_dim: int | None = 1152
    attention_bias: bool = True
    sample_size: int = 128
    patch_size: int = 2
    activation_fn: str = "gelu-approximate"
    norm_type: str = "ada_norm_single"
    norm_elementwise_affine: bool = False
    norm_eps: float = 1e-6
    interpolation_scale: float | None = None
    use_additional_conditions: bool | None = None
    caption_channels: int | None = None
    attention_type: str | None = "default"

    # norm_num_groups is not read, upcast_attention concerns the dtype of scores.
    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        "dropout": (),
        "norm_num_groups": (),
        "upcast_attention": (),
        "num_embeds_ada_norm": (),
        # Keys of older files, whose class was that of all transformers of pictures.
        "double_self_attention": (False,),
        "num_vector_embeds": (None,),
        "only_cross_attention": (False,),
        "use_linear_projection": (False,),
    }


class TimesOfLayers(nn.Module):
    """Six vectors for every layer, of a time and if `sized` of a picture's size."""

    def __init__(self, width: int, sized: bool = False) -> None:
        self.sized, self.emb = sized, nn.Module()
        self.emb.timestep_embedder = TwoLayers(WAVES, width)
        if sized:
            if width % 3:
                raise FormatError(f"config.json: the width {width} does not divide into thirds")
            self.emb.resolution_embedder = TwoLayers(WAVES, width // 3)
            self.emb.aspect_ratio_embedder = TwoLayers(WAVES, width // 3)
        self.linear = nn.Linear(width, 6 * width)

    def forward(
        self,
        times: Tensor,
        like: Tensor,
        resolution: Tensor | None = None,
        aspect_ratio: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(batch,) -> (batch, 6 width) and (batch, width), in the dtype of `like`."""
        embed: Any = self.emb.get_submodule
        vector: Tensor = embed("timestep_embedder")(time_waves(times).to(like.dtype))
        if self.sized:
            if resolution is None or aspect_ratio is None:
                raise ValueError(
                    "PixArtTransformer2DModel: the model is told the picture's size: give "
                    "resolution= (batch, 2) and aspect_ratio= (batch, 1)"
                )
            sizes = []
            for name, values in (("resolution", resolution), ("aspect_ratio", aspect_ratio)):
                waves = time_waves(values.reshape(-1)).to(like.dtype)
                sizes.append(embed(f"{name}_embedder")(waves).reshape(len(times), -1))
            vector = vector + cat(sizes, 1)
        return self.linear(silu(vector)), vector


class PixArtLayer(Table):
    """Attention to pictures, then to prompts, then a feed-forward part; times scale and gate."""

    def __init__(self, c: PixArtConfig, width: int) -> None:
        sizes = (c.num_attention_heads, c.attention_head_dim)
        self.eps, self.affine = c.norm_eps, c.norm_elementwise_affine
        if self.affine:
            self.norm1, self.norm2 = (
                nn.LayerNorm(width, c.norm_eps),
                nn.LayerNorm(width, c.norm_eps),
            )
        self.attn1 = Attention(width, *sizes, bias=c.attention_bias, norm="")
        self.reads = c.cross_attention_dim is not None
        if self.reads:
            self.attn2 = Attention(
                width, *sizes, bias=c.attention_bias, norm="", memory=c.cross_attention_dim
            )
        self.ff = FeedForward(width, c.activation_fn)
        self.put_table(6, width)

    def _normed(self, x: Tensor, name: str) -> Tensor:
        y: Tensor = getattr(self, name)(x) if self.affine else plain_norm(x, self.eps)
        return y

    def forward(self, x: Tensor, texts: Tensor, times: Tensor, mask: Tensor | None) -> Tensor:
        """(batch, length, width) -> the same; mask: bool (batch, words)."""
        shift, scale, gate, shift_inner, scale_inner, gate_inner = self.vectors(times)
        seen, _ = self.attn1(modulated(self._normed(x, "norm1"), scale, shift))
        x = x + gate * seen
        if self.reads:
            x = x + self.attn2(x, mask=mask, memory=texts)[0]
        y: Tensor = self.ff(modulated(self._normed(x, "norm2"), scale_inner, shift_inner))
        return x + gate_inner * y


class PixArtTransformer2DModel(Table):
    """The denoiser of PixArt-alpha and PixArt-sigma."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(PixArtConfig, config)
        choose("norm_type", c.norm_type, ("ada_norm_single",))
        choose("attention_type", c.attention_type, ("default", None))
        width = c.num_attention_heads * c.attention_head_dim
        sized = c.use_additional_conditions
        put(self, "pos_embed.proj", nn.Conv2d(c.in_channels, width, c.patch_size, c.patch_size))
        self.transformer_blocks = nn.ModuleList(
            [PixArtLayer(c, width) for _ in range(c.num_layers)]
        )
        self.outputs = c.in_channels if c.out_channels is None else c.out_channels
        self.proj_out = nn.Linear(width, c.patch_size**2 * self.outputs)
        sized = c.sample_size == WITH_SIZES if sized is None else sized
        self.adaln_single = TimesOfLayers(width, sized)
        if c.caption_channels is not None:
            self.caption_projection = TwoLayers(c.caption_channels, width, tanh_gelu)
        self.put_table(2, width)

    rename_tensors = staticmethod(as_diffusers)

    @property
    def sized(self) -> bool:
        """Whether the model is told the size of the picture."""
        return bool(self.adaln_single.sized)

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor | None = None,
        resolution: Tensor | None = None,
        aspect_ratio: Tensor | None = None,
    ) -> Tensor:
        """The noise and its variance (batch, out_channels, height, width).

        `hidden_states`: latents (batch, in_channels, height, width). `timestep`: (batch,), from
        1000, noise, to 0. `encoder_hidden_states`: states of T5 (batch, words, caption_channels),
        and `encoder_attention_mask` (batch, words), 0 for padding. `resolution` (batch, 2) and
        `aspect_ratio` (batch, 1): of the picture, for models of `sized`.
        """
        c = self.config
        check_pixels("PixArtTransformer2DModel", hidden_states, c.in_channels, c.patch_size)
        height, width = hidden_states.shape[2:]
        first: Any = self.get_submodule("pos_embed.proj")
        x = first(hidden_states).flatten(2).transpose(1, 2)
        stretch = c.interpolation_scale or max(c.sample_size // 64, 1)
        x = x + positions(x, height, width, c.patch_size, c.sample_size, stretch)
        times, vector = self.adaln_single(timestep, x, resolution, aspect_ratio)
        texts = encoder_hidden_states
        if c.caption_channels is not None:
            texts = self.caption_projection(texts)
        mask = None if encoder_attention_mask is None else encoder_attention_mask > 0
        for layer in self.transformer_blocks:
            x = layer(x, texts, times, mask)
        shift, scale = self.vectors(vector)
        out = self.proj_out(modulated(plain_norm(x), scale, shift))
        return unpatched(out, c.patch_size, height, width)


def positions(x: Tensor, height: int, width: int, size: int, sample: int, stretch: float) -> Tensor:
    """The sines of the places of x's tokens (1, tokens, features), for patches of `size`.

    height, width: of the latents. sample: the side of those that the model was trained with.
    """
    grid = sine_grid(x.shape[-1], height // size, width // size, sample // size, stretch)
    return tensor(grid[None], device=x.device).to(x.dtype)
