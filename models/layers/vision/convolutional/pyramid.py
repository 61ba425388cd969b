"""RT-DETR's encoder (Zhao et al., 2023): attention in the smallest picture, and a pyramid."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec
from rushlight.models.layers.vision.conv import ConvNorm, activation

_NAMES = ("conv", "norm")
_BLOCKS = 3


class _Joint(nn.Module):
    """Two pictures joined: convolutions beside a shortcut, three of them twice."""

    def __init__(self, c: Any, inputs: int, inner: int, width: int, blocks: int = _BLOCKS) -> None:
        act, eps = c.activation_function, c.batch_norm_eps

        def conv(inputs: int, outputs: int, kernel: int, act: str) -> ConvNorm:
            return ConvNorm(inputs, outputs, kernel, act=act, eps=eps, names=_NAMES)

        self.conv1, self.conv2 = conv(inputs, inner, 1, act), conv(inputs, inner, 1, act)
        for i in range(blocks):
            put(self, f"bottlenecks.{i}.conv1", conv(inner, inner, 3, ""))
            put(self, f"bottlenecks.{i}.conv2", conv(inner, inner, 1, ""))
        self.conv3 = conv(inner, width, 1, act) if inner != width else nn.Identity()
        self.act = activation(act)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(x)
        for block in self.get_submodule("bottlenecks").children():
            y = self.act(block.get_submodule("conv1")(y) + block.get_submodule("conv2")(y))
        out: Tensor = self.conv3(y + self.conv2(x))
        return out


class _Aggregated(nn.Module):
    """Two pictures joined as D-FINE does (Peng et al., 2024): each step's result is kept."""

    def __init__(self, c: Any) -> None:
        wide = c.encoder_hidden_dim
        inner, eps = int(c.hidden_expansion * wide // 2), c.batch_norm_eps
        blocks = round(_BLOCKS * c.depth_mult)
        for i, (inputs, outputs, kernel) in enumerate(
            ((2 * wide, 2 * wide, 1), (inner, inner, 3), (inner, inner, 3),
             (2 * (wide + inner), wide, 1)), 1
        ):  # fmt: skip
            conv = ConvNorm(inputs, outputs, kernel, act="silu", eps=eps, names=_NAMES)
            put(self, f"conv{i}", conv)
        self.csp_rep1 = _Joint(c, wide, inner, inner, blocks)
        self.csp_rep2 = _Joint(c, inner, inner, inner, blocks)

    def forward(self, x: Tensor) -> Tensor:
        of = self.get_submodule
        both = of("conv1")(x)
        first = of("conv2")(self.csp_rep1(both.chunk(2, 1)[1]))
        second = of("conv3")(self.csp_rep2(first))
        out: Tensor = of("conv4")(cat([both, first, second], 1))
        return out


class _Smaller(nn.Module):
    """A convolution of 1, and one of each channel at half of the size."""

    def __init__(self, wide: int, eps: float) -> None:
        self.conv1 = ConvNorm(wide, wide, 1, act="", eps=eps, names=_NAMES)
        self.conv2 = ConvNorm(wide, wide, 3, 2, act="", groups=wide, eps=eps, names=_NAMES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv2(self.conv1(x))
        return out


class HybridEncoder(nn.Module):
    """Pictures of `count` sizes, the largest first, joined downwards and upwards.

    c: RT-DETR's configuration, or D-FINE's, which has `depth_mult`.
    """

    def __init__(self, c: Any, count: int) -> None:
        self.config, wide = c, c.encoder_hidden_dim
        for i in range(len(c.encode_proj_layers)):
            spec = QuerySpec(
                wide,
                c.encoder_attention_heads,
                c.encoder_ffn_dim,
                c.encoder_activation_function,
                c.layer_norm_eps,
                before=c.normalize_before,
            )
            layers = [Layer(spec) for _ in range(c.encoder_layers)]
            put(self, f"encoder.{i}.layers", nn.ModuleList(layers))
        fine = hasattr(c, "depth_mult")
        act, inner = "" if fine else c.activation_function, int(wide * c.hidden_expansion)
        for name, blocks, kernel, stride in (
            ("lateral_convs", "fpn_blocks", 1, 1),
            ("downsample_convs", "pan_blocks", 3, 2),
        ):
            for i in range(count - 1):
                conv = ConvNorm(
                    wide, wide, kernel, stride, act=act, eps=c.batch_norm_eps, names=_NAMES
                )
                small = _Smaller(wide, c.batch_norm_eps) if fine and stride == 2 else conv
                put(self, f"{name}.{i}", small)
                joint = _Aggregated(c) if fine else _Joint(c, 2 * wide, inner, wide)
                put(self, f"{blocks}.{i}", joint)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """maps: (batch, channels, height, width), each half as large as the one before."""
        maps = list(maps)
        for i, level in enumerate(self.config.encode_proj_layers):
            x = maps[level]
            grid, places = (x.shape[2], x.shape[3]), None
            if self.config.eval_size is None:
                theta = self.config.positional_encoding_temperature
                places = _places(grid, x.shape[1], theta, x)
            flat = x.flatten(2).transpose(1, 2)
            for layer in self.get_submodule(f"encoder.{i}.layers").children():
                flat = layer(flat, places)
            maps[level] = flat.transpose(1, 2).reshape(x.shape)
        small = [maps[-1]]
        for i in range(len(maps) - 1):
            small[-1] = self.get_submodule(f"lateral_convs.{i}")(small[-1])
            large = interpolate(small[-1], scale_factor=2.0, mode="nearest")
            both = cat([large, maps[len(maps) - 2 - i]], 1)
            small.append(self.get_submodule(f"fpn_blocks.{i}")(both))
        small.reverse()
        maps_up = [small[0]]
        for i in range(len(maps) - 1):
            down = self.get_submodule(f"downsample_convs.{i}")(maps_up[-1])
            both = cat([down, small[i + 1]], 1)
            maps_up.append(self.get_submodule(f"pan_blocks.{i}")(both))
        return maps_up


def _places(grid: tuple[int, int], width: int, theta: float, like: Tensor) -> Tensor:
    """Sines and cosines of the rows, then of the columns (1, places, width)."""
    quarter = width // 4
    bands = (arange(quarter, device=like.device).float() * (-math.log(theta) / quarter)).exp()
    parts = []
    for i, n in enumerate(grid):
        angles = arange(n, device=like.device).float().unsqueeze(1) * bands
        angles = angles.unsqueeze(1 - i).expand(*grid, quarter)
        parts += [angles.sin(), angles.cos()]
    return cat(parts, -1).reshape(1, grid[0] * grid[1], 4 * quarter).to(like.dtype)
