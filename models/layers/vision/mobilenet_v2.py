"""MobileNetV2's network: inverted residuals (Sandler et al., 2018), in transformers' names."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm, divisible
from rushlight.models.layers.vision.model import ImageModel

WIDTHS = (16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320)
STRIDES = (2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
STEM, HEAD = 32, 1280


def widths_of(c: Any) -> tuple[int, list[int], int]:
    """The widths of the stem, of the layers and of the last convolution."""

    def width(n: int) -> int:
        return divisible(round(n * c.depth_multiplier), c.depth_divisible_by, c.min_depth)

    head = HEAD if c.finegrained_output and c.depth_multiplier < 1 else width(HEAD)
    return width(STEM), [width(n) for n in WIDTHS], head


class MobileNetV2(ImageModel):
    """MobileNetV2 (Sandler et al., 2018)."""

    def __init__(self, c: Any, labels: tuple[str, ...]) -> None:
        self.config, self.labels = c, labels
        stem, widths, head = widths_of(c)
        base = "mobilenet_v2."
        put(self, f"{base}conv_stem.first_conv", _conv(c, c.num_channels, stem, 3, 2))
        if not c.first_layer_is_expansion:
            put(self, f"{base}conv_stem.expand_1x1", _conv(c, stem, stem, 1))
        put(self, f"{base}conv_stem.conv_3x3", _conv(c, stem, stem, 3, groups=stem))
        put(self, f"{base}conv_stem.reduce_1x1", _conv(c, stem, widths[0], 1, act=""))
        now, dilation, layers = 2, 1, []
        for before, after, stride in zip(widths, widths[1:], STRIDES, strict=False):
            here = 1
            if now == c.output_stride:  # later strides become dilations
                here, dilation, stride = dilation, dilation * stride, 1
            else:
                now *= stride
            layers.append(InvertedResidual(c, before, after, stride, here))
        put(self, f"{base}layer", nn.ModuleList(layers))
        put(self, f"{base}conv_1x1", _conv(c, widths[-1], head, 1))
        if labels:
            put(self, "classifier", nn.Linear(head, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        base: Any = self.mobilenet_v2
        x = self.checked(pixels, self.config.num_channels)
        stem = base.conv_stem
        x = stem.first_conv(x)
        if not self.config.first_layer_is_expansion:
            x = stem.expand_1x1(x)
        x = stem.reduce_1x1(stem.conv_3x3(x))
        for layer in base.layer:
            x = layer(x)
        out: Tensor = base.conv_1x1(x)
        return out


def _conv(
    c: Any,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    act: str | None = None,
) -> ConvNorm:
    return ConvNorm(
        inputs,
        outputs,
        kernel,
        stride,
        groups=groups,
        dilation=dilation,
        eps=c.layer_norm_eps,
        act=c.hidden_act if act is None else act,
        same=c.tf_padding,
    )


class InvertedResidual(nn.Module):
    """A convolution of each channel between one that widens and one that narrows."""

    def __init__(self, c: Any, inputs: int, outputs: int, stride: int, dilation: int) -> None:
        wide = divisible(round(inputs * c.expand_ratio), c.depth_divisible_by, c.min_depth)
        self.expand_1x1 = _conv(c, inputs, wide, 1)
        self.conv_3x3 = _conv(c, wide, wide, 3, stride, groups=wide, dilation=dilation)
        self.reduce_1x1 = _conv(c, wide, outputs, 1, act="")
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.reduce_1x1(self.conv_3x3(self.expand_1x1(x)))
        return x + y if self.adds else y
