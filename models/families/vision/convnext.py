"""ConvNeXt (Liu et al., 2022) and ConvNeXt V2 (Woo et al., 2023)."""

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
from rushlight.models.layers.naming import depths_of
from rushlight.models.layers.vision.convnext import NORMS, ConvNeXt
from rushlight.models.layers.vision.model import classes_of
from rushlight.models.layers.vision.outputs.stages import stages_of

TENSORS = ("features.1.0.layer_scale",)
BASES = {"convnext": "ConvNext", "convnextv2": "ConvNextV2"}
# timm's parts of a layer and torchvision's, by transformers'.
_PARTS = {
    "gamma": "layer_scale_parameter",
    "layer_scale": "layer_scale_parameter",
    "conv_dw": "dwconv",
    "block.0": "dwconv",
    "norm": "layernorm",
    "block.2": "layernorm",
    "mlp.fc1": "pwconv1",
    "block.3": "pwconv1",
    "mlp.fc2": "pwconv2",
    "block.5": "pwconv2",
    "mlp.grn": "grn",
}
_TOP = {
    "features.0.0": "embeddings.patch_embeddings",
    "features.0.1": "embeddings.layernorm",
    "head.norm": "layernorm",
    "norm_pre": "layernorm",
    "classifier.0": "layernorm",
}
_TIMM = re.compile(r"stages\.(\d)\.(?:downsample\.(\d)|blocks\.(\d{1,3})\.([\w.]+))")
_TV = re.compile(r"features\.(\d)\.(\d{1,3})(?:\.(\w[\w.]*))?")


@dataclass
class Config:
    """The keys of config.json, and of timm's checkpoints.

    norm: "layer", "rms" or "simple"; inner_eps: of all but the last. norm_first: the last before
    the mean. stem_width: channels between the two convolutions of an overlapping stem, stem_act:
    with a GELU after the first. inner_head: channels of the product before the classifier.
    """

    own = ("norm", "inner_eps", "norm_first", "stem_width", "stem_act", "inner_head")

    num_channels: int = 3
    patch_size: int = 4
    num_stages: int = 4
    hidden_sizes: list[int] = field(default_factory=lambda: [96, 192, 384, 768])
    depths: list[int] = field(default_factory=lambda: [3, 3, 9, 3])
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    layer_scale_init_value: float = 1e-6
    drop_path_rate: float = 0.0
    image_size: Any = 224
    out_features: list[Any] | None = None  # of a backbone
    out_indices: list[Any] | None = None
    norm: str = "layer"
    inner_eps: float = 1e-6
    norm_first: bool = False
    stem_width: int = 0
    stem_act: bool = False
    inner_head: int = 0
    model_type: str = "convnext"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ConvNeXt:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("norm", c.norm, tuple(NORMS))
    if not c.depths or not len(c.depths) == len(c.hidden_sizes) == c.num_stages:
        raise FormatError(
            f"config.json: num_stages {c.num_stages}, depths {c.depths} and "
            f"hidden_sizes {c.hidden_sizes} do not agree"
        )
    backbone = config.get("architectures") == [f"{BASES[c.model_type]}Backbone"]
    named = stages_of(config, len(c.depths)) if backbone else ()
    scaled = c.model_type == "convnext" and c.layer_scale_init_value > 0
    return ConvNeXt(c, classes_of(config, BASES[c.model_type]), scaled, named)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm and torchvision under transformers' names."""
    base = "convnextv2." if any(".grn." in n for n in tensors) else "convnext."
    if "embeddings.layernorm.weight" in tensors:  # of a model without a head
        return {n if n.startswith("hidden") else base + n: t for n, t in tensors.items()}
    if "stem.0.weight" not in tensors and TENSORS[0] not in tensors:
        return dict(tensors)
    by_name, stem = {}, _stem(tensors)
    for name, t in tensors.items():
        new = _renamed(name, base, stem)
        if new.endswith("layer_scale_parameter"):
            t = t.reshape(-1)
        elif ".grn." in new:
            t = t.reshape(1, 1, 1, -1)
        elif ".pwconv" in new and t.ndim == 4:  # convolutions of single pixels
            t = t.reshape(*t.shape[:2])
        by_name[new] = t
    return by_name


