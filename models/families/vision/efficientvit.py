"""EfficientViT (Liu et al., 2023, of Microsoft Research Asia): cascaded attention in windows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.naming import depths_of, put
from rushlight.models.layers.vision.attention.windows import (
    distance_biases,
    filled,
    joined,
    parted,
)
from rushlight.models.layers.vision.conv import CONV_BN, ConvNorm
from rushlight.models.layers.vision.convolutional.fused import squeezed
from rushlight.models.layers.vision.model import ImageModel, numbered_classes

TIMM = (
    "efficientvit_m0",
    "efficientvit_m1",
    "efficientvit_m2",
    "efficientvit_m3",
    "efficientvit_m4",
    "efficientvit_m5",
)


@dataclass
class Config:
    """The keys of a config.json. stages: [width, key, depth, heads, window] of each."""

    stages: list[Any]
    kernels: list[int]
    num_channels: int = 3
    num_labels: int = 1000
    model_type: str = "efficientvit"


def _conv(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: str = ""
) -> ConvNorm:
    return ConvNorm(inputs, outputs, kernel, stride, groups=groups, act=act, names=CONV_BN)


class _Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        self.pw1, self.pw2 = _conv(width, 2 * width, act="relu"), _conv(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.pw2(self.pw1(x))
        return out


class _Added(nn.Module):
    """x + m(x)."""

    def __init__(self, m: nn.Module) -> None:
        self.m = m

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.m(x)
        return out


class _Cascade(nn.Module):
    """Heads in turn: each reads its channels and what the head before it made."""

    def __init__(self, width: int, key: int, heads: int, window: int, kernels: list[int]) -> None:
        if heads < 1 or width % heads or len(kernels) < heads:
            raise FormatError(f"config.json: {width} channels do not fit {heads} heads")
        self.key, self.value, self.window = key, width // heads, window
        self.qkvs = nn.ModuleList(
            [_conv(width // heads, 2 * key + self.value) for _ in range(heads)]
        )
        self.dws = nn.ModuleList([_conv(key, key, kernels[i], groups=key) for i in range(heads)])
        put(self, "proj.1", _conv(width, width))
        self.attention_biases = parameter(heads, window * window)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, tall, wide = x.shape
        bias, heads = distance_biases(self.attention_biases, self.window), []
        last: Tensor | None = None
        for i, channels in enumerate(x.chunk(len(self.qkvs), 1)):
            qkv = self.qkvs[i](channels if last is None else last + channels)
            q, k, v = qkv.split([self.key, self.key, self.value], 1)
            q, k, v = (projected.flatten(2) for projected in (self.dws[i](q), k, v))
            scores = (q * self.key**-0.5).transpose(1, 2) @ k + bias[i]
            last = (v @ scores.softmax(-1).transpose(1, 2)).reshape(batch, -1, tall, wide)
            heads.append(last)
        out: Tensor = self.get_submodule("proj.1")(cat(heads, 1).relu())
        return out


class _Windows(nn.Module):
    def __init__(self, attention: _Cascade) -> None:
        self.attn = attention

    def forward(self, x: Tensor) -> Tensor:
        n, (tall, wide) = self.attn.window, x.shape[2:]
        if (tall, wide) == (n, n):
            attended: Tensor = self.attn(x)
            return attended
        x = filled(x.permute(0, 2, 3, 1), n)
        windows = self.attn(parted(x, n).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        windows = joined(windows, (x.shape[1], x.shape[2]))[:, :tall, :wide]
        return windows.permute(0, 3, 1, 2)


class _Block(nn.Module):
    def __init__(self, width: int, attention: _Cascade) -> None:
        self.dw0 = _Added(_conv(width, width, 3, groups=width))
        self.ffn0 = _Added(_Mlp(width))
        self.mixer = _Added(_Windows(attention))
        self.dw1 = _Added(_conv(width, width, 3, groups=width))
        self.ffn1 = _Added(_Mlp(width))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.ffn1(self.dw1(self.mixer(self.ffn0(self.dw0(x)))))
        return out


class _Merging(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        wide = 4 * inputs
        self.conv1 = _conv(inputs, wide, act="relu")
        self.conv2 = _conv(wide, wide, 3, 2, wide, act="relu")
        put(self, "se.fc1", nn.Conv2d(wide, wide // 4, 1))
        put(self, "se.fc2", nn.Conv2d(wide // 4, wide, 1))
        self.conv3 = _conv(wide, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.conv1(x))
        out: Tensor = self.conv3(squeezed(self.get_submodule("se"), x))
        return out


class EfficientViT(ImageModel):
    """EfficientViT under timm's names."""

    classifier_path = "head.linear"

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        before = first = c.stages[0][0]
        widths = (c.num_channels, first // 8, first // 4, first // 2, first)
        for i in range(4):
            act = "relu" if i < 3 else ""
            put(self, f"patch_embed.conv{i + 1}", _conv(widths[i], widths[i + 1], 3, 2, act=act))
        for i, (width, key, depth, heads, window) in enumerate(c.stages):
            if i:
                put(self, f"stages.{i}.downsample.res1", _pair(before))
                put(self, f"stages.{i}.downsample.patchmerge", _Merging(before, width))
                put(self, f"stages.{i}.downsample.res2", _pair(width))
            for j in range(depth):
                attention = _Cascade(width, key, heads, window, c.kernels)
                put(self, f"stages.{i}.blocks.{j}", _Block(width, attention))
            before = width
        if self.labels:
            put(self, "head.bn", nn.BatchNorm1d(before))
            put(self, "head.linear", nn.Linear(before, c.num_labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.checked(pixels, self.config.num_channels)
        for conv in self.get_submodule("patch_embed").children():
            x = conv(x)
        for stage in self.get_submodule("stages").children():
            if hasattr(stage, "downsample"):
                for module in stage.downsample.children():
                    x = module(x)
            for block in stage.get_submodule("blocks").children():
                x = block(x)
        return x

    def forward(self, pixels: Tensor) -> Tensor:
        if not self.labels:
            return self.hidden(pixels)
        head = self.get_submodule("head")
        logits: Tensor = head.get_submodule("linear")(
            head.get_submodule("bn")(self.encode_image(pixels))
        )
        return logits


def _pair(width: int) -> nn.Sequential:
    return nn.Sequential(_Added(_conv(width, width, 3, groups=width)), _Added(_Mlp(width)))


def build(config: dict[str, Any], names: Collection[str]) -> EfficientViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    sizes_fit = all(type(n) is int and 1 <= n <= 1 << 14 for stage in c.stages for n in stage)
    if not c.stages or not sizes_fit or any(len(stage) != 5 for stage in c.stages):
        raise FormatError(f"config.json: stages is {c.stages!r:.60}; each has five sizes")
    return EfficientViT(c)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    stages = []
    try:
        stem = tensors["patch_embed.conv1.conv.weight"].shape[1]
        for i, depth in enumerate(depths_of(tensors, "stages.", "blocks")):
            base = f"stages.{i}.blocks.0.mixer.m.attn"
            rows, each = tensors[f"{base}.qkvs.0.conv.weight"].shape[:2]
            heads, places = tensors[f"{base}.attention_biases"].shape
            stages.append([each * heads, (rows - each) // 2, depth, heads, math.isqrt(places)])
        most = max(range(len(stages)), key=lambda i: stages[i][3])
        kernels = [
            tensors[f"stages.{most}.blocks.0.mixer.m.attn.dws.{i}.conv.weight"].shape[-1]
            for i in range(stages[most][3])
        ]
    except (KeyError, ValueError, IndexError):
        raise FormatError("the checkpoint is no EfficientViT of timm") from None
    head = tensors.get("head.linear.weight")
    return {
        "model_type": "efficientvit",
        "num_channels": stem,
        "stages": stages,
        "kernels": kernels,
        "num_labels": 0 if head is None else head.shape[0],
    }


FAMILY = Family(
    model_types=("efficientvit",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    timm=TIMM,
    timm_config=timm_config,
)
