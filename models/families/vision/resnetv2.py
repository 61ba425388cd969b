"""ResNet V2 (He et al., 2016) and Big Transfer's (Kolesnikov et al., 2019), of timm."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.pooling import avg_pool2d, max_pool2d
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import depths_of, put
from rushlight.models.layers.vision.conv import EvoNorm, activation
from rushlight.models.layers.vision.convolutional.bit import StdConv
from rushlight.models.layers.vision.model import ImageModel, classes_of

_POOLED = re.compile(r"resnetv2_\d+[dt]")
_GROUPS = 32
_REFUSED = {"output_stride", "stem_type", "act_layer", "norm_layer", "conv_layer"}


@dataclass
class Config:
    """The keys of a config.json.

    inner_sizes: channels within the layers of each stage. stem_sizes: of one convolution, or three.
    basic: layers have two. norm: "batch", "group" or "evo". standardized: as in Big Transfer.
    pooled_shortcut: the stride is in a mean pooling.
    """

    hidden_sizes: list[int]
    inner_sizes: list[int]
    depths: list[int]
    stem_sizes: list[int]
    basic: bool = False
    norm: str = "batch"
    standardized: bool = False
    pooled_shortcut: bool = False
    num_channels: int = 3
    model_type: str = "resnetv2"


def _conv(c: Config, inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
    if c.standardized:
        return StdConv(inputs, outputs, kernel, stride, False)
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


def _norm(c: Config, width: int) -> nn.Module:
    if c.norm == "batch":
        return nn.BatchNorm2d(width)
    if width % _GROUPS:
        raise FormatError(f"config.json: {width} channels do not divide into {_GROUPS} groups")
    return nn.GroupNorm(_GROUPS, width) if c.norm == "group" else EvoNorm(width, _GROUPS, 1e-5)


class _Layer(nn.Module):
    """Convolutions of 1, 3 and 1, or two of 3, each after its norm; and a shortcut."""

    def __init__(self, c: Config, inputs: int, inner: int, outputs: int, stride: int) -> None:
        plan = [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
        if c.basic:
            plan = [(inputs, inner, 3, stride), (inner, outputs, 3, 1)]
        for i, sizes in enumerate(plan, 1):
            put(self, f"norm{i}", _norm(c, sizes[0]))
            put(self, f"conv{i}", _conv(c, *sizes))
        self.count, self.act = len(plan), activation("" if c.norm == "evo" else "relu")
        self.pool = stride if c.pooled_shortcut else 1

    def forward(self, x: Tensor) -> Tensor:
        y = short = x
        for i in range(1, self.count + 1):
            y = self.act(self.get_submodule(f"norm{i}")(y))
            if i == 1 and hasattr(self, "downsample"):
                short = y
                if self.pool > 1:
                    short = avg_pool2d(y, 2, self.pool, ceil_mode=True, count_include_pad=False)
                short = self.downsample.conv(short)
            y = self.get_submodule(f"conv{i}")(y)
        return y + short


class ResNetV2(ImageModel):
    """ResNet V2 under timm's names."""

    classifier_path = "head.fc"

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels = c, labels
        self.act, before = activation("" if c.norm == "evo" else "relu"), c.num_channels
        count = len(c.stem_sizes)
        for i, width in enumerate(c.stem_sizes, 1):
            path, kernel = (f"stem.conv{i}", 3) if count > 1 else ("stem.conv", 7)
            put(self, path, _conv(c, before, width, kernel, 2 if i == 1 else 1))
            if i < count:
                put(self, f"stem.norm{i}", _norm(c, width))
            before = width
        for i, (width, inner) in enumerate(zip(c.hidden_sizes, c.inner_sizes, strict=True)):
            layers = []
            for j in range(c.depths[i]):
                stride = 2 if i and not j else 1
                layer = _Layer(c, before, inner, width, stride)
                if not j and (not c.basic or stride > 1 or before != width):
                    stride = 1 if c.pooled_shortcut else stride
                    put(layer, "downsample.conv", _conv(c, before, width, 1, stride))
                layers.append(layer)
                before = width
            put(self, f"stages.{i}.blocks", nn.Sequential(*layers))
        self.norm = _norm(c, before)
        if labels:
            put(self, "head.fc", nn.Linear(before, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, channels, height, width) after the last norm."""
        x, padded = self.checked(pixels, self.config.num_channels), self.config.standardized
        for name, module in self.stem.named_children():
            x = self.act(module(x)) if name[:4] == "norm" else module(x)
        # What Big Transfer's net pads is 0, not less than all.
        x = max_pool2d(pad(x, (1, 1, 1, 1)), 3, 2) if padded else max_pool2d(x, 3, 2, 1)
        for stage in self.stages.children():
            x = stage.blocks(x)
        return self.act(self.norm(x))


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ResNetV2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("norm", c.norm, ("batch", "group", "evo"))
    lists = (c.depths, c.hidden_sizes, c.inner_sizes)
    sizes = [*c.depths, *c.hidden_sizes, *c.inner_sizes, *c.stem_sizes]
    sizes_fit = c.stem_sizes and all(type(n) is int and 1 <= n <= 1 << 16 for n in sizes)
    if (
        not sizes_fit
        or len({len(per_stage) for per_stage in lists}) != 1
        or not 1 <= sum(c.depths) <= 1024
    ):
        raise FormatError(
            f"config.json: depths {c.depths}, hidden_sizes {c.hidden_sizes} and "
            f"inner_sizes {c.inner_sizes} do not agree"
        )
    return ResNetV2(c, classes_of(config, "ResNetV2"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """timm's tensors, whose classifier is a convolution of single pixels."""
    head = "head.fc.weight"
    return {n: t.flatten(1) if n == head and t.ndim > 2 else t for n, t in tensors.items()}


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    name, first = str(config.get("architecture")), "stages.{}.blocks.0.{}.weight"
    depths = depths_of(tensors, "stages.", "blocks")
    deep, stem = first.format(0, "conv3") in tensors, "stem.conv1.weight" in tensors
    try:
        widths, inner = (
            [tensors[first.format(i, conv)].shape[0] for i in range(len(depths))]
            for conv in ("conv3" if deep else "conv2", "conv1")
        )
        stems = [tensors[f"stem.conv{i}.weight"].shape for i in ((1, 2, 3) if stem else ("",))]
        channels = stems[0][1]
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no ResNet V2 of timm") from None
    if "norm.weight" not in tensors or "norm.tau" in tensors:
        raise FormatError(
            f"timm's {name} is a kind of ResNet V2 that is not supported; supported: "
            "norms of batches or groups before convolutions, EvoNorm S0"
        )
    arguments = config.get("model_args") or {}
    if other := sorted(arguments.keys() & _REFUSED):
        raise FormatError(f"config.json: model_args: {other} of a ResNet V2 are not supported")
    head = tensors.get("head.fc.weight")
    values = {
        "model_type": "resnetv2",
        "num_channels": channels,
        "stem_sizes": [n[0] for n in stems],
        "architectures": [f"ResNetV2{'Model' if head is None else 'ForImageClassification'}"],
        "hidden_sizes": widths,
        "inner_sizes": inner,
        "depths": depths,
        "basic": not deep,
        "standardized": "_bit" in name,
        "norm": "batch"
        if "norm.running_mean" in tensors
        else "evo"
        if "norm.v" in tensors
        else "group",
        "pooled_shortcut": bool(arguments.get("avg_down", _POOLED.match(name))),
    }
    return values if head is None else values | {"num_labels": head.shape[0]}


FAMILY = Family(
    model_types=("resnetv2",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    timm=("resnetv2_",),
    timm_config=timm_config,
)
