"""MobileNet (Howard et al., 2017), of transformers and timm."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm
from rushlight.models.layers.vision.model import ImageModel, classes_of

_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
_STEM = 32
_BLOCK = re.compile(r"blocks\.(\d)\.(\d)\.(conv_dw|conv_pw|bn1|bn2)\.(\w+)")
_FIRST = (0, 1, 3, 5, 11)  # timm's first blocks by stage


@dataclass
class Config:
    """The keys of config.json."""

    num_channels: int = 3
    image_size: Any = 224
    depth_multiplier: float = 1.0
    min_depth: int = 8
    hidden_act: str = "relu6"
    tf_padding: bool = True
    classifier_dropout_prob: float = 0.999
    layer_norm_eps: float = 0.001
    model_type: str = "mobilenet_v1"


class MobileNetV1(ImageModel):
    """MobileNet under transformers' names."""

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["MobileNetV1"]

        def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
            return ConvNorm(
                inputs,
                outputs,
                kernel,
                stride,
                groups=groups,
                act=c.hidden_act,
                eps=c.layer_norm_eps,
                same=c.tf_padding,
            )

        widths = _widths(c.depth_multiplier, c.min_depth)
        put(self, "mobilenet_v1.conv_stem", conv(c.num_channels, widths[0], 3, 2))
        layers = []
        for inputs, outputs, stride in zip(widths, widths[1:], _STRIDES, strict=False):
            layers += [conv(inputs, inputs, 3, stride, inputs), conv(inputs, outputs, 1)]
        put(self, "mobilenet_v1.layer", nn.ModuleList(layers))
        if labels:
            self.classifier = nn.Linear(widths[-1], len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.checked(pixels, self.config.num_channels)
        x = self.mobilenet_v1.conv_stem(x)
        for layer in self.mobilenet_v1.layer:
            x = layer(x)
        return x


def _widths(multiplier: float, least: int) -> list[int]:
    """The widths of the stem and of the thirteen blocks."""
    widths, depth = [max(int(_STEM * multiplier), least)], _STEM
    for i, stride in enumerate(_STRIDES):
        depth *= 2 if stride == 2 or i == 0 else 1
        widths.append(max(int(depth * multiplier), least))
    return widths


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MobileNetV1:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    if not 0.01 <= c.depth_multiplier <= 64:
        raise FormatError(f"config.json: depth_multiplier {c.depth_multiplier} is out of range")
    return MobileNetV1(c, classes_of(config, "MobileNetV1"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under transformers' names."""
    if "blocks.0.0.conv_dw.weight" not in tensors:
        return dict(tensors)
    return {_renamed(n): t for n, t in tensors.items()}


def _renamed(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if module in ("conv_stem", "bn1"):
        module_name = "convolution" if module == "conv_stem" else "normalization"
        return f"mobilenet_v1.conv_stem.{module_name}.{kind}"
    if not (match := _BLOCK.fullmatch(name)) or int(match[1]) >= len(_FIRST):
        return name
    number = 2 * (_FIRST[int(match[1])] + int(match[2])) + (match[3] in ("conv_pw", "bn2"))
    module_name = "convolution" if match[3].startswith("conv") else "normalization"
    return f"mobilenet_v1.layer.{number}.{module_name}.{kind}"


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's: its widths tell the multiplier."""
    by_name = rename_tensors(tensors)
    try:
        stem = by_name["mobilenet_v1.conv_stem.convolution.weight"].shape
        wide = [
            by_name[f"mobilenet_v1.layer.{i}.convolution.weight"].shape[0] for i in range(1, 26, 2)
        ]
    except KeyError:
        raise FormatError("the checkpoint is no MobileNet of timm") from None
    for step in range(1, 401):
        if _widths(step / 100, 8) == [stem[0], *wide]:
            classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
            return {
                "model_type": "mobilenet_v1",
                "num_labels": classes,
                "num_channels": stem[1],
                "architectures": [f"MobileNetV1{'ForImageClassification' if classes else 'Model'}"],
                "depth_multiplier": step / 100,
                "tf_padding": False,
                "layer_norm_eps": 1e-5,
            }
    raise FormatError(f"the checkpoint is no MobileNet: it has the widths {[stem[0], *wide]}")


FAMILY = Family(
    model_types=("mobilenet_v1",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="mobilenet_v1.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    timm=("mobilenetv1_",),
    timm_config=timm_config,
)
