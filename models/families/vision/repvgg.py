"""RepVGG (Ding et al., 2021) and MobileOne (Vasu et al., 2022): plain nets, fused from branches."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.convolutional.fused import FusedConv, fused
from rushlight.models.layers.vision.model import ImageModel, numbered_classes

# Of the authors' files: RepVGG's and MobileOne's, in branches and fused.
TENSORS = (
    "stage0.rbr_dense.conv.weight",
    "stage0.rbr_reparam.weight",
    "stage0.rbr_conv.0.conv.weight",
    "stage0.reparam_conv.weight",
)
_AUTHORS = re.compile(r"stage(\d)(?:\.(\d{1,3}))?\.(.+)")
_BRANCHES = {
    "rbr_dense": "conv_kxk",
    "rbr_1x1": "conv_1x1",
    "rbr_identity": "identity",
    "rbr_reparam": "reparam_conv",
    "rbr_conv": "conv_kxk",
    "rbr_scale": "conv_scale",
    "rbr_skip": "identity",
    "se.reduce": "attn.fc1",
    "se.expand": "attn.fc2",
    "se.down": "attn.fc1",
    "se.up": "attn.fc2",
}
_CONV = re.compile(r"stages\.(\d)\.(\d{1,3})\.reparam_conv\.weight")


@dataclass
class Config:
    """The keys of a config.json. stages: [outputs, kernel, groups, squeezed] of their layers."""

    stem: int
    stages: list[Any]
    num_channels: int = 3
    num_labels: int = 1000
    model_type: str = "repvgg"


class PlainNet(ImageModel):
    """Convolutions and ReLU alone, under timm's names. Each stage begins with a stride of 2."""

    classifier_path = "head.fc"

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        self.stem = FusedConv(c.num_channels, c.stem, 3, 2)
        width, stages = c.stem, []
        for stage in c.stages:
            layers = []
            for i, (outputs, kernel, groups, reduced) in enumerate(stage):
                stride = 1 if i else 2
                layers.append(FusedConv(width, outputs, kernel, stride, groups, reduced))
                width = outputs
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        if self.labels:
            put(self, "head.fc", nn.Linear(width, c.num_labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        stem = self.stem(self.checked(pixels, self.config.num_channels))
        out: Tensor = self.stages(stem)
        return out


def build(config: dict[str, Any], names: Collection[str]) -> PlainNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    sizes = [n for stage in c.stages for layer in stage for n in layer[:3]]
    if not sizes or not all(type(n) is int and 1 <= n <= 1 << 16 for n in sizes):
        raise FormatError(f"config.json: stages is {c.stages!r:.60}; it must hold layers' sizes")
    return PlainNet(c)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the authors' files and of branches under timm's names of fused layers."""
    return fused({_renamed(n): t for n, t in tensors.items() if not n.startswith("stages.0.aux")})


def _renamed(name: str) -> str:
    if match := _AUTHORS.fullmatch(name):
        stage, layer, rest = match.groups()
        for old, new in _BRANCHES.items():
            rest = re.sub(rf"^{re.escape(old)}\.", f"{new}.", rest)
        home = "stem" if stage == "0" else f"stages.{int(stage) - 1}.{layer}"
        return f"{home}.{rest}"
    return f"head.fc.{name[7:]}" if name.startswith("linear.") else name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of timm or of the authors."""
    by_name = rename_tensors(tensors)
    stem = by_name.get("stem.reparam_conv.weight")
    layers = {(int(m[1]), int(m[2])): t for n, t in by_name.items() if (m := _CONV.fullmatch(n))}
    if stem is None or stem.ndim != 4 or not layers:
        raise FormatError("the checkpoint is no RepVGG or MobileOne")
    stages: list[list[list[int]]] = []
    width = stem.shape[0]
    for (stage, layer), t in sorted(layers.items()):
        if stage == len(stages):
            stages.append([])
        gate = by_name.get(f"stages.{stage}.{layer}.attn.fc1.weight")
        if t.ndim != 4 or width % t.shape[1] or stage + 1 != len(stages):
            raise FormatError(f"the layer stages.{stage}.{layer} does not follow the one before")
        reduced = 0 if gate is None else gate.shape[0]
        stages[stage].append([t.shape[0], t.shape[2], width // t.shape[1], reduced])
        width = t.shape[0]
    head = by_name.get("head.fc.weight")
    single = any(kernel == 1 for stage in stages for _, kernel, *_ in stage)
    return {
        "model_type": "mobileone" if single else "repvgg",
        "stem": stem.shape[0],
        "stages": stages,
        "num_channels": stem.shape[1],
        "num_labels": 0 if head is None else head.shape[0],
    }


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return config_of(tensors)


FAMILY = Family(
    model_types=("repvgg", "mobileone"),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("repvgg_", "mobileone_"),
    timm_config=timm_config,
)
