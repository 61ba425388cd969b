"""DenseNet (Huang et al., 2016): every layer reads all layers of its block before it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import avg_pool2d, max_pool2d
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, numbered_classes

TENSORS = (
    "features.denseblock1.denselayer1.norm1.weight",
    "features.denseblock1.denselayer1.norm.1.weight",
)
_LAYER = re.compile(r"features\.denseblock(\d)\.denselayer(\d{1,3})\.")
_OLD = re.compile(r"(.*denselayer\d+\.(?:norm|conv))\.([12])\.(.*)")


@dataclass
class Config:
    """The keys of a config.json."""

    growth: int
    blocks: list[int]
    stem: int
    bottleneck: int = 4
    num_labels: int = 1000
    model_type: str = "densenet"


class _Layer(nn.Module):
    def __init__(self, inputs: int, c: Config) -> None:
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, c.bottleneck * c.growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(c.bottleneck * c.growth)
        self.conv2 = nn.Conv2d(c.bottleneck * c.growth, c.growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        new_channels: Tensor = self.conv2(relu(self.norm2(self.conv1(relu(self.norm1(x))))))
        return cat([x, new_channels], 1)


class DenseNet(ImageModel):
    """DenseNet under torchvision's names."""

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        put(self, "features.conv0", nn.Conv2d(3, c.stem, 7, 2, 3, bias=False))
        put(self, "features.norm0", nn.BatchNorm2d(c.stem))
        width = c.stem
        for i, count in enumerate(c.blocks, 1):
            for j in range(1, count + 1):
                put(self, f"features.denseblock{i}.denselayer{j}", _Layer(width, c))
                width += c.growth
            if i < len(c.blocks):
                put(self, f"features.transition{i}.norm", nn.BatchNorm2d(width))
                half = nn.Conv2d(width, width // 2, 1, bias=False)
                put(self, f"features.transition{i}.conv", half)
                width //= 2
        put(self, "features.norm5", nn.BatchNorm2d(width))
        if self.labels:
            self.classifier = nn.Linear(width, c.num_labels)

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule("features")
        x = max_pool2d(relu(net.norm0(net.conv0(self.checked(pixels)))), 3, 2, 1)
        for i in range(1, len(self.config.blocks) + 1):
            for layer in net.get_submodule(f"denseblock{i}").children():
                x = layer(x)
            if i < len(self.config.blocks):
                between = net.get_submodule(f"transition{i}")
                x = avg_pool2d(between.conv(relu(between.norm(x))), 2, 2)
        out: Tensor = relu(net.norm5(x))
        return out


def build(config: dict[str, Any], names: Collection[str]) -> DenseNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    if not c.blocks or not all(isinstance(n, int) and 1 <= n <= 999 for n in c.blocks):
        raise FormatError(f"config.json: blocks is {c.blocks!r:.60}; it must be numbers of layers")
    return DenseNet(c)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with the numbers of parts that older files spell with a dot."""
    return {_OLD.sub(r"\1\2.\3", name): t for name, t in tensors.items()}


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm."""
    by_name = rename_tensors(tensors)
    layers = {(int(m[1]), int(m[2])) for n in by_name if (m := _LAYER.match(n))}
    blocks = [
        sum(i == block for i, _ in layers)
        for block in range(1, 1 + max((i for i, _ in layers), default=0))
    ]
    first = "features.denseblock1.denselayer1.conv"
    try:
        stem, wide, grown = (
            by_name[n].shape
            for n in ("features.conv0.weight", f"{first}1.weight", f"{first}2.weight")
        )
    except KeyError:
        raise FormatError("the checkpoint is no DenseNet of torchvision or timm") from None
    classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
    if stem[2:] != (7, 7) or wide[0] % grown[0]:
        raise FormatError("the checkpoint is a kind of DenseNet that is not supported")
    return {
        "model_type": "densenet",
        "growth": grown[0],
        "blocks": blocks,
        "stem": stem[0],
        "bottleneck": wide[0] // grown[0],
        "num_labels": classes,
    }


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return config_of(tensors)


FAMILY = Family(
    model_types=("densenet",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("densenet",),
    timm_config=timm_config,
)
