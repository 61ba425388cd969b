"""MobileNetV2 (Sandler et al., 2018), of transformers, torchvision and timm."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.mobilenet_v2 import MobileNetV2, widths_of
from rushlight.models.layers.vision.model import classes_of

TENSORS = ("features.1.conv.0.0.weight",)
# torchvision's and timm's paths of convolutions and norms. {} is the layer.
_BLOCK = {
    "0.0": "expand_1x1.convolution",
    "0.1": "expand_1x1.normalization",
    "1.0": "conv_3x3.convolution",
    "1.1": "conv_3x3.normalization",
    "2": "reduce_1x1.convolution",
    "3": "reduce_1x1.normalization",
}
_FIRST = {
    "0.0": "conv_3x3.convolution",
    "0.1": "conv_3x3.normalization",
    "1": "reduce_1x1.convolution",
    "2": "reduce_1x1.normalization",
}
_TIMM_BLOCK = {
    "conv_pw": "expand_1x1.convolution",
    "bn1": "expand_1x1.normalization",
    "conv_dw": "conv_3x3.convolution",
    "bn2": "conv_3x3.normalization",
    "conv_pwl": "reduce_1x1.convolution",
    "bn3": "reduce_1x1.normalization",
}
_TIMM_FIRST = {
    "conv_dw": "conv_3x3.convolution",
    "bn1": "conv_3x3.normalization",
    "conv_pw": "reduce_1x1.convolution",
    "bn2": "reduce_1x1.normalization",
}
_TOP = {
    "features.0.0": "conv_stem.first_conv.convolution",
    "features.0.1": "conv_stem.first_conv.normalization",
    "features.18.0": "conv_1x1.convolution",
    "features.18.1": "conv_1x1.normalization",
    "conv_stem": "conv_stem.first_conv.convolution",
    "bn1": "conv_stem.first_conv.normalization",
    "conv_head": "conv_1x1.convolution",
    "bn2": "conv_1x1.normalization",
}
_STAGES = (0, 1, 3, 6, 10, 13, 16)  # timm's first layers by stage
_TV = re.compile(r"features\.(\d{1,2})\.conv\.([\d.]+)\.(\w+)")
_TM = re.compile(r"blocks\.(\d)\.(\d{1,2})\.(\w+)\.(\w+)")


@dataclass
class Config:
    """The keys of config.json."""

    num_channels: int = 3
    image_size: Any = 224
    depth_multiplier: float = 1.0
    depth_divisible_by: int = 8
    min_depth: int = 8
    expand_ratio: float = 6.0
    output_stride: int = 32
    first_layer_is_expansion: bool = True
    finegrained_output: bool = True
    hidden_act: str = "relu6"
    tf_padding: bool = True
    classifier_dropout_prob: float = 0.8
    layer_norm_eps: float = 0.001
    semantic_loss_ignore_index: int = 255
    model_type: str = "mobilenet_v2"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MobileNetV2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("output_stride", c.output_stride, (8, 16, 32))
    if not 0.01 <= c.depth_multiplier <= 64 or not 1 <= c.depth_divisible_by <= 1024:
        raise FormatError(f"config.json: depth_multiplier {c.depth_multiplier} is out of range")
    return MobileNetV2(c, classes_of(config, "MobileNetV2"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision and timm under transformers' names."""
    told = TENSORS[0] in tensors or "blocks.0.0.conv_dw.weight" in tensors
    return {_renamed(n): t for n, t in tensors.items()} if told else dict(tensors)


def _renamed(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if module in _TOP:
        return f"mobilenet_v2.{_TOP[module]}.{kind}"
    if match := _TV.fullmatch(name):
        layer, block_module = int(match[1]), match[2]
        table, path = (_FIRST, "conv_stem") if layer == 1 else (_BLOCK, f"layer.{layer - 2}")
    elif match := _TM.fullmatch(name):
        stage, block_module = int(match[1]), match[3]
        layer = (_STAGES[stage] if stage < len(_STAGES) else 99) + int(match[2])
        table, path = (_TIMM_BLOCK, f"layer.{layer - 1}") if layer else (_TIMM_FIRST, "conv_stem")
    else:
        return f"classifier.{kind}" if module in ("classifier", "classifier.1") else name
    return f"mobilenet_v2.{path}.{table[block_module]}.{kind}" if block_module in table else name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm: its widths tell the multiplier."""
    by_name = rename_tensors(tensors)
    try:
        stem = by_name["mobilenet_v2.conv_stem.first_conv.convolution.weight"].shape
        first = by_name["mobilenet_v2.conv_stem.reduce_1x1.convolution.weight"].shape[0]
        layers = [
            by_name[f"mobilenet_v2.layer.{i}.reduce_1x1.convolution.weight"].shape[0]
            for i in range(16)
        ]
        head = by_name["mobilenet_v2.conv_1x1.convolution.weight"].shape[0]
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no MobileNetV2 of torchvision or timm") from None
    wanted = stem[0], [first, *layers], head
    for step in range(1, 401):
        told = SimpleNamespace(
            depth_multiplier=step / 100, depth_divisible_by=8, min_depth=8, finegrained_output=True
        )
        if widths_of(told) == wanted:
            classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
            kind = "ForImageClassification" if classes else "Model"
            return {
                "model_type": "mobilenet_v2",
                "architectures": [f"MobileNetV2{kind}"],
                "num_labels": classes,
                "depth_multiplier": step / 100,
                "num_channels": stem[1],
                "tf_padding": False,
                "layer_norm_eps": 1e-5,
            }
    raise FormatError(f"the checkpoint is no MobileNetV2: it has the widths {wanted}")


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return config_of(tensors)


FAMILY = Family(
    model_types=("mobilenet_v2",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="mobilenet_v2.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("mobilenetv2_",),
    timm_config=timm_config,
)
