"""ConvMixer (Trockman and Kolter, 2022): patches, and convolutions that keep the size."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import activation
from rushlight.models.layers.vision.model import ImageModel, numbered_classes


@dataclass
class Config:
    """The keys of a config.json."""

    hidden_size: int
    num_hidden_layers: int
    kernel_size: int = 9
    patch_size: int = 7
    hidden_act: str = "gelu"
    num_channels: int = 3
    num_labels: int = 1000
    model_type: str = "convmixer"


class ConvMixer(ImageModel):
    """ConvMixer under timm's names."""

    classifier_path = "head"

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        self.act, width = activation(c.hidden_act), c.hidden_size
        put(self, "stem.0", nn.Conv2d(c.num_channels, width, c.patch_size, c.patch_size))
        put(self, "stem.2", nn.BatchNorm2d(width))
        for i in range(c.num_hidden_layers):
            block = nn.Module()
            put(block, "0.fn.0", nn.Conv2d(width, width, c.kernel_size, groups=width))
            put(block, "0.fn.2", nn.BatchNorm2d(width))
            put(block, "1", nn.Conv2d(width, width, 1))
            put(block, "3", nn.BatchNorm2d(width))
            put(self, f"blocks.{i}", block)
        if self.labels:
            self.head = nn.Linear(width, c.num_labels)

    def hidden(self, pixels: Tensor) -> Tensor:
        def run(at: nn.Module, conv: str, norm: str, x: Tensor) -> Tensor:
            normed: Tensor = at.get_submodule(norm)(self.act(at.get_submodule(conv)(x)))
            return normed

        before = (self.config.kernel_size - 1) // 2
        after = self.config.kernel_size - 1 - before
        x = run(self, "stem.0", "stem.2", self.checked(pixels, self.config.num_channels))
        for block in self.get_submodule("blocks").children():
            x = x + run(block, "0.fn.0", "0.fn.2", pad(x, (before, after, before, after)))
            x = run(block, "1", "3", x)
        return x


def build(config: dict[str, Any], names: Collection[str]) -> ConvMixer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, ("gelu", "relu"))
    return ConvMixer(c)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's; of the published ones that of 768 channels has ReLU."""
    try:
        stem, deep = (tensors[n].shape for n in ("stem.0.weight", "blocks.0.0.fn.0.weight"))
        width, channels, patch, _ = stem
    except (KeyError, ValueError):
        raise FormatError("the checkpoint is no ConvMixer of timm") from None
    layers = {n.split(".")[1] for n in tensors if n.startswith("blocks.")}
    head = tensors.get("head.weight")
    return {
        "model_type": "convmixer",
        "hidden_size": width,
        "num_channels": channels,
        "patch_size": patch,
        "num_hidden_layers": len(layers),
        "kernel_size": deep[-1],
        "hidden_act": "relu" if "_768_" in str(config.get("architecture")) else "gelu",
        "num_labels": 0 if head is None else head.shape[0],
    }


FAMILY = Family(
    model_types=("convmixer",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    timm=("convmixer_",),
    timm_config=timm_config,
)
