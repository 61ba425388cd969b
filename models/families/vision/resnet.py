"""ResNet (He et al., 2015), with version 1.5's stride in the 3x3 convolution: 18 to 152 layers.

Also wide ones (Zagoruyko and Komodakis, 2016), ResNeXt (Xie et al., 2016), the stems of three
convolutions and pooled shortcuts of ResNet-D (He et al., 2018), and with channels by their share
(Hu et al., 2017), as ResNet-RS has them (Bello et al., 2021).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.resnet import ResNet

TENSORS = ("layer1.0.bn1.weight",)
_LAYER = re.compile(r"layer([1-4])\.(\d{1,3})\.(conv|bn|downsample\.|se\.(?:fc|conv))(\d?)\.(\w+)")
_STEM = {
    "conv1.0": "0.convolution",
    "conv1.1": "0.normalization",
    "conv1.3": "1.convolution",
    "conv1.4": "1.normalization",
    "conv1.6": "2.convolution",
    "bn1": "2.normalization",
}
_SMOOTH = re.compile(r"resnex?t(aa|blur)")
_POOLS = {"maxpool.0": "convolution", "maxpool.1": "normalization"}


@dataclass
class Config:
    """The keys of config.json, and what transformers' ResNet has not.

    inner_sizes: channels within the bottlenecks of each stage. groups: of their 3x3 convolutions.
    deep_stem: channels of a stem's first two convolutions of three. pooled_shortcut: shortcuts have
    the stride in a mean pooling. squeezed: channels between the two products that tell the shares
    of a stage's channels; squeezed_near: or of how many a convolution does. smooth: what has the
    strides: "mean", "blur", "" for convolutions. pool: what follows the stem: "max", "conv", "mean"
    or "blur".
    """

    own = (
        "inner_sizes",
        "groups",
        "deep_stem",
        "pooled_shortcut",
        "squeezed",
        "squeezed_near",
        "smooth",
        "pool",
    )

    num_channels: int = 3
    embedding_size: int = 64
    hidden_sizes: list[int] = field(default_factory=lambda: [256, 512, 1024, 2048])
    depths: list[int] = field(default_factory=lambda: [3, 4, 6, 3])
    layer_type: str = "bottleneck"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False
    inner_sizes: list[int] | None = None
    groups: int = 1
    deep_stem: list[int] | None = None
    pooled_shortcut: bool = False
    squeezed: list[int] | None = None
    squeezed_near: list[int] | None = None
    smooth: str = ""
    pool: str = "max"
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    model_type: str = "resnet"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ResNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("layer_type", c.layer_type, ("bottleneck", "basic"))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("smooth", c.smooth, ("", "mean", "blur"))
    choose("pool", c.pool, ("max", "conv", "mean", "blur"))
    return ResNet(c, classes_of(config, "ResNet"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision and timm under transformers' names."""
    if TENSORS[0] not in tensors:
        return dict(tensors)
    stem = (
        _STEM if "conv1.0.weight" in tensors else {"conv1": "convolution", "bn1": "normalization"}
    )
    first = 1 if "layer2.0.downsample.1.weight" in tensors and _pooled(tensors) else 0
    return {_renamed(n, stem, first): t for n, t in tensors.items()}


def _pooled(tensors: Mapping[str, Tensor]) -> bool:
    """Whether the first part of a shortcut, which has no tensors, is a pooling."""
    return "layer2.0.downsample.0.weight" not in tensors


def _renamed(name: str, stem: Mapping[str, str], first: int) -> str:
    if match := _LAYER.fullmatch(name):
        stage, layer, module, number, kind = match.groups()
        base = f"resnet.encoder.stages.{int(stage) - 1}.layers.{layer}."
        if module.startswith("se."):
            return f"{base}squeeze.{module[3:]}{number}.{kind}"
        if module == "downsample.":
            path = {first: "convolution", first + 1: "normalization"}.get(int(number), number)
            return f"{base}shortcut.{path}.{kind}"
        what = "convolution" if module == "conv" else "normalization"
        return f"{base}layer.{int(number) - 1}.{what}.{kind}"
    module, _, kind = name.rpartition(".")
    if module in stem:
        return f"resnet.embedder.embedder.{stem[module]}.{kind}"
    if module in _POOLS:
        return f"resnet.embedder.pooler.{_POOLS[module]}.{kind}"
    return f"classifier.1.{kind}" if module == "fc" else name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm, read from its tensors."""
    depths = [
        len({n.split(".")[1] for n in tensors if n.startswith(f"layer{i}.")}) for i in range(1, 5)
    ]
    deep, stem = "layer1.0.conv3.weight" in tensors, "conv1.0.weight" in tensors
    last = "conv3" if deep else "conv2"
    try:
        widths, inner = (
            [tensors[f"layer{i}.0.{conv}.weight"].shape[0] for i in range(1, 5)]
            for conv in (last, "conv1")
        )
        first = tensors["conv1.0.weight" if stem else "conv1.weight"].shape
        stems = [tensors[f"conv1.{i}.weight"].shape[0] for i in (0, 3)] if stem else None
        into = tensors["conv1.6.weight"].shape[0] if stem else first[0]
        groups = inner[0] // tensors["layer1.0.conv2.weight"].shape[1] if deep else 1
        classes = tensors["fc.weight"].shape[0] if "fc.weight" in tensors else 0
        shares, near = (
            [tensors[f"layer{i}.0.se.{n}.weight"].shape[axis] for i in range(1, 5)]
            if f"layer1.0.se.{n}.weight" in tensors
            else None
            for n, axis in (("fc1", 0), ("conv", -1))
        )
    except (KeyError, IndexError, ZeroDivisionError):
        raise FormatError("the checkpoint is no ResNet of torchvision or timm") from None
    if len(first) != 4 or first[2] != (3 if stem else 7) or (not deep and inner != widths):
        raise FormatError("the checkpoint is a kind of ResNet that is not supported")
    return {
        "model_type": "resnet",
        "num_channels": first[1],
        "embedding_size": into,
        "hidden_sizes": widths,
        "depths": depths,
        "layer_type": "bottleneck" if deep else "basic",
        "inner_sizes": inner if deep else None,
        "groups": groups,
        "deep_stem": stems,
        "pooled_shortcut": _pooled(tensors),
        "squeezed": shares,
        "squeezed_near": near,
        "pool": "conv" if "maxpool.0.weight" in tensors else "max",
        "num_labels": classes,
        "architectures": ["ResNetForImageClassification" if classes else "ResNetModel"],
    }


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    values, smooth = config_of(tensors), _SMOOTH.search(str(config["architecture"]))
    if smooth:
        values["smooth"] = values["pool"] = "mean" if smooth[1] == "aa" else "blur"
    return values


FAMILY = Family(
    model_types=("resnet",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="resnet.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("resnet", "resnext", "wide_resnet", "seresne", "ecaresne"),
    timm_config=timm_config,
)
