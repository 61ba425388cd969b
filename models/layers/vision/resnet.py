"""ResNet's stages of basic or bottleneck layers, and what timm's have besides."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.pooling import avg_pool2d, max_pool2d
from rushlight.core.ops.conv import conv2d
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm, activation
from rushlight.models.layers.vision.model import ImageModel


class _Squeeze(nn.Module):
    """Channels by their share of a mean: two products (Hu et al., 2017), or one convolution over
    `near` channels (Wang et al., 2019).
    """

    def __init__(self, width: int, inner: int, near: int) -> None:
        if near:
            self.conv = nn.Conv1d(1, 1, near, padding=near // 2, bias=False)
        else:
            self.fc1, self.fc2 = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)
        self.near = near

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((2, 3), keepdim=True)
        if self.near:
            share = self.conv(mean.flatten(2).transpose(1, 2)).transpose(1, 2).unsqueeze(3)
        else:
            share = self.fc2(relu(self.fc1(mean)))
        weighed: Tensor = x * share.sigmoid()
        return weighed


def smoothed(x: Tensor, how: str) -> Tensor:
    """x at half of its size: means of squares, or a binomial filter (Zhang, 2019)."""
    if how == "mean":
        return avg_pool2d(x, 2, 2)
    row = tensor([0.25, 0.5, 0.25], dtype=x.dtype, device=x.device)
    kernel = (row.unsqueeze(1) * row).expand(x.shape[1], 1, 3, 3)
    return conv2d(pad(x, (1, 1, 1, 1), "reflect"), kernel, stride=2, groups=x.shape[1])


class Layer(nn.Module):
    """Two convolutions of 3, or three of 1, 3 and 1 with `inner` channels; and a shortcut."""

    def __init__(
        self, inputs: int, inner: int, outputs: int, stride: int, c: Any, share: tuple[int, int]
    ) -> None:
        deep = c.layer_type == "bottleneck"
        early = deep and c.downsample_in_bottleneck  # the stride is in the first convolution
        block_stride, self.smooth = stride, c.smooth if stride > 1 else ""
        stride = 1 if self.smooth else stride
        if deep:
            parts = [
                ConvNorm(inputs, inner, 1, stride if early else 1),
                ConvNorm(inner, inner, 3, 1 if early else stride, groups=c.groups),
                ConvNorm(inner, outputs, 1, act=""),
            ]
        else:
            parts = [ConvNorm(inputs, inner, 3, stride), ConvNorm(inner, inner, act="")]
        self.layer = nn.Sequential(*parts)
        self.at = len(parts) - 2  # the convolution with the stride
        self.squeezed = any(share)
        if self.squeezed:
            self.squeeze = _Squeeze(outputs, *share)
        plain = inputs == outputs and block_stride == 1
        self.pool = block_stride if c.pooled_shortcut else 1
        self.shortcut = (
            nn.Identity()
            if plain
            else ConvNorm(inputs, outputs, 1, 1 if c.pooled_shortcut else block_stride, act="")
        )
        self.act = activation(c.hidden_act)  # of the sum; inside it is relu

    def forward(self, x: Tensor) -> Tensor:
        short = x
        if self.pool > 1:
            short = avg_pool2d(x, 2, self.pool, ceil_mode=True, count_include_pad=False)
        for i, layer in enumerate(self.layer):
            x = layer(x)
            x = smoothed(x, self.smooth) if self.smooth and i == self.at else x
        x = self.squeeze(x) if self.squeezed else x
        out: Tensor = self.act(x + self.shortcut(short))
        return out


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
        positive = all(type(n) is int and n > 0 for n in (*inner, c.groups))
        if len(inner) != len(c.depths) or not positive or any(n % c.groups for n in inner):
            raise FormatError(f"config.json: inner_sizes {inner} do not fit groups {c.groups}")
        none = [0] * len(inner)
        shares = list(zip(c.squeezed or none, c.squeezed_near or none, strict=True))
        stem = _stem(c)
        put(self, "resnet.embedder.embedder", stem)
        if c.pool == "conv":
            width = c.embedding_size
            put(self, "resnet.embedder.pooler", ConvNorm(width, width, 3, 2, act=c.hidden_act))
        before, first = c.embedding_size, 2 if c.downsample_in_first_stage else 1
        for i, (width, depth) in enumerate(zip(c.hidden_sizes, c.depths, strict=True)):
            layers = []
            for j in range(depth):
                stride = (2 if i else first) if j == 0 else 1
                layers.append(Layer(before, inner[i], width, stride, c, shares[i]))
                before = width
            put(self, f"resnet.encoder.stages.{i}.layers", nn.Sequential(*layers))
        if labels:
            put(self, "classifier.1", nn.Linear(before, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, channels, height, width) after the last stage."""
        pixels = self.checked(pixels, self.config.num_channels)
        return stages(self.resnet, pixels, self.config.pool)[-1]


def _stem(c: Any) -> nn.Module:
    """One convolution of 7, or three of 3 with the channels of `deep_stem` between them."""
    if not c.deep_stem:
        return ConvNorm(c.num_channels, c.embedding_size, 7, 2, act=c.hidden_act)
    widths = [c.num_channels, *c.deep_stem, c.embedding_size]
    return nn.Sequential(
        *(
            ConvNorm(a, b, 3, 1 if i else 2, act=c.hidden_act)
            for i, (a, b) in enumerate(zip(widths, widths[1:], strict=False))
        )
    )


def stages(net: nn.Module, pixels: Tensor, pool: str = "max") -> list[Tensor]:
    """What the stem and each stage of `net`, a ResNet's inner module, make of pixels.

    pool: what follows the stem: "max", "conv", or the mean or a filter of `smoothed`, "mean" of the
    stem and "blur" of the largest of places.
    """
    x = net.get_submodule("embedder.embedder")(pixels)
    if pool == "conv":
        x = net.get_submodule("embedder.pooler")(x)
    elif pool == "max":
        x = max_pool2d(x, 3, 2, 1)
    else:
        x = smoothed(max_pool2d(x, 3, 1, 1) if pool == "blur" else x, pool)
    maps: list[Tensor] = [x]
    for stage in net.get_submodule("encoder.stages").children():
        maps.append(stage.get_submodule("layers")(maps[-1]))
    return maps
