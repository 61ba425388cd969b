"""Würstchen (Pernias et al., 2023): a prior of small latents, and a decoder that they lead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.activations import leaky_relu, silu
from rushlight.core.functional.network.vision import interpolate, pixel_shuffle, pixel_unshuffle
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.config import read_part
from rushlight.models.diffusion.transformers.common import Attention, plain_norm
from rushlight.models.layers.naming import put

_LONGEST = 10000
_EPS = 1e-6


@dataclass
class WuerstchenPriorConfig:
    """The keys of the prior's config.json."""

    c_in: int = 16
    c: int = 1280
    c_cond: int = 1024
    c_r: int = 64
    depth: int = 16
    nhead: int = 16

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"dropout": ()}


@dataclass
class WuerstchenDiffNeXtConfig:
    """The keys of the decoder's config.json."""

    c_in: int = 4
    c_out: int = 4
    c_r: int = 64
    patch_size: int = 2
    c_cond: int = 1024
    c_hidden: Any = (320, 640, 1280, 1280)
    nhead: Any = (-1, 10, 20, 20)
    blocks: Any = (4, 4, 14, 4)
    level_config: Any = ("CT", "CTA", "CTA", "CTA")
    inject_effnet: Any = (False, True, True, True)
    effnet_embd: int = 16
    clip_embd: int = 1024
    kernel_size: int = 3

    neutral: ClassVar[dict[str, tuple[Any, ...]]] = {"dropout": ()}


def ratio_waves(ratios: Tensor, width: int) -> Tensor:
    """Sines, then cosines, of shares of noise (batch,): (batch, width)."""
    half = width // 2
    rates = np.exp(-math.log(_LONGEST) / (half - 1) * np.arange(half, dtype=np.float32))
    steps = tensor(rates.astype(np.float32), device=ratios.device)
    angles = (ratios.to(float32) * _LONGEST).unsqueeze(-1) * steps
    waves = [angles.sin(), angles.cos()]
    if width % 2:
        waves.append(angles[:, :1] * 0.0)
    return cat(waves, -1).to(ratios.dtype)


def channel_norm(x: Tensor) -> Tensor:
    """Layer norm of the channels of (batch, channels, height, width), without weights."""
    return plain_norm(x.permute(0, 2, 3, 1), _EPS).permute(0, 3, 1, 2)


