"""BiT's ResNet (Kolesnikov et al., 2019), with norms after or before standardized convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.ops.conv import conv2d
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import divisible, padded_same

_EPS = 1e-8  # of a kernel's variance
_SHARE = 0.25  # of a layer's channels that are within


@dataclass
class Config:
    """The keys of transformers' configuration of BiT, as a backbone."""

    num_channels: int = 3
    embedding_size: int = 64
    hidden_sizes: list[int] = field(default_factory=lambda: [256, 512, 1024, 2048])
    depths: list[int] = field(default_factory=lambda: [3, 4, 6, 3])
    layer_type: str = "preactivation"
    hidden_act: str = "relu"
    global_padding: str | None = None
    num_groups: int = 32
    drop_path_rate: float = 0.0
    embedding_dynamic_padding: bool = False
    output_stride: int = 32
    width_factor: int = 1
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    stage_names: list[Any] | None = None
    model_type: str = "bit"


class StdConv(nn.Conv2d):
    """A convolution of a kernel whose outputs have mean 0 and variance 1 each (Qiao et al., 2019).

    same: with TensorFlow's padding, whose odd rest is below and at the right.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, same: bool) -> None:
        around = 0 if same else (stride - 1 + kernel - 1) // 2
        super().__init__(inputs, outputs, kernel, stride, around, bias=False)
        self.same = (kernel, stride) if same else None

    def forward(self, x: Tensor) -> Tensor:
        x = padded_same(x, *self.same) if self.same is not None else x
        kernel = self.weight.flatten(1)
        kernel = kernel - kernel.mean(1, keepdim=True)
        kernel = kernel / (kernel.square().mean(1, keepdim=True) + _EPS).sqrt()
        kernel = kernel.reshape(self.weight.shape)
        return conv2d(x, kernel, None, self.stride, self.padding)


class _Layer(nn.Module):
    def __init__(self, c: Config, inputs: int, outputs: int, stride: int, first: bool) -> None:
        inner, same = divisible(outputs * _SHARE), c.global_padding is not None
        widths, steps = (inputs, inner, inner, outputs), (1, stride, 1)
        self.before = c.layer_type == "preactivation"
        for i, kernel in enumerate((1, 3, 1)):
            conv = StdConv(widths[i], widths[i + 1], kernel, steps[i], same)
            put(self, f"conv{i + 1}", conv)
            normed = widths[i if self.before else i + 1]
            put(self, f"norm{i + 1}", nn.GroupNorm(c.num_groups, normed))
        if first:
            put(self, "downsample.conv", StdConv(inputs, outputs, 1, stride, same))
            if not self.before:
                put(self, "downsample.norm", nn.GroupNorm(c.num_groups, outputs))
        self.first, self.act = first, ACTIVATIONS[c.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        short = x
        if self.before:
            for i in (1, 2, 3):
                x = self.act(self.get_submodule(f"norm{i}")(x))
                if i == 1 and self.first:
                    short = self.get_submodule("downsample.conv")(x)
                x = self.get_submodule(f"conv{i}")(x)
            return x + short
        if self.first:
            side: Any = self.get_submodule("downsample")
            short = side.norm(side.conv(x))
        for i in (1, 2, 3):
            x = self.get_submodule(f"norm{i}")(self.get_submodule(f"conv{i}")(x))
            x = self.act(x) if i < 3 else x
        return self.act(x + short)


class Bit(nn.Module):
    """Pixels (batch, channels, height, width) -> the stem's map and each stage's."""

    def __init__(self, c: Config) -> None:
        count, sizes = len(c.depths), c.hidden_sizes[: len(c.depths)]
        sizes_fit = all(type(n) is int and 1 <= n <= 1 << 12 for n in (*c.depths, *sizes))
        if (
            not sizes_fit
            or not 1 <= count == len(sizes) <= 8
            or sum(c.depths) > 1024
            or (c.num_groups < 1 or c.output_stride < 1 << (count + 1))
        ):
            raise FormatError(
                f"config.json: backbone_config: depths {c.depths}, hidden_sizes {c.hidden_sizes} "
                f"or output_stride {c.output_stride} is not supported; strides grow to the end"
            )
        self.config, before = c, c.embedding_size
        same = c.global_padding is not None
        put(self, "embedder.convolution", StdConv(c.num_channels, before, 7, 2, same))
        if c.layer_type != "preactivation":
            put(self, "embedder.norm", nn.GroupNorm(c.num_groups, before))
        self.widths = [before]
        for i, (depth, size) in enumerate(zip(c.depths, sizes, strict=True)):
            layers = []
            width = divisible(size * c.width_factor)
            for j in range(depth):
                stride = 2 if i and not j else 1
                layers.append(_Layer(c, before, width, stride, j == 0))
                before = width
            put(self, f"encoder.stages.{i}.layers", nn.Sequential(*layers))
            self.widths.append(width)

    def forward(self, pixels: Tensor) -> Sequence[Tensor]:
        c, stem = self.config, self.get_submodule("embedder")
        x = stem.get_submodule("convolution")(pixels)
        if c.global_padding is None:
            x = pad(x, (1, 1, 1, 1))
        if c.layer_type != "preactivation":
            x = ACTIVATIONS[c.hidden_act](stem.get_submodule("norm")(x))
        # What is padded is 0, as the published code has it.
        x = padded_same(x, 3, 2) if c.embedding_dynamic_padding else x
        maps = [max_pool2d(x, 3, 2)]
        for stage in self.get_submodule("encoder.stages").children():
            maps.append(stage.get_submodule("layers")(maps[-1]))
        return maps
