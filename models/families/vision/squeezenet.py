"""SqueezeNet (Iandola et al., 2016), versions 1.0 and 1.1."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, numbered_classes

_FIRE = re.compile(r"features\.(\d{1,3})\.squeeze\.weight")


@dataclass
class Config:
    """The keys of a config.json. fires: [number, inputs, squeezed, expanded] of each."""

    fires: list[Any]
    stem: int
    kernel: int
    num_labels: int = 1000
    model_type: str = "squeezenet"


class _Fire(nn.Module):
    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = relu(self.squeeze(x))
        return cat([relu(self.expand1x1(x)), relu(self.expand3x3(x))], 1)


class SqueezeNet(ImageModel):
    """SqueezeNet under torchvision's names. Where the numbers leave a gap there is a pool."""

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        put(self, "features.0", nn.Conv2d(3, c.stem, c.kernel, 2))
        width = c.stem
        for number, inputs, squeezed, expanded in c.fires:
            put(self, f"features.{number}", _Fire(inputs, squeezed, expanded))
            width = 2 * expanded
        put(self, "classifier.1", nn.Conv2d(width, c.num_labels, 1))

    def hidden(self, pixels: Tensor) -> Tensor:
        x: Tensor = relu(self.get_submodule("features.0")(self.checked(pixels)))
        before = 1
        for number, *_ in self.config.fires:
            if number > before + 1:
                x = max_pool2d(x, 3, 2, ceil_mode=True)
            x = self.get_submodule(f"features.{number}")(x)
            before = number
        return x

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = relu(self.get_submodule("classifier.1")(self.hidden(pixels))).mean((2, 3))
        return logits


def build(config: dict[str, Any], names: Collection[str]) -> SqueezeNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    for fire in c.fires:
        if not (isinstance(fire, list) and len(fire) == 4 and all(type(n) is int for n in fire)):
            raise FormatError(f"config.json: fires has {fire!r:.60}, which is no module")
    return SqueezeNet(c)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision."""
    numbers = sorted(int(m[1]) for n in tensors if (m := _FIRE.fullmatch(n)))
    try:
        stem, last = (tensors[n].shape for n in ("features.0.weight", "classifier.1.weight"))
        fires = []
        for number in numbers:
            squeezed, inputs = tensors[f"features.{number}.squeeze.weight"].shape[:2]
            expanded = tensors[f"features.{number}.expand3x3.weight"].shape[0]
            fires.append([number, inputs, squeezed, expanded])
    except (KeyError, ValueError):
        raise FormatError("the checkpoint is no SqueezeNet of torchvision") from None
    return {
        "model_type": "squeezenet",
        "fires": fires,
        "stem": stem[0],
        "kernel": stem[2],
        "num_labels": last[0],
    }


FAMILY = Family(
    model_types=("squeezenet",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    tensors=("features.3.squeeze.weight",),
    config_of=config_of,
)
