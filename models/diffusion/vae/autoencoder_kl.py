"""AutoencoderKL: pixels to the latents of a diffusion model and back (Rombach et al., 2022)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.blocks import Downsample, PictureAttention, Residual, Upsample
from rushlight.models.diffusion.config import known, read_part
from rushlight.models.layers.mlp import ACTIVATIONS

_EPS = 1e-6
_OVERLAP = 0.25  # of a tile with its neighbours
# Names of attention before they were those of all attention.
_OLDER = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}


@dataclass
class KLConfig:
    """The keys of config.json."""

    in_channels: int = 3
    out_channels: int = 3
    down_block_types: Any = ("DownEncoderBlock2D",)
    up_block_types: Any = ("UpDecoderBlock2D",)
    block_out_channels: Any = (64,)
    layers_per_block: int = 1
    act_fn: str = "silu"
    latent_channels: int = 4
    norm_num_groups: int = 32
    sample_size: Any = 32
    scaling_factor: float = 0.18215
    shift_factor: float | None = None
    use_quant_conv: bool = True
    use_post_quant_conv: bool = True
    mid_block_add_attention: bool = True
    latents_mean: Any = None
    latents_std: Any = None

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"force_upcast": ()}


class _Middle(nn.Module):
    def __init__(self, width: int, c: KLConfig) -> None:
        self.resnets = nn.ModuleList([_residual(width, width, c) for _ in range(2)])
        if c.mid_block_add_attention:
            attention = PictureAttention(width, 1, c.norm_num_groups, _EPS)
            self.attentions = nn.ModuleList([attention])
        self.seeing = c.mid_block_add_attention

    def forward(self, x: Tensor) -> Tensor:
        x = self.resnets[0](x)
        x = self.attentions[0](x) if self.seeing else x
        out: Tensor = self.resnets[1](x)
        return out


class _Stage(nn.Module):
    def __init__(self, before: int, width: int, layers: int, c: KLConfig) -> None:
        self.resnets = nn.ModuleList(
            [_residual(before if n == 0 else width, width, c) for n in range(layers)]
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.resnets:
            x = block(x)
        for name in ("downsamplers", "upsamplers"):
            if name in vars(self):
                x = getattr(self, name)[0](x)
        return x


def _residual(before: int, after: int, c: KLConfig) -> Residual:
    return Residual(before, after, None, c.norm_num_groups, _EPS, c.act_fn)


class _Encoder(nn.Module):
    def __init__(self, c: KLConfig) -> None:
        widths, stages = list(c.block_out_channels), []
        self.conv_in = nn.Conv2d(c.in_channels, widths[0], 3, padding=1)
        for i, width in enumerate(widths):
            stage = _Stage(widths[max(i - 1, 0)], width, c.layers_per_block, c)
            if i < len(widths) - 1:
                stage.downsamplers = nn.ModuleList([Downsample(width, 0)])
            stages.append(stage)
        self.down_blocks = nn.ModuleList(stages)
        self.mid_block = _Middle(widths[-1], c)
        self.conv_norm_out = nn.GroupNorm(c.norm_num_groups, widths[-1], _EPS)
        self.conv_out = nn.Conv2d(widths[-1], 2 * c.latent_channels, 3, padding=1)
        self.act = ACTIVATIONS[c.act_fn]

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for stage in self.down_blocks:
            x = stage(x)
        out: Tensor = self.conv_out(self.act(self.conv_norm_out(self.mid_block(x))))
        return out


class _Decoder(nn.Module):
    def __init__(self, c: KLConfig) -> None:
        widths, stages = list(c.block_out_channels)[::-1], []
        self.conv_in = nn.Conv2d(c.latent_channels, widths[0], 3, padding=1)
        self.mid_block = _Middle(widths[0], c)
        for i, width in enumerate(widths):
            stage = _Stage(widths[max(i - 1, 0)], width, c.layers_per_block + 1, c)
            if i < len(widths) - 1:
                stage.upsamplers = nn.ModuleList([Upsample(width)])
            stages.append(stage)
        self.up_blocks = nn.ModuleList(stages)
        self.conv_norm_out = nn.GroupNorm(c.norm_num_groups, widths[-1], _EPS)
        self.conv_out = nn.Conv2d(widths[-1], c.out_channels, 3, padding=1)
        self.act = ACTIVATIONS[c.act_fn]

    def forward(self, x: Tensor) -> Tensor:
        x = self.mid_block(self.conv_in(x))
        for stage in self.up_blocks:
            x = stage(x)
        out: Tensor = self.conv_out(self.act(self.conv_norm_out(x)))
        return out


class AutoencoderKL(nn.Module):
    """Pixels (batch, 3, height, width) from -1 to 1, and latents (batch, channels, h, w).

    `factor` is by how much latents are smaller. tiles: whether pictures larger than a tile are
    done in overlapping tiles, whose seams are blended; slices: one picture of a batch at a time.
    """

    tiles = False
    slices = True

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        c = self.config = read_part(KLConfig, config)
        known("act_fn", c.act_fn, tuple(ACTIVATIONS))
        for kind in c.down_block_types:
            known("down_block_types", kind, ("DownEncoderBlock2D",))
        for kind in c.up_block_types:
            known("up_block_types", kind, ("UpDecoderBlock2D",))
        if len(c.down_block_types) != len(c.block_out_channels):
            raise FormatError(
                f"config.json: down_block_types has {len(c.down_block_types)} values, "
                f"block_out_channels {len(c.block_out_channels)}"
            )
        self.encoder, self.decoder = _Encoder(c), _Decoder(c)
        wide = c.latent_channels
        self.quant_conv = nn.Conv2d(2 * wide, 2 * wide, 1) if c.use_quant_conv else None
        self.post_quant_conv = nn.Conv2d(wide, wide, 1) if c.use_post_quant_conv else None
        self.factor = 1 << (len(c.block_out_channels) - 1)
        self.latent_channels = wide
        size = c.sample_size
        self.tile = max(size) if isinstance(size, list | tuple) else size

    @staticmethod
    def rename_tensors(tensors: Mapping[str, Tensor], config: Any = None) -> dict[str, Tensor]:
        """The tensors with attention's older names changed, and its 1x1 convolutions flat."""
        renamed = {}
        for name, value in tensors.items():
            place = re.fullmatch(r"(.*\.attentions\.0\.)(\w+)\.(weight|bias)", name)
            if place is not None and place[2] in _OLDER:
                name = f"{place[1]}{_OLDER[place[2]]}.{place[3]}"
            if ".attentions." in name and value.ndim == 4:
                value = value.reshape(value.shape[:2])
            renamed[name] = value
        return renamed

    def encode_mean(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (batch, channels, h, w) of pixels' latents, not scaled."""
        tile, step = self.tile, self.factor
        moments = self._each(pixels, lambda x: self._tiled(self._encode, x, tile, 1 / step))
        mean, spread = moments.chunk(2, 1)
        return mean, (0.5 * spread.clamp(-30.0, 20.0)).exp()

    def decode(self, latents: Tensor) -> Tensor:
        """Pixels (batch, 3, height, width) of latents that are not scaled."""
        tile, step = self.tile // self.factor, self.factor
        return self._each(latents, lambda x: self._tiled(self._decode, x, tile, step))

    def forward(self, pixels: Tensor) -> Tensor:
        """The pixels that the latents' mean of pixels gives."""
        return self.decode(self.encode_mean(pixels)[0])

    def _encode(self, x: Tensor) -> Tensor:
        moments: Tensor = self.encoder(x)
        return moments if self.quant_conv is None else self.quant_conv(moments)

    def _decode(self, x: Tensor) -> Tensor:
        x = x if self.post_quant_conv is None else self.post_quant_conv(x)
        out: Tensor = self.decoder(x)
        return out

    def _each(self, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        if not self.slices or len(x) == 1:
            return run(x)
        return cat([run(x[i : i + 1]) for i in range(len(x))], 0)

    def _tiled(self, run: Callable[[Tensor], Tensor], x: Tensor, tile: int, scale: float) -> Tensor:
        """`run` of a map, in tiles where it is larger than one and tiles are wanted."""
        if not self.tiles or max(x.shape[2:]) <= tile:
            return run(x)
        step, out_tile = int(tile * (1 - _OVERLAP)), round(tile * scale)
        blend = int(out_tile * _OVERLAP)
        side = out_tile - blend
        rows = [
            [run(x[:, :, i : i + tile, j : j + tile]) for j in range(0, x.shape[3], step)]
            for i in range(0, x.shape[2], step)
        ]
        # The blended tiles are what the tiles after them are blended with.
        joined = []
        for i, row in enumerate(rows):
            for j in range(len(row)):
                if i:
                    row[j] = _blended(rows[i - 1][j], row[j], blend, 2)
                if j:
                    row[j] = _blended(row[j - 1], row[j], blend, 3)
            joined.append(cat([part[:, :, :side, :side] for part in row], 3))
        return cat(joined, 2)


def _blended(before: Tensor, after: Tensor, count: int, dim: int) -> Tensor:
    """`after` with its first rows or columns faded into the last ones of the tile before."""
    count = min(before.shape[dim], after.shape[dim], count)
    if not count:
        return after
    share = ops.arange(count, dtype=float32, device=after.device) / count
    share = share.to(dtype=after.dtype).reshape((-1, 1) if dim == 2 else (1, -1))
    old = before.narrow(dim, before.shape[dim] - count, count)
    mixed = old * (1 - share) + after.narrow(dim, 0, count) * share
    rest = after.narrow(dim, count, after.shape[dim] - count)
    return cat([mixed, rest], dim)