def _stem(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The stem's convolution and norm, or the two convolutions with an activation's place."""
    numbers = [i for i in range(4) if f"stem.{i}.weight" in tensors]
    paths = ["embeddings.patch_embeddings", "embeddings.layernorm"]
    if len(numbers) == 3:
        paths = [f"{paths[0]}.0", f"{paths[0]}.2", paths[1]]
    return {f"stem.{i}": path for i, path in zip(numbers, paths, strict=False)}


def _renamed(name: str, base: str, stem: Mapping[str, str]) -> str:
    module, _, kind = name.rpartition(".")
    if path := stem.get(module) or _TOP.get(module):
        return f"{base}{path}.{kind}"
    if match := _TIMM.fullmatch(module if kind != "gamma" else name):
        stage = f"{base}encoder.stages.{match[1]}"
        if match[2] is not None:
            return f"{stage}.downsampling_layer.{match[2]}.{kind}"
        inner = _PARTS.get(match[4], match[4])
        return f"{stage}.layers.{match[3]}.{inner}" + ("" if kind == "gamma" else f".{kind}")
    if match := _TV.fullmatch(module if kind != "layer_scale" else name):
        number = int(match[1])
        stage = f"{base}encoder.stages.{(number - 1 if number % 2 else number) // 2}"
        if number % 2 == 0:
            return f"{stage}.downsampling_layer.{match[2]}.{kind}"
        inner = _PARTS.get(match[3] or "", match[3])
        return f"{stage}.layers.{match[2]}.{inner}" + ("" if kind == "layer_scale" else f".{kind}")
    if module == "head.pre_logits.fc":
        return f"pre_logits.{kind}"
    return f"classifier.{kind}" if module in ("head.fc", "classifier.2") else name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision or timm."""
    by_name = rename_tensors(tensors)
    kind = "convnextv2" if any(".grn." in n for n in by_name) else "convnext"
    base = f"{kind}.encoder.stages."
    depths = depths_of(by_name, base, "layers")
    count = len(depths)
    try:
        between = by_name.get(f"{kind}.embeddings.patch_embeddings.0.weight")
        stem = (
            by_name[f"{kind}.embeddings.patch_embeddings.weight"] if between is None else between
        ).shape
        widths = [by_name[f"{base}{i}.layers.0.dwconv.weight"].shape[0] for i in range(count)]
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no ConvNeXt of torchvision or timm") from None
    if f"{kind}.layernorm.weight" not in by_name or len(stem) != 4:
        raise FormatError("the checkpoint is a kind of ConvNeXt that is not supported")
    classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
    scaled = any(n.endswith("layer_scale_parameter") for n in by_name)
    return {
        "model_type": kind,
        "num_labels": classes,
        "num_channels": stem[1],
        "patch_size": stem[2],
        "architectures": [f"{BASES[kind]}{'ForImageClassification' if classes else 'Model'}"],
        "num_stages": count,
        "hidden_sizes": widths,
        "depths": depths,
        "layer_norm_eps": 1e-6,
        "layer_scale_init_value": 1e-6 if scaled else 0.0,
        "norm_first": "norm_pre.weight" in tensors,
        "stem_width": 0 if between is None else stem[0],
        "stem_act": "stem.3.weight" in tensors,
        "inner_head": by_name["pre_logits.weight"].shape[0]
        if "pre_logits.weight" in by_name
        else 0,
        "norm": "layer" if f"{kind}.layernorm.bias" in by_name else "rms",
    }


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    name, values = str(config.get("architecture")), config_of(tensors)
    if "_zepto_rms" in name:
        values["norm"] = "simple"
    if "_xxlarge" in name:
        values |= {"inner_eps": 1e-5, "layer_norm_eps": 1e-5}
    return values


FAMILY = Family(
    model_types=("convnext", "convnextv2"),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("convnext",),
    timm_config=timm_config,
)