class ByTime(nn.Module):
    """Channels that a time scales and shifts."""

    def __init__(self, width: int, times: int) -> None:
        self.mapper = nn.Linear(times, 2 * width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """(batch, width, height, width) and (batch, times) -> the same."""
        vectors: Tensor = self.mapper(time)
        scale, shift = vectors[:, :, None, None].chunk(2, 1)
        return x * (scale + 1.0) + shift


class ResponseNorm(nn.Module):
    """Features compared with others' lengths over a picture (Woo et al., 2023)."""

    def __init__(self, width: int) -> None:
        self.gamma, self.beta = parameter(1, 1, 1, width), parameter(1, 1, 1, width)
        self._fill()

    def reset_parameters(self) -> None:
        """Zeros."""
        init.zeros_(self.gamma)
        init.zeros_(self.beta)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, height, width, features) -> the same."""
        lengths = (x * x).sum((1, 2), keepdim=True).sqrt()
        share = lengths / (lengths.mean(-1, keepdim=True) + _EPS)
        return self.gamma * (x * share) + self.beta + x


class Mixer(nn.Module):
    """A convolution of each channel, then layers over the channels; x is added.

    late: what is `skipped` to joins after the norm, else before the convolution.
    """

    def __init__(self, width: int, skipped: int = 0, kernel: int = 3, late: bool = False) -> None:
        self.late = late
        before = width if late else width + skipped
        self.depthwise = nn.Conv2d(before, width, kernel, padding=kernel // 2, groups=width)
        inside = width + skipped if late else width
        put(self, "channelwise.0", nn.Linear(inside, 4 * width))
        put(self, "channelwise.2", ResponseNorm(4 * width))
        put(self, "channelwise.4", nn.Linear(4 * width, width))

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        """(batch, width, height, width) -> the same."""
        get: Any = self.get_submodule
        y = x if skip is None or self.late else cat([x, skip], 1)
        y = channel_norm(self.depthwise(y))
        y = cat([y, skip], 1) if skip is not None and self.late else y
        y = ops.gelu(get("channelwise.0")(y.permute(0, 2, 3, 1)))
        out: Tensor = get("channelwise.4")(get("channelwise.2")(y))
        return x + out.permute(0, 3, 1, 2)


class Reader(nn.Module):
    """Attention of a picture's places to themselves and to a prompt."""

    def __init__(self, width: int, condition: int, heads: int) -> None:
        if heads < 1 or width % heads:
            raise FormatError(f"config.json: nhead has {heads}, which does not divide {width}")
        self.attention = Attention(width, heads, width // heads, norm="")
        put(self, "kv_mapper.1", nn.Linear(condition, width))

    def forward(self, x: Tensor, texts: Tensor) -> Tensor:
        """(batch, width, height, width) and (batch, words, condition) -> the first's shape."""
        get: Any = self.get_submodule
        places = channel_norm(x).flatten(2).transpose(1, 2)
        memory = cat([places, get("kv_mapper.1")(silu(texts))], 1)
        seen: Tensor = self.attention(places, memory=memory)[0]
        return x + seen.transpose(1, 2).reshape(x.shape)


class WuerstchenPrior(nn.Module):
    """Stage C: latents of a few places, of a prompt."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(WuerstchenPriorConfig, config)
        self.projection = nn.Conv2d(c.c_in, c.c, 1)
        put(self, "cond_mapper.0", nn.Linear(c.c_cond, c.c))
        put(self, "cond_mapper.2", nn.Linear(c.c, c.c))
        blocks: list[nn.Module] = []
        for _ in range(c.depth):
            blocks += [Mixer(c.c), ByTime(c.c, c.c_r), Reader(c.c, c.c, c.nhead)]
        self.blocks = nn.ModuleList(blocks)
        put(self, "out.1", nn.Conv2d(c.c, 2 * c.c_in, 1))

    def forward(
        self, hidden_states: Tensor, timestep: Tensor, encoder_hidden_states: Tensor
    ) -> Tensor:
        """The noise in latents (batch, c_in, height, width).

        `hidden_states`: the latents. `timestep`: (batch,), the share of noise, from 1 to 0.
        `encoder_hidden_states`: CLIP's states of the prompt (batch, words, c_cond).
        """
        get: Any = self.get_submodule
        x = self.projection(hidden_states)
        texts = leaky_relu(get("cond_mapper.0")(encoder_hidden_states), 0.2)
        texts = get("cond_mapper.2")(texts)
        time = ratio_waves(timestep, self.config.c_r).to(x.dtype)
        x = through(list(self.blocks), x, time, texts)
        last: Tensor = get("out.1")(channel_norm(x))
        mean, share = last.chunk(2, 1)
        return (hidden_states - mean) / ((1.0 - share).abs() + 1e-5)


def through(blocks: list[nn.Module], x: Tensor, time: Tensor, texts: Tensor) -> Tensor:
    """x after blocks that read a time, a prompt, or neither."""
    for block in blocks:
        if isinstance(block, Reader):
            x = block(x, texts)
        else:
            x = block(x, time) if isinstance(block, ByTime) else block(x)
    return x


class Resized(nn.Module):
    """A norm of the channels, and a convolution that halves or doubles the size."""

    def __init__(self, inputs: int, outputs: int, larger: bool) -> None:
        kind = nn.ConvTranspose2d if larger else nn.Conv2d
        put(self, "1", kind(inputs, outputs, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) -> (batch, outputs, ...)."""
        out: Tensor = self.get_submodule("1")(channel_norm(x))
        return out


class WuerstchenDiffNeXt(nn.Module):
    """Stage B: latents of stage A, of a prompt and of the small latents that the prior made."""

    @nn.layers_on("meta")
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = c = read_part(WuerstchenDiffNeXtConfig, config)
        widths, injected = list(c.c_hidden), list(c.inject_effnet)
        lists = (c.nhead, c.blocks, c.level_config, injected)
        if any(len(values) != len(widths) for values in lists):
            raise FormatError(
                f"config.json: c_hidden is {brief(widths)}; nhead, blocks, level_config and "
                "inject_effnet must have as many entries"
            )
        self.clip_mapper = nn.Linear(c.clip_embd, c.c_cond)
        for i, read in enumerate([*injected, *reversed(injected)]):
            if read:
                put(self, f"effnet_mappers.{i}", nn.Conv2d(c.effnet_embd, c.c_cond, 1))
        put(self, "embedding.1", nn.Conv2d(c.c_in * c.patch_size**2, widths[0], 1))
        last = len(widths) - 1
        down, up = [], []
        for i, width in enumerate(widths):
            level = self._level(c, i, 0)
            if i:
                level.insert(0, Resized(widths[i - 1], width, larger=False))
            down.append(nn.ModuleList(level))
        for i in reversed(range(len(widths))):
            level = self._level(c, i, widths[i] if i < last else 0)
            if i:
                level.append(Resized(widths[i], widths[i - 1], larger=True))
            up.append(nn.ModuleList(level))
        self.down_blocks, self.up_blocks = nn.ModuleList(down), nn.ModuleList(up)
        put(self, "clf.1", nn.Conv2d(widths[0], 2 * c.c_out * c.patch_size**2, 1))

    @staticmethod
    def _level(c: WuerstchenDiffNeXtConfig, i: int, joined: int) -> list[nn.Module]:
        """The blocks of a level; `joined`: the channels that join its first one."""
        width = c.c_hidden[i]
        blocks: list[nn.Module] = []
        for j in range(c.blocks[i]):
            for k, kind in enumerate(c.level_config[i]):
                skipped = (joined if j == k == 0 else 0) + (c.c_cond if c.inject_effnet[i] else 0)
                if kind == "C":
                    blocks.append(Mixer(width, skipped, c.kernel_size, late=True))
                elif kind == "A":
                    blocks.append(Reader(width, c.c_cond, c.nhead[i]))
                elif kind == "T":
                    blocks.append(ByTime(width, c.c_r))
                else:
                    raise FormatError(
                        f"config.json: level_config has {brief(kind)}; supported: C, T, A"
                    )
        return blocks

    def forward(
        self,
        hidden_states: Tensor,
        timestep: Tensor,
        encoder_hidden_states: Tensor,
        effnet: Tensor,
    ) -> Tensor:
        """The noise in latents (batch, c_in, height, width).

        `hidden_states`: the latents. `timestep`: (batch,), the share of noise, from 1 to 0.
        `encoder_hidden_states`: CLIP's states of the prompt (batch, words, clip_embd). `effnet`:
        the prior's latents (batch, effnet_embd, h, w).
        """
        get: Any = self.get_submodule
        size, count = self.config.patch_size, len(self.down_blocks)
        texts = plain_norm(self.clip_mapper(encoder_hidden_states), _EPS)
        time = ratio_waves(timestep, self.config.c_r).to(hidden_states.dtype)
        x = channel_norm(get("embedding.1")(pixel_unshuffle(hidden_states, size)))
        levels: list[Tensor] = []
        for i, level in enumerate(self.down_blocks):
            x = self._through(level, x, i, (time, texts, effnet), None)
            levels.insert(0, x)
        x = levels[0]
        for i, level in enumerate(self.up_blocks):
            joined = levels[i] if i else None
            x = self._through(level, x, count + i, (time, texts, effnet), joined)
        y = pixel_shuffle(get("clf.1")(channel_norm(x)), size)
        mean, share = y.chunk(2, 1)
        return (hidden_states - mean) / (share.sigmoid() * (1 - 2e-3) + 1e-3)

    def _through(
        self,
        level: nn.Module,
        x: Tensor,
        i: int,
        conditions: tuple[Tensor, Tensor, Tensor],
        joined: Tensor | None,
    ) -> Tensor:
        """x after a level; i: the number of its mapper; joined: what joins its first block."""
        time, texts, effnet = conditions
        injected: Tensor | None = None
        for j, block in enumerate(level.children()):
            if not isinstance(block, Mixer):
                x = through([block], x, time, texts)
                continue
            skips = [joined] if joined is not None and j == 0 else []
            if hasattr(self, "effnet_mappers") and hasattr(self.effnet_mappers, str(i)):
                if injected is None:
                    mapper: Any = self.effnet_mappers.get_submodule(str(i))
                    resized = interpolate(
                        effnet.to(float32),
                        size=tuple(x.shape[2:]),
                        mode="bicubic",
                        align_corners=True,
                        antialias=True,
                    )
                    injected = mapper(resized.to(effnet.dtype))
                skips.append(injected)
            x = block(x, cat(skips, 1) if skips else None)
        return x
