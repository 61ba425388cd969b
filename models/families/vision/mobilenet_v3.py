"""MobileNetV3 (Howard et al., 2019) of timm and torchvision, MobileNetV4 (Qin et al., 2024)."""

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
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision import timm_mobile as timm
from rushlight.models.layers.vision.convolutional.universal import MobileAttention, Universal
from rushlight.models.layers.vision.mobile import Block, MobileNet, MobileSpec
from rushlight.models.layers.vision.model import numbered_classes

TENSORS = ("features.1.block.0.0.weight",)
# Strides of the stages' first blocks, and the first stage with a hard swish.
_LARGE, _SMALL = ((1, 2, 2, 2, 1, 2, 1), 3), ((2, 2, 2, 1, 2, 1), 2)
_FOURTH = (2, 2, 2, 2, 1)
_TENSORFLOW = ("tf_", "torchvision", "mobilenetv3_rw")  # the larger term in their norms
_COUNTS = {15: (1, 2, 3, 4, 2, 3), 11: (1, 2, 3, 2, 3)}  # torchvision's blocks by stage
_TV = re.compile(r"features\.(\d{1,2})\.block\.(\d)\.(\w+)\.(\w+)")
_BLOCK = re.compile(r"blocks\.(\d)\.(\d{1,2})\.([\w.]+)\.(\w+)")


