"""RegNet X and Y (Radosavovic et al., 2020), of transformers, timm and torchvision."""

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
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm, activation
from rushlight.models.layers.vision.model import ImageModel, classes_of

MODEL_TYPES = ("regnet",)
TASKS = ("image-classification", "image-feature-extraction")
TENSORS = ("trunk_output.block1.block1-0.f.a.0.weight",)
TIMM = ("regnetx_", "regnety_")
BASE_PREFIX = "regnet."
_TIMM = re.compile(r"s([1-9])\.b(\d{1,3})\.(conv[123]|downsample|se)\.(conv|bn|fc1|fc2)\.(\w+)")
_TV = re.compile(
    r"trunk_output\.block([1-9])\.block\d-(\d{1,3})\.(?:f\.)?(proj|a|b|c|se)\.(\d|fc1|fc2)\.(\w+)"
)
_PARTS = {"0": "convolution", "1": "normalization", "conv": "convolution", "bn": "normalization"}


@dataclass
class Config:
    """The keys of config.json. group_widths: of the stages, where they differ."""

    num_channels: int = 3
    embedding_size: int = 32
    hidden_sizes: list[int] = field(default_factory=lambda: [128, 192, 512, 1088])
    depths: list[int] = field(default_factory=lambda: [2, 6, 12, 2])
    groups_width: int = 64
    layer_type: str = "y"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = True
    group_widths: list[int] | None = None
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    stage_names: list[Any] | None = None
    model_type: str = "regnet"


class _Squeeze(nn.Module):
    """Channels weighed by what the picture's mean says (Hu et al., 2017)."""

    def __init__(self, width: int, reduced: int) -> None:
        self.attention = nn.Sequential(
            nn.Conv2d(width, reduced, 1), nn.ReLU(), nn.Conv2d(reduced, width, 1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x * self.attention(x.mean((2, 3), keepdim=True))
        return found


class _Layer(nn.Module):
    def __init__(self, c: Config, inputs: int, outputs: int, stride: int, group: int) -> None:
        plain = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if plain else ConvNorm(inputs, outputs, 1, stride, act="")
        groups = max(1, outputs // group)
        if outputs % groups:
            raise FormatError(f"config.json: {outputs} channels in {groups} groups do not divide")
        parts: list[nn.Module] = [
            ConvNorm(inputs, outputs, 1, act=c.hidden_act),
            ConvNorm(outputs, outputs, 3, stride, groups=groups, act=c.hidden_act),
            ConvNorm(outputs, outputs, 1, act=""),
        ]
        if c.layer_type == "y":
            parts.insert(2, _Squeeze(outputs, round(inputs / 4)))
        self.layer = nn.Sequential(*parts)
        self.act = activation(c.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.act(self.layer(x) + self.shortcut(x))
        return found


class RegNet(ImageModel):
    """RegNet under transformers' names."""

    classifier_path = "classifier.1"

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels = c, labels
        stem = ConvNorm(c.num_channels, c.embedding_size, 3, 2, act=c.hidden_act)
        put(self, "regnet.embedder.embedder", stem)
        before, first = c.embedding_size, 2 if c.downsample_in_first_stage else 1
        groups = c.group_widths or [c.groups_width] * len(c.depths)
        for i, (width, depth) in enumerate(zip(c.hidden_sizes, c.depths, strict=True)):
            layers = []
            for j in range(depth):
                stride = (2 if i else first) if j == 0 else 1
                layers.append(_Layer(c, before, width, stride, groups[i]))
                before = width
            put(self, f"regnet.encoder.stages.{i}.layers", nn.Sequential(*layers))
        if labels:
            put(self, "classifier.1", nn.Linear(before, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.regnet.embedder.embedder(self.checked(pixels, self.config.num_channels))
        for stage in self.regnet.encoder.stages.children():
            x = stage.layers(x)
        return x


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> RegNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("layer_type", c.layer_type, ("x", "y"))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    groups = [c.groups_width] * len(c.depths) if c.group_widths is None else c.group_widths
    if not c.depths or not len(c.depths) == len(c.hidden_sizes) == len(groups) or (
        min(*groups, *c.hidden_sizes) < 1
    ):  # fmt: skip
        raise FormatError(f"config.json: depths {c.depths}, hidden_sizes {c.hidden_sizes} and "
                          f"widths of groups {groups} do not agree")  # fmt: skip
    return RegNet(c, classes_of(config, "RegNet"))


def adopt(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision and timm under transformers' names."""
    other = TENSORS[0] in tensors or "s1.b1.conv1.conv.weight" in tensors
    squeezed = any(".se." in n for n in tensors)
    return {_renamed(n, squeezed): t for n, t in tensors.items()} if other else dict(tensors)


def _renamed(name: str, squeezed: bool) -> str:
    module, _, kind = name.rpartition(".")
    if module in ("stem.0", "stem.1", "stem.conv", "stem.bn"):
        return f"regnet.embedder.embedder.{_PARTS[module[5:]]}.{kind}"
    if match := _TIMM.fullmatch(name):
        stage, layer, part, inner, kind = match.groups()
        layer = str(int(layer) - 1)
    elif match := _TV.fullmatch(name):
        stage, layer, part, inner, kind = match.groups()
    else:
        return f"classifier.1.{kind}" if module in ("fc", "head.fc") else name
    base = f"regnet.encoder.stages.{int(stage) - 1}.layers.{layer}."
    if part in ("proj", "downsample"):
        return f"{base}shortcut.{_PARTS[inner]}.{kind}"
    if part == "se":
        return f"{base}layer.2.attention.{0 if inner == 'fc1' else 2}.{kind}"
    number = {"a": 0, "b": 1, "c": 2}.get(part, int(part[-1]) - 1 if part[:4] == "conv" else 0)
    return f"{base}layer.{number + (number == 2 and squeezed)}.{_PARTS[inner]}.{kind}"


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm."""
    found = adopt(tensors)
    base = "regnet.encoder.stages."
    pattern = re.compile(r"regnet\.encoder\.stages\.(\d)\.layers\.(\d{1,3})\.")
    layers = {tuple(map(int, m.groups())) for n in found if (m := pattern.match(n))}
    depths = [sum(stage == i for stage, _ in layers)
              for i in range(1 + max((i for i, _ in layers), default=-1))]  # fmt: skip
    try:
        stem = found["regnet.embedder.embedder.convolution.weight"].shape
        middle = [found[f"{base}{i}.layers.0.layer.1.convolution.weight"].shape
                  for i in range(len(depths))]  # fmt: skip
        widths, groups = [s[0] for s in middle], [s[1] for s in middle]
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no RegNet of torchvision or timm") from None
    classes = found["classifier.1.weight"].shape[0] if "classifier.1.weight" in found else 0
    return {
        "model_type": "regnet", "num_channels": stem[1], "embedding_size": stem[0],
        "hidden_sizes": widths, "depths": depths, "group_widths": groups, "num_labels": classes,
        "layer_type": "y" if any(".attention." in n for n in found) else "x",
        "architectures": [f"RegNet{'ForImageClassification' if classes else 'Model'}"],
    }  # fmt: skip


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return config_of(tensors)
