"""ResNet's stages of basic or bottleneck layers."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import avg_pool2d, max_pool2d
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm, activation
from rushlight.models.layers.vision.model import ImageModel


class Layer(nn.Module):
    """Two convolutions of 3, or three of 1, 3 and 1 with `inner` channels; and a shortcut."""

    def __init__(self, inputs: int, inner: int, outputs: int, stride: int, c: Any) -> None:
        deep = c.layer_type == "bottleneck"
        early = deep and c.downsample_in_bottleneck  # the stride is in the first convolution
        if deep:
            parts = [
                ConvNorm(inputs, inner, 1, stride if early else 1),
                ConvNorm(inner, inner, 3, 1 if early else stride, groups=c.groups),
                ConvNorm(inner, outputs, 1, act=""),
            ]
        else:
            parts = [ConvNorm(inputs, inner, 3, stride), ConvNorm(inner, inner, act="")]
        self.layer = nn.Sequential(*parts)
        plain = inputs == outputs and stride == 1
        self.pool = stride if c.pooled_shortcut else 1
        self.shortcut = nn.Identity() if plain else ConvNorm(
            inputs, outputs, 1, 1 if c.pooled_shortcut else stride, act=""
        )  # fmt: skip
        self.act = activation(c.hidden_act)  # of the sum; inside it is relu

    def forward(self, x: Tensor) -> Tensor:
        short = x
        if self.pool > 1:
            short = avg_pool2d(x, 2, self.pool, ceil_mode=True, count_include_pad=False)
        found: Tensor = self.act(self.layer(x) + self.shortcut(short))
        return found


class ResNet(ImageModel):
    """ResNet (He et al., 2015) under transformers' names."""

    classifier_path = "classifier.1"

    def __init__(self, c: Any, labels: tuple[str, ...]) -> None:
        if len(c.hidden_sizes) != len(c.depths) or not c.depths:
            raise FormatError(
                f"config.json: depths {c.depths} and hidden_sizes {c.hidden_sizes} differ in length"
            )
        self.config, self.labels = c, labels
        inner = c.inner_sizes or [
            n // 4 if c.layer_type == "bottleneck" else n for n in c.hidden_sizes
        ]
        whole = all(type(n) is int and n > 0 for n in (*inner, c.groups))
        if len(inner) != len(c.depths) or not whole or any(n % c.groups for n in inner):
            raise FormatError(f"config.json: inner_sizes {inner} do not fit groups {c.groups}")
        stem = _stem(c)
        put(self, "resnet.embedder.embedder", stem)
        before, first = c.embedding_size, 2 if c.downsample_in_first_stage else 1
        for i, (width, depth) in enumerate(zip(c.hidden_sizes, c.depths, strict=True)):
            layers = []
            for j in range(depth):
                stride = (2 if i else first) if j == 0 else 1
                layers.append(Layer(before, inner[i], width, stride, c))
                before = width
            put(self, f"resnet.encoder.stages.{i}.layers", nn.Sequential(*layers))
        if labels:
            put(self, "classifier.1", nn.Linear(before, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, channels, height, width) after the last stage."""
        return stages(self.resnet, self.checked(pixels, self.config.num_channels))[-1]


def _stem(c: Any) -> nn.Module:
    """One convolution of 7, or three of 3 with the channels of `deep_stem` between them."""
    if not c.deep_stem:
        return ConvNorm(c.num_channels, c.embedding_size, 7, 2, act=c.hidden_act)
    widths = [c.num_channels, *c.deep_stem, c.embedding_size]
    return nn.Sequential(*(
        ConvNorm(a, b, 3, 1 if i else 2, act=c.hidden_act)
        for i, (a, b) in enumerate(zip(widths, widths[1:], strict=False))
    ))  # fmt: skip


def stages(net: nn.Module, pixels: Tensor) -> list[Tensor]:
    """What the stem and each stage of `net`, a ResNet's inner module, make of pixels."""
    embedder = net.get_submodule("embedder.embedder")
    found: list[Tensor] = [max_pool2d(embedder(pixels), 3, 2, 1)]
    for stage in net.get_submodule("encoder.stages").children():
        found.append(stage.get_submodule("layers")(found[-1]))
    return found
