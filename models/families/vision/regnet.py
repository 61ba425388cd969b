"""RegNet X and Y (Radosavovic et al., 2020), and timm's Z (Dollár et al., 2021)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import depths_of, put
from rushlight.models.layers.vision.conv import ConvNorm, EvoNorm, activation
from rushlight.models.layers.vision.model import ImageModel, classes_of

TENSORS = ("trunk_output.block1.block1-0.f.a.0.weight",)
_TIMM = re.compile(r"s([1-9])\.b(\d{1,3})\.(conv[123]|downsample|se)\.(conv|bn|fc1|fc2)\.(\w+)")
_TV = re.compile(
    r"trunk_output\.block([1-9])\.block\d-(\d{1,3})\.(?:f\.)?(proj|a|b|c|se)\.(\d|fc1|fc2)\.(\w+)"
)
# Names of timm's second implementation.
_OTHER = re.compile(r"stages\.(\d)\.(\d{1,3})\.(conv[123]|attn)(?:_1x1|_kxk)?\.(.+)")
_STEM = re.compile(r"stem\.conv([1-3])\.(conv|bn)")
_PARTS = {"0": "convolution", "1": "normalization", "conv": "convolution", "bn": "normalization"}


@dataclass
class Config:
    """The keys of config.json, and what transformers' RegNet has not.

    group_widths: of the stages, where they differ. inner_sizes, squeezed: channels within each
    layer, and between the two products of its shares, by stages. squeezed_act: between these.
    linear: sums have no activation, and layers that change the size no shortcut. stem_sizes: of
    several convolutions, whose first and last have the stride. last_size: of a convolution after
    the stages. norm: "batch" or "evo".
    """

    own = (
        "group_widths",
        "inner_sizes",
        "squeezed",
        "squeezed_act",
        "linear",
        "stem_sizes",
        "last_size",
        "norm",
    )

    num_channels: int = 3
    embedding_size: int = 32
    hidden_sizes: list[int] = field(default_factory=lambda: [128, 192, 512, 1088])
    depths: list[int] = field(default_factory=lambda: [2, 6, 12, 2])
    groups_width: int = 64
    layer_type: str = "y"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = True
    group_widths: list[int] | None = None
    inner_sizes: list[Any] | None = None
    squeezed: list[Any] | None = None
    squeezed_act: str = "relu"
    linear: bool = False
    stem_sizes: list[int] | None = None
    last_size: int = 0
    norm: str = "batch"
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    model_type: str = "regnet"


class _Squeeze(nn.Module):
    """Channels weighed by what the picture's mean says (Hu et al., 2017)."""

    def __init__(self, width: int, reduced: int, act: str) -> None:
        self.attention = nn.Sequential(
            nn.Conv2d(width, reduced, 1),
            nn.SiLU() if act == "silu" else nn.ReLU(),
            nn.Conv2d(reduced, width, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        weighed: Tensor = x * self.attention(x.mean((2, 3), keepdim=True))
        return weighed


def _conv(
    c: Config, inputs: int, outputs: int, kernel: int, stride: int = 1, **more: Any
) -> ConvNorm:
    norm = _evo if c.norm == "evo" else None
    return ConvNorm(inputs, outputs, kernel, stride, norm=norm, **{"act": c.hidden_act} | more)


def _evo(width: int, act: bool) -> nn.Module:
    return EvoNorm(width, width // 16, 1e-3, act)


class _Layer(nn.Module):
    def __init__(
        self,
        c: Config,
        inputs: int,
        inner: int,
        outputs: int,
        stride: int,
        group: int,
        squeezed: int,
    ) -> None:
        plain = inputs == outputs and stride == 1
        self.alone = c.linear and not plain
        if not self.alone:
            self.shortcut = nn.Identity() if plain else _conv(c, inputs, outputs, 1, stride, act="")
        groups = max(1, inner // group)
        if inner % groups:
            raise FormatError(f"config.json: {inner} channels in {groups} groups do not divide")
        parts: list[nn.Module] = [
            _conv(c, inputs, inner, 1),
            _conv(c, inner, inner, 3, stride, groups=groups),
            _conv(c, inner, outputs, 1, act=""),
        ]
        if c.layer_type == "y":
            parts.insert(2, _Squeeze(inner, squeezed, c.squeezed_act))
        self.layer = nn.Sequential(*parts)
        self.act = activation("" if c.linear else c.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y if self.alone else self.act(y + self.shortcut(x))


class RegNet(ImageModel):
    """RegNet under transformers' names."""

    classifier_path = "classifier.1"

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels = c, labels
        widths = [c.num_channels, *(c.stem_sizes or [c.embedding_size])]
        last = len(widths) - 2
        stem = [
            _conv(c, a, b, 3, 2 if i in (0, last) else 1)
            for i, (a, b) in enumerate(pairwise(widths))
        ]
        put(self, "regnet.embedder.embedder", nn.Sequential(*stem) if last else stem[0])
        before, first = widths[-1], 2 if c.downsample_in_first_stage else 1
        groups = c.group_widths or [c.groups_width] * len(c.depths)
        for i, (width, depth) in enumerate(zip(c.hidden_sizes, c.depths, strict=True)):
            layers = []
            for j in range(depth):
                stride = (2 if i else first) if j == 0 else 1
                inner = c.inner_sizes[i][j] if c.inner_sizes else width
                share = c.squeezed[i][j] if c.squeezed else round(before / 4)
                layers.append(_Layer(c, before, inner, width, stride, groups[i], share))
                before = width
            put(self, f"regnet.encoder.stages.{i}.layers", nn.Sequential(*layers))
        if c.last_size:
            put(self, "regnet.last", _conv(c, before, c.last_size, 1))
            before = c.last_size
        self.act = activation(c.hidden_act if c.linear and not c.last_size else "")
        if labels:
            put(self, "classifier.1", nn.Linear(before, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.regnet.embedder.embedder(self.checked(pixels, self.config.num_channels))
        for stage in self.regnet.encoder.stages.children():
            x = stage.layers(x)
        return self.regnet.last(x) if self.config.last_size else self.act(x)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> RegNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("layer_type", c.layer_type, ("x", "y"))
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("squeezed_act", c.squeezed_act, ("relu", "silu"))
    choose("norm", c.norm, ("batch", "evo"))
    groups = [c.groups_width] * len(c.depths) if c.group_widths is None else c.group_widths
    if (
        not c.depths
        or not len(c.depths) == len(c.hidden_sizes) == len(groups)
        or (min(*groups, *c.hidden_sizes) < 1)
    ):
        raise FormatError(
            f"config.json: depths {c.depths}, hidden_sizes {c.hidden_sizes} and "
            f"widths of groups {groups} do not agree"
        )
    for lists in (c.inner_sizes, c.squeezed):
        if lists is not None and (
            [len(sizes) for sizes in lists] != c.depths
            or not all(type(n) is int and 1 <= n <= 1 << 16 for sizes in lists for n in sizes)
        ):
            raise FormatError(f"config.json: {lists} are no sizes of {c.depths} layers")
    return RegNet(c, classes_of(config, "RegNet"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision and timm under transformers' names."""
    tensors = {_OTHER.sub(_plainer, n): t for n, t in tensors.items()}
    other = TENSORS[0] in tensors or "s1.b1.conv1.conv.weight" in tensors
    squeezed = any(".se." in n for n in tensors)
    return {_renamed(n, squeezed): t for n, t in tensors.items()} if other else dict(tensors)


def _plainer(m: re.Match[str]) -> str:
    """A name of timm's second implementation as the first has it."""
    block = "se" if m[3] == "attn" else m[3]
    return f"s{int(m[1]) + 1}.b{int(m[2]) + 1}.{block}.{m[4]}"


def _renamed(name: str, squeezed: bool) -> str:
    module, _, kind = name.rpartition(".")
    if module in ("stem.0", "stem.1", "stem.conv", "stem.bn"):
        return f"regnet.embedder.embedder.{_PARTS[module[5:]]}.{kind}"
    if match := _STEM.fullmatch(module):
        return f"regnet.embedder.embedder.{int(match[1]) - 1}.{_PARTS[match[2]]}.{kind}"
    if module in ("final_conv.conv", "final_conv.bn"):
        return f"regnet.last.{_PARTS[module[11:]]}.{kind}"
    if match := _TIMM.fullmatch(name):
        stage, layer, block, inner, kind = match.groups()
        layer = str(int(layer) - 1)
    elif match := _TV.fullmatch(name):
        stage, layer, block, inner, kind = match.groups()
    else:
        return f"classifier.1.{kind}" if module in ("fc", "head.fc") else name
    base = f"regnet.encoder.stages.{int(stage) - 1}.layers.{layer}."
    if block in ("proj", "downsample"):
        return f"{base}shortcut.{_PARTS[inner]}.{kind}"
    if block == "se":
        return f"{base}layer.2.attention.{0 if inner == 'fc1' else 2}.{kind}"
    number = {"a": 0, "b": 1, "c": 2}.get(block, int(block[-1]) - 1 if block[:4] == "conv" else 0)
    return f"{base}layer.{number + (number == 2 and squeezed)}.{_PARTS[inner]}.{kind}"


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm."""
    by_name = rename_tensors(tensors)
    base = "regnet.encoder.stages."
    depths = depths_of(by_name, base, "layers")
    pattern = "regnet.embedder.embedder.{}convolution.weight"
    try:
        stems = [
            by_name[pattern.format(place)].shape
            for place in (("0.", "1.", "2.") if pattern.format("2.") in by_name else ("",))
        ]
        middle = [
            by_name[f"{base}{i}.layers.0.layer.1.convolution.weight"].shape
            for i in range(len(depths))
        ]
        widths, groups = [s[0] for s in middle], [s[1] for s in middle]
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no RegNet of torchvision or timm") from None
    classes = by_name["classifier.1.weight"].shape[0] if "classifier.1.weight" in by_name else 0
    return {
        "model_type": "regnet",
        "num_channels": stems[0][1],
        "embedding_size": stems[-1][0],
        "hidden_sizes": widths,
        "depths": depths,
        "group_widths": groups,
        "num_labels": classes,
        "layer_type": "y" if any(".attention." in n for n in by_name) else "x",
        "stem_sizes": [n[0] for n in stems] if len(stems) > 1 else None,
        "architectures": [f"RegNet{'ForImageClassification' if classes else 'Model'}"],
    }


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    values, name = config_of(tensors), str(config.get("architecture"))
    if not any(n.endswith((".running_mean", ".v")) for n in tensors):
        raise FormatError(f"timm's {name:.60} is not supported: it normalizes groups of channels")
    if not name.startswith("regnetz_"):
        return values
    by_name, path = rename_tensors(tensors), "regnet.encoder.stages.{}.layers.{}.layer.{}.weight"
    sizes = {
        layer: [
            [by_name[path.format(i, j, layer)].shape[0] for j in range(depth)]
            for i, depth in enumerate(values["depths"])
        ]
        for layer in ("1.convolution", "2.attention.0", "3.convolution")
    }
    last = by_name.get("regnet.last.convolution.weight")
    return values | {
        "hidden_sizes": [widths[0] for widths in sizes["3.convolution"]],
        "hidden_act": "silu",
        "inner_sizes": sizes["1.convolution"],
        "squeezed": sizes["2.attention.0"],
        "linear": True,
        "squeezed_act": "silu" if "s1.b1.conv1.conv.weight" in tensors else "relu",
        "downsample_in_first_stage": values["stem_sizes"] is None,
        "last_size": 0 if last is None else last.shape[0],
        "norm": "evo" if any(n.endswith(".normalization.v") for n in by_name) else "batch",
    }


FAMILY = Family(
    model_types=("regnet",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="regnet.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("regnetx_", "regnety_", "regnetz_"),
    timm_config=timm_config,
)
