"""U2-Net (Qin et al., 2020): U-nets within a U-net find what an image is about."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.processor import Processor
from rushlight.models.layers.vision.model import ImageModel

# Depth of each stage; 0: four layers that keep the size, with dilations.
DEPTHS = {"stage1": 7, "stage2": 6, "stage3": 5, "stage4": 4, "stage5": 0, "stage6": 0,
          "stage5d": 0, "stage4d": 4, "stage3d": 5, "stage2d": 6, "stage1d": 7}  # fmt: skip
Widths = dict[str, tuple[int, int, int]]  # inputs, between, outputs
SMALL: Widths = {
    "stage1": (3, 16, 64),
    **{f"stage{i}": (64, 16, 64) for i in range(2, 7)},
    **{f"stage{i}d": (128, 16, 64) for i in range(5, 0, -1)},
}
FULL: Widths = {
    "stage1": (3, 32, 64),
    "stage2": (64, 32, 128),
    "stage3": (128, 64, 256),
    "stage4": (256, 128, 512),
    "stage5": (512, 256, 512),
    "stage6": (512, 256, 512),
    "stage5d": (1024, 256, 512),
    "stage4d": (1024, 128, 256),
    "stage3d": (512, 64, 128),
    "stage2d": (256, 32, 64),
    "stage1d": (128, 16, 64),
}


class Conv(nn.Module):
    """A 3x3 convolution, its norm, which fused checkpoints lack, and relu."""

    def __init__(self, inputs: int, outputs: int, dilation: int, fused: bool) -> None:
        self.conv_s1 = nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation)
        self.fused = fused
        if not fused:
            self.bn_s1 = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_s1(x)
        return relu(x if self.fused else self.bn_s1(x))


class Stage(nn.Module):
    """A U-net of `depth` layers whose result is added to its first convolution's."""

    def __init__(self, depth: int, widths: tuple[int, int, int], fused: bool) -> None:
        inputs, inner, outputs = widths
        self.flat, self.depth = depth == 0, depth or 4
        self.rebnconvin = Conv(inputs, outputs, 1, fused)
        for i in range(1, self.depth + 1):
            dilation = 2 ** (i - 1) if self.flat else 2 if i == self.depth else 1
            conv = Conv(outputs if i == 1 else inner, inner, dilation, fused)
            self.register_module(f"rebnconv{i}", conv)
        for i in range(self.depth - 1, 0, -1):
            dilation = 2 ** (i - 1) if self.flat else 1
            conv = Conv(2 * inner, outputs if i == 1 else inner, dilation, fused)
            self.register_module(f"rebnconv{i}d", conv)

    def forward(self, x: Tensor) -> Tensor:
        first = x = self.rebnconvin(x)
        seen: list[Tensor] = []
        for i in range(1, self.depth + 1):
            if seen and not self.flat and i < self.depth:
                x = halved(x)
            x = self.get_submodule(f"rebnconv{i}")(x)
            seen.append(x)
        for i in range(self.depth - 1, 0, -1):
            if not self.flat and i < self.depth - 1:
                x = resized(x, seen[i - 1])
            x = self.get_submodule(f"rebnconv{i}d")(cat([x, seen[i - 1]], 1))
        out: Tensor = x + first
        return out


class U2Net(ImageModel):
    """Pixels (batch, 3, height, width) -> logits (batch, 1, height, width) of the foreground."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, widths: Widths, fused: bool) -> None:
        self.config = config
        self.processor = Processor(
            size=(320, 320),
            filter="lanczos",
            scale=1 / 255,
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
        )
        for name, depth in DEPTHS.items():
            self.register_module(name, Stage(depth, widths[name], fused))
        sides = ("stage1d", "stage2d", "stage3d", "stage4d", "stage5d", "stage6")
        for i, name in enumerate(sides, 1):
            self.register_module(f"side{i}", nn.Conv2d(widths[name][2], 1, 3, padding=1))
        self.outconv = nn.Conv2d(6, 1, 1)

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, channels, height, width) of the last decoder."""
        return self._decoded(pixels)[0]

    def _decoded(self, pixels: Tensor) -> list[Tensor]:
        x = self.checked(pixels)
        seen: list[Tensor] = []
        for i in range(1, 7):
            x = self.get_submodule(f"stage{i}")(halved(x) if seen else x)
            seen.append(x)
        maps = [x]
        for i in range(5, 0, -1):
            joined = cat([resized(x, seen[i - 1]), seen[i - 1]], 1)
            x = self.get_submodule(f"stage{i}d")(joined)
            maps.insert(0, x)
        return maps

    def forward(self, pixels: Tensor) -> Tensor:
        sides = [self.get_submodule(f"side{i}")(x) for i, x in enumerate(self._decoded(pixels), 1)]
        joined = cat([sides[0], *(resized(s, sides[0]) for s in sides[1:])], 1)
        logits: Tensor = self.outconv(joined)
        return logits


def halved(x: Tensor) -> Tensor:
    """Half of the size, rounded up."""
    pooled: Tensor = max_pool2d(x, 2, 2, ceil_mode=True)
    return pooled


def resized(x: Tensor, like: Tensor) -> Tensor:
    """x at the height and width of `like`."""
    scaled: Tensor = interpolate(x, size=like.shape[2:], mode="bilinear")
    return scaled
