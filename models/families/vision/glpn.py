"""GLPN (Kim et al., 2022): depths that SegFormer's stages make, fused from the smallest on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import segformer
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.naming import put

ARCHITECTURES = ("GLPNForDepthEstimation",)


@dataclass
class Config(segformer.Config):
    """The keys of config.json."""

    decoder_hidden_size: int = 64
    max_depth: float = 10
    head_in_index: Any = -1
    model_type: str = "glpn"


class _Fusion(nn.Module):
    """Two maps, weighed at each place by what both show."""

    def __init__(self, width: int) -> None:
        for name, sizes in (("1", (2 * width, width)), ("2", (width, width // 2))):
            conv, norm = nn.Conv2d(*sizes, 3, padding=1), nn.BatchNorm2d(sizes[1])
            put(self, f"convolutional_layer{name}", nn.Sequential(conv, norm, nn.ReLU()))
        self.convolutional_layer3 = nn.Conv2d(width // 2, 2, 3, padding=1)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        shares = cat([x, other], 1)
        for layer in self.children():
            shares = layer(shares)
        shares = shares.sigmoid()
        return x * shares[:, :1] + other * shares[:, 1:]


class GLPN(segformer.Segformer):
    """Pixels -> meters (batch, height, width), in transformers' names."""

    base = "glpn"

    def __init__(self, c: Config) -> None:
        super().__init__(c, (), False)
        self.processor, width = KINDS["GLPN"], c.decoder_hidden_size
        for i, inputs in enumerate(reversed(c.hidden_sizes)):
            same = inputs == width
            conv = nn.Identity() if same else nn.Conv2d(inputs, width, 1)
            put(self, f"decoder.stages.{i}.convolution", conv)
            if i:
                put(self, f"decoder.stages.{i}.fusion", _Fusion(width))
        first, last = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        put(self, "head.head", nn.Sequential(first, nn.ReLU(), last))

    def forward(self, pixels: Tensor) -> Tensor:
        maps = self.maps(pixels)
        made: list[Tensor] = []
        stages = self.get_submodule("decoder.stages").children()
        for x, stage in zip(reversed(maps), stages, strict=True):
            parts: Any = stage
            x = parts.convolution(x)
            x = parts.fusion(x, made[-1]) if made else x
            made.append(interpolate(x, scale_factor=2.0, mode="bilinear"))
        made[-1] = interpolate(made[-1], scale_factor=2.0, mode="bilinear")
        c: Any = self.config
        depth = self.get_submodule("head.head")(made[c.head_in_index])
        out: Tensor = (depth.sigmoid() * c.max_depth)[:, 0]
        return out


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> GLPN:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    segformer.checked(c)
    count = len(c.hidden_sizes)
    choose("head_in_index", c.head_in_index, tuple(range(-count, count)))
    return GLPN(c)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of newer files under the names of the published ones."""
    old = {n.replace("glpn.", "segformer.", 1): t for n, t in tensors.items()}
    named = segformer.rename_tensors(old)
    return {n.replace("segformer.", "glpn.", 1): t for n, t in named.items()}


FAMILY = Family(
    model_types=("glpn",),
    tasks=("depth-estimation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
