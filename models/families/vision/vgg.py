"""VGG (Simonyan and Zisserman, 2014), with batch normalization or without."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import adaptive_avg_pool2d, max_pool2d
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, numbered_classes

_CONV = re.compile(r"features\.(\d{1,3})\.weight")
_TIMM = {
    "pre_logits.fc1": "classifier.0",
    "pre_logits.fc2": "classifier.3",
    "head.fc": "classifier.6",
}


@dataclass
class Config:
    """The keys of a config.json. convolutions: [number, inputs, outputs] of each."""

    convolutions: list[Any]
    batch_norm: bool
    hidden: int
    side: int = 7  # of what the classifier reads
    num_labels: int = 1000
    model_type: str = "vgg"


class VGG(ImageModel):
    """VGG under torchvision's names. Where numbers leave a gap after a ReLU there is a pool."""

    classifier_path = "classifier.6"

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        outputs = 3
        for number, inputs, outputs in c.convolutions:
            put(self, f"features.{number}", nn.Conv2d(inputs, outputs, 3, padding=1))
            if c.batch_norm:
                put(self, f"features.{number + 1}", nn.BatchNorm2d(outputs))
        sizes = (outputs * c.side**2, c.hidden, c.hidden, c.num_labels)
        for number, inputs, after in zip((0, 3, 6), sizes, sizes[1:], strict=False):
            put(self, f"classifier.{number}", nn.Linear(inputs, after))

    def hidden(self, pixels: Tensor) -> Tensor:
        x, c = self.checked(pixels), self.config
        numbers = [convolution[0] for convolution in c.convolutions]
        step = 3 if c.batch_norm else 2
        for i, number in enumerate(numbers):
            x = self.get_submodule(f"features.{number}")(x)
            if c.batch_norm:
                x = self.get_submodule(f"features.{number + 1}")(x)
            x = relu(x)
            if i + 1 == len(numbers) or numbers[i + 1] > number + step:
                x = max_pool2d(x, 2, 2)
        return x

    def encode_image(self, pixels: Tensor) -> Tensor:
        x = adaptive_avg_pool2d(self.hidden(pixels), self.config.side).flatten(1)
        for number in (0, 3):
            x = relu(self.get_submodule(f"classifier.{number}")(x))
        return x


def build(config: dict[str, Any], names: Collection[str]) -> VGG:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    for convolution in c.convolutions:
        if not (
            isinstance(convolution, list)
            and len(convolution) == 3
            and all(type(n) is int for n in convolution)
        ):
            raise FormatError(
                f"config.json: convolutions has {convolution!r:.60}, which is no convolution"
            )
    return VGG(c)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """timm's tensors under torchvision's names; its classifier is made of convolutions."""
    by_name = {}
    for name, t in tensors.items():
        module, _, kind = name.rpartition(".")
        flat = module.startswith("pre_logits.") and t.ndim == 4
        by_name[f"{_TIMM.get(module, module)}.{kind}"] = t.reshape(t.shape[0], -1) if flat else t
    return by_name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm."""
    by_name = rename_tensors(tensors)
    convolutions = sorted(
        (int(m[1]), t) for n, t in by_name.items() if (m := _CONV.fullmatch(n)) and t.ndim == 4
    )
    last, inner = by_name.get("classifier.6.weight"), by_name.get("classifier.0.weight")
    three = all(t.shape[2:] == (3, 3) for _, t in convolutions)
    if last is None or inner is None or not convolutions or not three:
        raise FormatError("the checkpoint is no VGG of torchvision or timm")
    side = round((inner.shape[1] / convolutions[-1][1].shape[0]) ** 0.5)
    return {
        "model_type": "vgg",
        "num_labels": last.shape[0],
        "hidden": inner.shape[0],
        "side": side,
        "convolutions": [[number, t.shape[1], t.shape[0]] for number, t in convolutions],
        "batch_norm": any(n.endswith("running_mean") for n in by_name),
    }


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return config_of(tensors)


FAMILY = Family(
    model_types=("vgg",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=("classifier.6.weight",),
    config_of=config_of,
    timm=("vgg",),
    timm_config=timm_config,
)
