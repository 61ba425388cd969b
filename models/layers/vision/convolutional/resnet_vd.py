"""ResNet-D (He et al., 2018), whose shortcuts average before they project, as RT-DETR has it."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm, activation


class _Layer(nn.Module):
    def __init__(self, c: Any, inputs: int, outputs: int, stride: int, first: bool) -> None:
        deep, plain = c.layer_type == "bottleneck", inputs == outputs
        inner = outputs // 4 if deep else outputs
        early = deep and c.downsample_in_bottleneck
        act = c.hidden_act if not deep else "relu"
        if deep:
            self.layer = nn.Sequential(
                ConvNorm(inputs, inner, 1, stride if early else 1, act=act),
                ConvNorm(inner, inner, 3, 1 if early else stride, act=act),
                ConvNorm(inner, outputs, 1, act=""),
            )
        else:
            self.layer = nn.Sequential(
                ConvNorm(inputs, inner, 3, stride), ConvNorm(inner, inner, act="")
            )
        self.shortcut: nn.Module = nn.Identity()
        averaged = stride == 2 if deep else first and not plain
        if averaged:
            pool = nn.AvgPool2d(2, 2, 0, ceil_mode=True)
            last = nn.Identity() if plain and stride == 1 else ConvNorm(inputs, outputs, 1, act="")
            self.shortcut = nn.Sequential(pool, last)
        elif first and not (deep and plain and stride == 1):
            self.shortcut = ConvNorm(inputs, outputs, 1, stride, act="")
        self.act = activation(c.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(self.layer(x) + self.shortcut(x))
        return out


class ResNetD(nn.Module):
    """Pixels -> what the stem and each stage make, under transformers' names."""

    def __init__(self, c: Any) -> None:
        half = c.embedding_size // 2
        widths = (c.num_channels, half, half, c.embedding_size)
        put(
            self,
            "embedder.embedder",
            nn.Sequential(
                *[
                    ConvNorm(widths[i], widths[i + 1], 3, 1 if i else 2, act=c.hidden_act)
                    for i in range(3)
                ]
            ),
        )
        before = c.embedding_size
        for i, (width, depth) in enumerate(zip(c.hidden_sizes, c.depths, strict=True)):
            stride = 2 if i or c.downsample_in_first_stage else 1
            layers = [_Layer(c, before, width, stride, True)]
            layers += [_Layer(c, width, width, 1, False) for _ in range(depth - 1)]
            put(self, f"encoder.stages.{i}.layers", nn.Sequential(*layers))
            before = width

    def forward(self, pixels: Tensor) -> list[Tensor]:
        maps = [max_pool2d(self.get_submodule("embedder.embedder")(pixels), 3, 2, 1)]
        for stage in self.get_submodule("encoder.stages").children():
            maps.append(stage.get_submodule("layers")(maps[-1]))
        return maps
