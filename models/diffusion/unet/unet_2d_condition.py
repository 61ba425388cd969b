"""UNet2DConditionModel: the denoiser of Stable Diffusion 1.5, 2.x and XL (Rombach et al., 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.blocks import (
    Attention,
    Downsample,
    Residual,
    TimeEmbedding,
    Upsample,
    sinusoid,
)
from rushlight.models.diffusion.config import each, known, read_part
from rushlight.models.layers.mlp import ACTIVATIONS

_PLAIN, _SEEING = ("DownBlock2D", "UpBlock2D"), ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D")


@dataclass
class UNetConfig:
    """The keys of config.json."""

    sample_size: Any = None
    in_channels: int = 4
    out_channels: int = 4
    flip_sin_to_cos: bool = True
    freq_shift: int = 0
    down_block_types: Any = (_SEEING[0],) * 3 + (_PLAIN[0],)
    mid_block_type: str | None = "UNetMidBlock2DCrossAttn"
    up_block_types: Any = (_PLAIN[1],) + (_SEEING[1],) * 3
    block_out_channels: Any = (320, 640, 1280, 1280)
    layers_per_block: Any = 2
    downsample_padding: int = 1
    act_fn: str = "silu"
    norm_num_groups: int = 32
    norm_eps: float = 1e-5
    cross_attention_dim: Any = 1280
    transformer_layers_per_block: Any = 1
    attention_head_dim: Any = 8
    use_linear_projection: bool = False
    addition_embed_type: str | None = None
    addition_time_embed_dim: int | None = None
    projection_class_embeddings_input_dim: int | None = None
    resnet_time_scale_shift: str = "default"
    time_cond_proj_dim: int | None = None
    time_embedding_dim: int | None = None

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {
        "center_input_sample": (False,),
        "only_cross_attention": (False,),
        "mid_block_scale_factor": (1,),
        "dropout": (),
        "reverse_transformer_layers_per_block": (None,),
        "encoder_hid_dim": (None,),
        "encoder_hid_dim_type": (None,),
        "num_attention_heads": (None,),
        "dual_cross_attention": (False,),
        "class_embed_type": (None,),
        "num_class_embeds": (None,),
        "upcast_attention": (),  # sums are float32 here
        "resnet_skip_time_act": (False,),
        "resnet_out_scale_factor": (1.0,),
        "time_embedding_type": ("positional",),
        "time_embedding_act_fn": (None,),
        "timestep_post_act": (None,),
        "conv_in_kernel": (3,),
        "conv_out_kernel": (3,),
        "attention_type": ("default",),
        "class_embeddings_concat": (False,),
        "mid_block_only_cross_attention": (None, False),
        "cross_attention_norm": (None,),
        "addition_embed_type_num_heads": (),
    }


class _Gated(nn.Module):
    """A gated product with gelu (Shazeer, 2020)."""

    def __init__(self, width: int, inner: int) -> None:
        self.proj = nn.Linear(width, 2 * inner)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.proj(x).chunk(2, -1)
        out: Tensor = value * ACTIVATIONS["gelu"](gate)
        return out


class _FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        # The dropout between is a place in the checkpoint's names.
        self.net = nn.ModuleList(
            [_Gated(width, 4 * width), nn.Identity(), nn.Linear(4 * width, width)]
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net[2](self.net[0](x))
        return out


class _Layer(nn.Module):
    """Attention to the map itself, to the context, and a gated feed-forward part."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        self.norm1 = nn.LayerNorm(width)
        self.attn1 = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.attn2 = Attention(width, heads, context)
        self.norm3 = nn.LayerNorm(width)
        self.ff = _FeedForward(width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        out: Tensor = x + self.ff(self.norm3(x))
        return out


class _Transformer(nn.Module):
    """Layers over the places of a map, beside the map."""

    def __init__(self, width: int, c: UNetConfig, heads: int, context: int, layers: int) -> None:
        self.norm = nn.GroupNorm(c.norm_num_groups, width, 1e-6)
        self.linear = c.use_linear_projection
        self.proj_in: Any = nn.Linear(width, width) if self.linear else nn.Conv2d(width, width, 1)
        self.transformer_blocks = nn.ModuleList(
            [_Layer(width, heads, context) for _ in range(layers)]
        )
        self.proj_out: Any = nn.Linear(width, width) if self.linear else nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        y = self.norm(x)
        if self.linear:
            y = self.proj_in(y.flatten(2).transpose(1, 2))
        else:
            y = self.proj_in(y).flatten(2).transpose(1, 2)
        for layer in self.transformer_blocks:
            y = layer(y, context)
        if self.linear:
            y = self.proj_out(y).transpose(1, 2).reshape(x.shape)
        else:
            y = self.proj_out(y.transpose(1, 2).reshape(x.shape))
        out: Tensor = x + y
        return out


@dataclass(frozen=True)
class _Stage:
    """What the blocks of one size have in common."""

    layers: int
    heads: int
    context: int
    depth: Any  # layers of each transformer
    seeing: bool


class _Blocks(nn.Module):
    """Residual blocks of one size, each with a transformer where the stage sees a context."""

    def __init__(
        self, widths: list[tuple[int, int]], c: UNetConfig, stage: _Stage, time: int
    ) -> None:
        scaled = c.resnet_time_scale_shift == "scale_shift"
        self.resnets = nn.ModuleList(
            [
                Residual(before, after, time, c.norm_num_groups, c.norm_eps, c.act_fn, scaled)
                for before, after in widths
            ]
        )
        if stage.seeing:
            depths = each("transformer_layers_per_block", stage.depth, len(widths))
            self.attentions = nn.ModuleList(
                [
                    _Transformer(after, c, stage.heads, stage.context, depth)
                    for (_, after), depth in zip(widths, depths, strict=True)
                ]
            )
        self.seeing = stage.seeing

    def block(self, number: int, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        """What one residual block, and the transformer after it, make of a map."""
        x = self.resnets[number](x, time)
        if self.seeing:
            x = self.attentions[number](x, context)
        return x


class _Down(_Blocks):
    def __init__(
        self, widths: list[tuple[int, int]], c: UNetConfig, stage: _Stage, time: int, last: bool
    ) -> None:
        super().__init__(widths, c, stage, time)
        if not last:
            self.downsamplers = nn.ModuleList([Downsample(widths[-1][1], c.downsample_padding)])
        self.last = last

    def forward(self, x: Tensor, time: Tensor, context: Tensor, skips: list[Tensor]) -> Tensor:
        for number in range(len(self.resnets)):
            x = self.block(number, x, time, context)
            skips.append(x)
        if not self.last:
            x = self.downsamplers[0](x)
            skips.append(x)
        return x


class _Up(_Blocks):
    def __init__(
        self, widths: list[tuple[int, int]], c: UNetConfig, stage: _Stage, time: int, last: bool
    ) -> None:
        super().__init__(widths, c, stage, time)
        if not last:
            self.upsamplers = nn.ModuleList([Upsample(widths[-1][1])])
        self.last = last

    def forward(self, x: Tensor, time: Tensor, context: Tensor, skips: list[Tensor]) -> Tensor:
        for number in range(len(self.resnets)):
            x = self.block(number, cat([x, skips.pop()], 1), time, context)
        if not self.last:
            x = self.upsamplers[0](x, skips[-1].shape[2:] if skips else None)
        return x


class _Middle(nn.Module):
    def __init__(self, width: int, c: UNetConfig, stage: _Stage, time: int) -> None:
        scaled = c.resnet_time_scale_shift == "scale_shift"
        self.resnets = nn.ModuleList(
            [
                Residual(width, width, time, c.norm_num_groups, c.norm_eps, c.act_fn, scaled)
                for _ in range(2)
            ]
        )
        self.attentions = nn.ModuleList(
            [_Transformer(width, c, stage.heads, stage.context, stage.depth)]
        )

    def forward(self, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        x = self.attentions[0](self.resnets[0](x, time), context)
        out: Tensor = self.resnets[1](x, time)
        return out


class WayDown(nn.Module):
    """What UNets and ControlNets share: embeddings, the way down to the smallest maps, the middle.

    c: the configuration, of a UNet or with the same keys.
    """

    config: Any

    def __init__(self, c: Any) -> None:
        known("resnet_time_scale_shift", c.resnet_time_scale_shift, ("default", "scale_shift"))
        known("addition_embed_type", c.addition_embed_type, (None, "text_time"))
        known("mid_block_type", c.mid_block_type, ("UNetMidBlock2DCrossAttn",))
        known("act_fn", c.act_fn, tuple(ACTIVATIONS))
        widths = list(c.block_out_channels)
        count = len(widths)
        if count != len(c.down_block_types) or not count:
            raise FormatError(
                f"config.json: down_block_types and block_out_channels have "
                f"{len(c.down_block_types)} and {count} values"
            )
        for kind in c.down_block_types:
            known("down_block_types", kind, (_PLAIN[0], _SEEING[0]))
        time = _time_width(c)
        self.conv_in = nn.Conv2d(c.in_channels, widths[0], 3, padding=1)
        self.time_embedding = TimeEmbedding(widths[0], time, c.act_fn, c.time_cond_proj_dim)
        if c.addition_embed_type is not None:
            projected = c.projection_class_embeddings_input_dim
            if projected is None or c.addition_time_embed_dim is None:
                raise FormatError(
                    "config.json: addition_embed_type text_time needs addition_time_embed_dim and "
                    "projection_class_embeddings_input_dim"
                )
            self.add_embedding = TimeEmbedding(projected, time)
        downs, before = [], widths[0]
        stages = _stages(c, [kind == _SEEING[0] for kind in c.down_block_types])
        for i, stage in enumerate(stages):
            pairs = [(before if n == 0 else widths[i], widths[i]) for n in range(stage.layers)]
            downs.append(_Down(pairs, c, stage, time, i == count - 1))
            before = widths[i]
        self.down_blocks = nn.ModuleList(downs)
        last = stages[-1]
        depth = last.depth if not isinstance(last.depth, list | tuple) else last.depth[-1]
        middle = _Stage(2, last.heads, last.context, depth, True)
        self.mid_block = _Middle(widths[-1], c, middle, time)

    def time(
        self,
        sample: Tensor,
        timestep: Tensor,
        text_embeds: Tensor | None,
        time_ids: Tensor | None,
        condition: Tensor | None,
    ) -> Tensor:
        """The vectors (batch, width) of timesteps and of what else is told, in sample's dtype."""
        c = self.config
        waves = sinusoid(timestep, c.block_out_channels[0], c.flip_sin_to_cos, c.freq_shift)
        time: Tensor = self.time_embedding(waves.to(dtype=sample.dtype), condition)
        if c.addition_embed_type is None:
            return time
        if text_embeds is None or time_ids is None:
            raise ValueError(f"{type(self).__name__}: this model needs text_embeds and time_ids")
        width = int(c.addition_time_embed_dim or 0)
        sizes = sinusoid(time_ids.flatten(), width, c.flip_sin_to_cos, c.freq_shift)
        sizes = sizes.reshape(len(text_embeds), -1).to(dtype=sample.dtype)
        both: Tensor = time + self.add_embedding(cat([text_embeds, sizes], -1))
        return both

    def down(self, x: Tensor, time: Tensor, states: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The middle's map, and the maps of the way down, of what `conv_in` made."""
        skips = [x]
        for block in self.down_blocks:
            x = block(x, time, states, skips)
        middle: Tensor = self.mid_block(x, time, states)
        return middle, skips


class UNet2DConditionModel(WayDown):
    """Latents (batch, channels, height, width), a timestep (batch,) and states of texts (batch,
    tokens, width) -> what the scheduler is told, of the latents' shape.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        c = self.config = read_part(UNetConfig, config)
        super().__init__(c)
        widths, time = list(c.block_out_channels), _time_width(c)
        count = len(widths)
        if count != len(c.up_block_types):
            raise FormatError(
                f"config.json: up_block_types and block_out_channels have "
                f"{len(c.up_block_types)} and {count} values"
            )
        for kind in c.up_block_types:
            known("up_block_types", kind, (_PLAIN[1], _SEEING[1]))
        stages = _stages(c, [kind == _SEEING[1] for kind in reversed(c.up_block_types)])
        before = widths[-1]
        ups: list[_Up] = []
        for i in range(count):
            place = count - 1 - i
            width, skip = widths[place], widths[max(place - 1, 0)]
            pairs, layers = [], stages[place].layers
            for n in range(layers + 1):
                skip_width = skip if n == layers else width
                pairs.append(((before if n == 0 else width) + skip_width, width))
            ups.append(_Up(pairs, c, stages[place], time, i == count - 1))
            before = width
        self.up_blocks = nn.ModuleList(ups)
        self.conv_norm_out = nn.GroupNorm(c.norm_num_groups, widths[0], c.norm_eps)
        self.conv_out = nn.Conv2d(widths[0], c.out_channels, 3, padding=1)

    def forward(
        self,
        sample: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        text_embeds: Tensor | None = None,
        time_ids: Tensor | None = None,
        timestep_cond: Tensor | None = None,
        controls: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """The model's output for noisy latents.

        text_embeds (batch, width) and time_ids (batch, 6): what SDXL is told besides.
        timestep_cond (batch, width): the guidance that a distilled model is told. controls: what a
        ControlNet adds to each map of the way down, and to the middle's.
        """
        time = self.time(sample, timestep, text_embeds, time_ids, timestep_cond)
        x, skips = self.down(self.conv_in(sample), time, encoder_hidden_states)
        if controls is not None:
            *added, middle = controls
            skips = [map_ + more for map_, more in zip(skips, added, strict=True)]
            x = x + middle
        for larger in self.up_blocks:
            x = larger(x, time, encoder_hidden_states, skips)
        x = ACTIVATIONS[self.config.act_fn](self.conv_norm_out(x))
        out: Tensor = self.conv_out(x)
        return out


def _time_width(c: Any) -> int:
    return int(getattr(c, "time_embedding_dim", None) or 4 * c.block_out_channels[0])


def _stages(c: Any, seeing: list[bool]) -> list[_Stage]:
    """What the blocks of each size have in common, from the largest maps on."""
    count = len(seeing)
    layers = each("layers_per_block", c.layers_per_block, count)
    # The number of heads is called their dimension, in these files alone.
    heads = each("attention_head_dim", c.attention_head_dim, count)
    contexts = each("cross_attention_dim", c.cross_attention_dim, count)
    depths = each("transformer_layers_per_block", c.transformer_layers_per_block, count)
    return [_Stage(*row) for row in zip(layers, heads, contexts, depths, seeing, strict=True)]
