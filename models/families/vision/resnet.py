"""ResNet (He et al., 2015), with version 1.5's stride in the 3x3 convolution: 18 to 152 layers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config import choose, read_config
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.resnet import ResNet

MODEL_TYPES = ("resnet",)
TASKS = ("image-classification", "image-feature-extraction")
TENSORS = ("layer1.0.bn1.weight",)
TIMM = ("resnet",)
BASE_PREFIX = "resnet."
_LAYER = re.compile(r"layer([1-4])\.(\d{1,3})\.(conv|bn|downsample\.)(\d)\.(\w+)")


@dataclass
class Config:
    """The keys of config.json."""

    num_channels: int = 3
    embedding_size: int = 64
    hidden_sizes: list[int] = field(default_factory=lambda: [256, 512, 1024, 2048])
    depths: list[int] = field(default_factory=lambda: [3, 4, 6, 3])
    layer_type: str = "bottleneck"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    stage_names: list[Any] | None = None
    model_type: str = "resnet"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ResNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("layer_type", c.layer_type, ("bottleneck", "basic"))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    return ResNet(c, classes_of(config, "ResNet"))


def adopt(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision and timm under transformers' names."""
    return {_renamed(n): t for n, t in tensors.items()} if TENSORS[0] in tensors else dict(tensors)


def _renamed(name: str) -> str:
    if match := _LAYER.fullmatch(name):
        stage, layer, part, number, kind = match.groups()
        base = f"resnet.encoder.stages.{int(stage) - 1}.layers.{layer}."
        if part == "downsample.":
            return f"{base}shortcut.{('convolution', 'normalization')[int(number)]}.{kind}"
        what = "convolution" if part == "conv" else "normalization"
        return f"{base}layer.{int(number) - 1}.{what}.{kind}"
    stem = {"conv1": "convolution", "bn1": "normalization"}
    part, _, kind = name.partition(".")
    if part in stem:
        return f"resnet.embedder.embedder.{stem[part]}.{kind}"
    return f"classifier.1.{kind}" if part == "fc" else name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm, read from its tensors."""
    depths = [len({n.split(".")[1] for n in tensors if n.startswith(f"layer{i}.")})
              for i in range(1, 5)]  # fmt: skip
    deep = "layer1.0.conv3.weight" in tensors
    last = "conv3" if deep else "conv2"
    try:
        widths = [tensors[f"layer{i}.0.{last}.weight"].shape[0] for i in range(1, 5)]
        first = tensors["conv1.weight"].shape
        inner = tensors["layer1.0.conv2.weight"].shape
        classes = tensors["fc.weight"].shape[0] if "fc.weight" in tensors else 0
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no ResNet of torchvision or timm") from None
    if len(first) != 4 or first[2] != 7 or inner[0] != inner[1] or inner[0] * 4**deep != widths[0]:
        raise FormatError("the checkpoint is a kind of ResNet that is not supported")
    return {
        "model_type": "resnet", "num_channels": first[1], "embedding_size": first[0],
        "hidden_sizes": widths, "depths": depths, "layer_type": "bottleneck" if deep else "basic",
        "num_labels": classes,
        "architectures": ["ResNetForImageClassification" if classes else "ResNetModel"],
    }  # fmt: skip


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return config_of(tensors)
