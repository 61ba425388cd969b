"""HGNet version 2 (Peng et al., 2024): layers whose results are all joined."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm


class _Affine(nn.Module):
    def __init__(self) -> None:
        self.scale, self.bias = parameter(1), parameter(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x + self.bias


class _Conv(ConvNorm):
    """A convolution with its norm and activation, and a scale and an offset of all channels."""

    def __init__(self, *sizes: int, affine: bool, act: str = "relu", groups: int = 1) -> None:
        super().__init__(*sizes, act=act, groups=groups)
        self.lab = _Affine() if affine and act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lab(super().forward(x))
        return out


class _Block(nn.Module):
    def __init__(self, c: Any, stage: int, inputs: int, first: bool) -> None:
        affine, middle = c.use_learnable_affine_block, c.stage_mid_channels[stage]
        outputs, kernel = c.stage_out_channels[stage], c.stage_kernel_size[stage]
        count, self.first = c.stage_numb_of_layers[stage], first
        for i in range(count):
            before = middle if i else inputs
            if c.stage_light_block[stage]:
                plain = _Conv(before, middle, 1, affine=affine, act="")
                put(self, f"layers.{i}.conv1", plain)
                deep = _Conv(middle, middle, kernel, affine=affine, groups=middle)
                put(self, f"layers.{i}.conv2", deep)
            else:
                put(self, f"layers.{i}", _Conv(before, middle, kernel, affine=affine))
        sizes = inputs + count * middle, outputs // 2, outputs
        self.aggregation = nn.Sequential(
            *[_Conv(a, b, 1, affine=affine) for a, b in zip(sizes, sizes[1:], strict=False)]
        )

    def forward(self, x: Tensor) -> Tensor:
        made = [x]
        for layer in self.get_submodule("layers").children():
            steps = [layer] if isinstance(layer, _Conv) else list(layer.children())
            y = made[-1]
            for step in steps:
                y = step(y)
            made.append(y)
        joined: Tensor = self.aggregation(cat(made, 1))
        return joined if self.first else joined + x


class HGNet(nn.Module):
    """Pixels -> what the stem and each stage make, under transformers' names."""

    def __init__(self, c: Any) -> None:
        affine, act, (first, half, last) = (
            c.use_learnable_affine_block,
            c.hidden_act,
            c.stem_channels,
        )
        sizes = {
            "stem1": (first, half, 3),
            "stem2a": (half, half // 2, 2),
            "stem2b": (half // 2, half, 2),
            "stem3": (2 * half, half, 3),
            "stem4": (half, last, 1),
        }
        for (name, size), stride in zip(sizes.items(), c.stem_strides, strict=True):
            put(self, f"embedder.{name}", _Conv(*size, stride, affine=affine, act=act))
        for i, inputs in enumerate(c.stage_in_channels):
            if c.stage_downsample[i]:
                smaller = _Conv(
                    inputs, inputs, 3, c.stage_downsample_strides[i], affine=False, act="",
                    groups=inputs,
                )  # fmt: skip
                put(self, f"encoder.stages.{i}.downsample", smaller)
            for j in range(c.stage_num_blocks[i]):
                block = _Block(c, i, c.stage_out_channels[i] if j else inputs, j == 0)
                put(self, f"encoder.stages.{i}.blocks.{j}", block)

    def forward(self, pixels: Tensor) -> list[Tensor]:
        stem: Any = self.get_submodule("embedder")
        x = pad(stem.stem1(pixels), (0, 1, 0, 1))
        small = stem.stem2b(pad(stem.stem2a(x), (0, 1, 0, 1)))
        x = cat([max_pool2d(x, 2, 1, ceil_mode=True), small], 1)
        maps = [stem.stem4(stem.stem3(x))]
        for stage in self.get_submodule("encoder.stages").children():
            x = maps[-1]
            for name, part in stage.named_children():
                for step in part.children() if name == "blocks" else [part]:
                    x = step(x)
            maps.append(x)
        return maps
