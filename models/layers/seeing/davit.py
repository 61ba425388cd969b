"""DaViT (Ding et al., 2022): attention within windows and between channels, for Florence-2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.windows import filled, joined, parted


@dataclass(frozen=True)
class DavitSpec:
    """Stages by their widths, layers, heads and groups of channels; kernels of what comes first.

    kernels: (side, stride, padding, whether the norm is before) of each stage.
    """

    widths: Sequence[int]
    layers: Sequence[int]
    heads: Sequence[int]
    groups: Sequence[int]
    kernels: Sequence[tuple[int, int, int, bool]]
    window: int
    channels: int = 3
    ratio: float = 4.0
    bias: bool = True
    act: str = "gelu"

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The sides of the last map of a picture."""
        for side, stride, padding, _ in self.kernels:
            height, width = ((n + 2 * padding - side) // stride + 1 for n in (height, width))
        return height, width


class _Attention(nn.Module):
    def __init__(self, width: int, bias: bool) -> None:
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias), nn.Linear(width, width)

    def split(self, x: Tensor, parts: int) -> list[Tensor]:
        """q, k and v (batch, parts, tokens, features) of x (batch, tokens, width)."""
        batch, tokens, _ = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, parts, -1).permute(2, 0, 3, 1, 4)
        return [qkv[i] for i in range(3)]


class _Block(nn.Module):
    """Convolutions of each channel before attention and before the MLP."""

    def __init__(self, spec: DavitSpec, stage: int, windows: bool) -> None:
        self.spec, self.stage, width = spec, stage, spec.widths[stage]
        self.name = "window_attn" if windows else "channel_attn"
        for number in (1, 2):
            put(self, f"conv{number}", nn.Conv2d(width, width, 3, padding=1, groups=width))
            put(self, f"norm{number}", nn.LayerNorm(width))
        put(self, self.name, _Attention(width, spec.bias))
        inner = int(width * spec.ratio)
        put(self, "ffn.fc1", nn.Linear(width, inner))
        put(self, "ffn.fc2", nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width of the map) -> the same."""
        net: Any = self
        for conv, norm, part in (
            (net.conv1, net.norm1, self._attend),
            (net.conv2, net.norm2, None),
        ):
            x = (conv(x) + x).permute(0, 2, 3, 1)
            y = norm(x)
            if part is None:
                y = net.ffn.fc2(ACTIVATIONS[self.spec.act](net.ffn.fc1(y)))
            else:
                y = part(y)
            x = (x + y).permute(0, 3, 1, 2)
        return x

    def _attend(self, x: Tensor) -> Tensor:
        attention: Any = self.get_submodule(self.name)
        batch, tall, wide, width = x.shape
        if self.name == "channel_attn":
            q, k, v = attention.split(x.reshape(batch, -1, width), self.spec.groups[self.stage])
            q, k, v = (t.transpose(2, 3) for t in (q, k, v))
            seen = scaled_dot_product_attention(q, k, v, scale=(tall * wide) ** -0.5)
            out: Tensor = attention.proj(seen.permute(0, 3, 1, 2).reshape(x.shape))
            return out
        n = self.spec.window
        x = filled(x, n)
        grid = x.shape[1], x.shape[2]
        q, k, v = attention.split(parted(x, n).flatten(1, 2), self.spec.heads[self.stage])
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, n, n, width)
        whole: Tensor = joined(attention.proj(seen), grid)[:, :tall, :wide]
        return whole


class _Embed(nn.Module):
    """A convolution that makes the map of a stage, with a norm before or after it."""

    def __init__(self, spec: DavitSpec, stage: int) -> None:
        side, stride, padding, self.before = spec.kernels[stage]
        inside = spec.widths[stage - 1] if stage else spec.channels
        width = spec.widths[stage]
        self.conv = nn.Conv2d(inside, width, side, stride, padding)
        self.norm = nn.LayerNorm(inside if self.before else width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> the map of the stage."""

        def normed(x: Tensor) -> Tensor:
            y: Tensor = self.norm(x.permute(0, 2, 3, 1))
            return y.permute(0, 3, 1, 2)

        x = self.conv(normed(x) if self.before else x)
        return x if self.before else normed(x)


class Davit(nn.Module):
    """Pixels (batch, channels, height, width) -> the last map (batch, width, height, width)."""

    def __init__(self, spec: DavitSpec) -> None:
        self.spec, stages = spec, range(len(spec.widths))
        self.convs = nn.ModuleList([_Embed(spec, i) for i in stages])
        self.blocks = nn.ModuleList([nn.ModuleList[nn.Module]() for _ in stages])
        for i in stages:
            for j in range(spec.layers[i]):
                put(self, f"blocks.{i}.{j}.spatial_block", _Block(spec, i, True))
                put(self, f"blocks.{i}.{j}.channel_block", _Block(spec, i, False))

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels
        for i, conv in enumerate(self.convs):
            x = conv(x)
            for j in range(self.spec.layers[i]):
                layer: Any = self.get_submodule(f"blocks.{i}.{j}")
                x = layer.channel_block(layer.spatial_block(x))
        return x