@dataclass
class Config:
    """The keys of a config.json; blocks: what `timm_config` says of each block.

    early: as timm's mobilenetv3_rw, of before the paper's code: no sum in the first stage, and a
    squeeze has the activation of its block.
    """

    stem: int
    head: int
    blocks: list[Any]
    hidden_act: str
    padding: str = "even"
    eps: float = 1e-5
    head_bias: bool = True
    early: bool = False
    num_channels: int = 3
    num_labels: int = 1000
    model_type: str = "mobilenet_v3"


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MobileNet:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    blocks: list[Block | tuple[str, nn.Module]] = []
    last = c.stem
    for block in c.blocks:
        stage, layer, kind, *sizes = block
        path = f"blocks.{stage}.{layer}"
        if kind == "universal":
            inputs, last, wide, start, middle, stride, scaled = sizes
            blocks.append(
                (
                    path,
                    Universal(
                        inputs, last, wide, start, middle, stride, c.hidden_act, c.eps, bool(scaled)
                    ),
                )
            )
        elif kind == "attention":
            width, heads, key, value, halved, scaled = sizes
            blocks.append(
                (path, MobileAttention(width, heads, key, value, halved, c.eps, bool(scaled)))
            )
        else:
            inputs, last, wide, kernel, stride, squeezed, act = sizes
            choose("the activation of a block", act, tuple(ACTIVATIONS))
            skips = stride == 1 and inputs == last and not (c.early and stage == 0)
            blocks.append(
                Block(
                    kind,
                    inputs,
                    last,
                    wide,
                    kernel,
                    stride,
                    squeezed,
                    skips and kind != "single",
                    c.padding,
                    timm.paths_of(stage, layer, kind),
                    act,
                    True,
                    "" if c.early else "relu",
                )
            )
    top = {"stem": "conv_stem", "stem_norm": "bn1", "head": "conv_head"}
    if any(n.startswith("norm_head.") for n in names):
        top["head_norm"] = "norm_head"
    spec = MobileSpec(
        c.num_channels,
        c.stem,
        c.head,
        c.padding,
        c.hidden_act,
        c.eps,
        blocks,
        top,
        last,
        True,
        c.head_bias,
    )
    return MobileNet(c, spec, numbered_classes(c.num_labels, "num_labels"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of torchvision under timm's names."""
    if TENSORS[0] not in tensors:
        return dict(tensors)
    blocks = {int(m[1]) for n in tensors if (m := _TV.fullmatch(n))}
    counts = _COUNTS.get(len(blocks))
    if counts is None:
        raise FormatError(f"a MobileNetV3 of {len(blocks)} blocks is not supported; 11 or 15 are")
    places: dict[int, str] = {}
    for stage, count in enumerate(counts):
        for layer in range(count):
            places[len(places) + 1] = f"blocks.{stage}.{layer}"
    end = len(places) + 1
    top = {
        "features.0.0": "conv_stem",
        "features.0.1": "bn1",
        "classifier.0": "conv_head",
        "classifier.3": "classifier",
        f"features.{end}.0": f"blocks.{len(counts)}.0.conv",
        f"features.{end}.1": f"blocks.{len(counts)}.0.bn1",
    }
    by_name = {}
    for name, t in tensors.items():
        module, _, kind = name.rpartition(".")
        if match := _TV.fullmatch(name):
            number, position, inner, kind = int(match[1]), int(match[2]), match[3], match[4]
            path = _part(tensors, number, position, inner)
            by_name[f"{places.get(number, '')}.{path}.{kind}"] = t
        else:
            new = f"{top.get(module, module)}.{kind}"
            by_name[new] = t.reshape(*t.shape, 1, 1) if new == "conv_head.weight" else t
    return by_name


def _part(tensors: Mapping[str, Tensor], number: int, part: int, inner: str) -> str:
    """timm's path of a part of torchvision's block."""
    base = f"features.{number}.block."
    if inner in ("fc1", "fc2"):
        return "se.conv_reduce" if inner == "fc1" else "se.conv_expand"
    before = any(f"{base}{i}.fc1.weight" in tensors for i in range(part))
    first = tensors.get(f"{base}0.0.weight")
    kind = "inverted" if first is not None and first.shape[-1] == 1 else "plain"
    how, order = timm.KINDS[kind], [n for n in ("widen", "deep", "narrow") if n in timm.KINDS[kind]]
    return how[order[min(part - before, len(order) - 1)] + ("_norm" if inner == "1" else "")]


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of torchvision."""
    return timm_config({"architecture": "torchvision"}, tensors)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's, or for torchvision's tensors."""
    name, by_name = str(config.get("architecture")), rename_tensors(tensors)
    if "_aa_" in name or "_blur_" in name:
        raise FormatError(f"timm's {name} is not supported: it smooths before its strides")
    parts: dict[tuple[int, int], dict[str, Tensor]] = {}
    for tensor, t in by_name.items():
        if (match := _BLOCK.fullmatch(tensor)) and match[4] in ("weight", "gamma"):
            parts.setdefault((int(match[1]), int(match[2])), {})[match[3]] = t
    fourth = name.startswith("mobilenetv4_")
    stages = 1 + max((stage for stage, _ in parts), default=-1)
    strides, swish = (_FOURTH, 0) if fourth else _LARGE if stages == 7 else _SMALL
    try:
        stem, head = by_name["conv_stem.weight"].shape, by_name["conv_head.weight"].shape
        blocks, inputs = [], stem[0]
        for (stage, layer), block_weights in sorted(parts.items()):
            stride = strides[stage] if layer == 0 else 1
            told = _block(block_weights, inputs, stride)
            if len(told) == 7 and told[0] not in ("universal", "attention"):
                act = "relu" if fourth or "minimal" in name or stage < swish else "hardswish"
                told.append("gelu" if "hybrid_large" in name else act)
            inputs = told[2] if told[0] != "attention" else inputs
            blocks.append([stage, layer, *told])
    except (KeyError, IndexError, ValueError):
        raise FormatError(f"{name}: the checkpoint is no MobileNet of version 3 or 4") from None
    plain_acts = fourth or "minimal" in name
    act = "gelu" if "hybrid_large" in name else "relu" if plain_acts else "hardswish"
    classes = by_name.get("classifier.weight")
    return {
        "model_type": f"mobilenet_v{4 if fourth else 3}",
        "stem": stem[0],
        "head": head[0],
        "blocks": blocks,
        "num_channels": stem[1],
        "head_bias": "conv_head.bias" in by_name,
        "hidden_act": act,
        "padding": "same" if name.startswith("tf_") else "even",
        "eps": 1e-3 if name.startswith(_TENSORFLOW) else 1e-5,
        "num_labels": 0 if classes is None else classes.shape[0],
        "early": name == "mobilenetv3_rw",
    }


def _block(held: Mapping[str, Tensor], inputs: int, stride: int) -> list[Any]:
    """The kind of a block and its sizes, for config.json."""

    def kernel(name: str) -> int:
        return held[name].shape[-1] if name in held else 0

    scaled = int("layer_scale" in held)
    if "pw_exp.conv" in held:
        return [
            "universal",
            inputs,
            held["pw_proj.conv"].shape[0],
            held["pw_exp.conv"].shape[0],
            kernel("dw_start.conv"),
            kernel("dw_mid.conv"),
            stride,
            scaled,
        ]
    if "attn.query.proj" in held:
        key, value = (held[f"attn.{n}.proj"].shape[0] for n in ("key", "value"))
        return [
            "attention",
            inputs,
            held["attn.query.proj"].shape[0] // key,
            key,
            value,
            kernel("attn.key.down_conv"),
            scaled,
        ]
    kind = next(k for k, how in timm.KINDS.items() if set(how.values()) <= {*held})
    how = timm.KINDS[kind]
    deep, last = held[how["deep"]], held[how.get("narrow", how["deep"])]
    squeeze = held.get("se.conv_reduce")
    return [
        kind,
        inputs,
        last.shape[0],
        deep.shape[0],
        deep.shape[-1],
        stride,
        0 if squeeze is None else squeeze.shape[0],
    ]


FAMILY = Family(
    model_types=("mobilenet_v3", "mobilenet_v4"),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
    timm=("mobilenetv3_", "tf_mobilenetv3_", "mobilenetv4_"),
    timm_config=timm_config,
)
