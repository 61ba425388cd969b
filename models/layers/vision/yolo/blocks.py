"""Blocks of YOLOv8 and YOLO11 (Jocher et al., 2023 and 2024), sized by a checkpoint's tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import CONV_BN, ConvNorm

EPS = 1e-3  # of the norms of detectors
_HEAD = 64  # channels of a head of attention


class Shapes:
    """The shapes of a checkpoint's tensors, under a path; eps: of the norms."""

    def __init__(self, tensors: Mapping[str, Any], path: str = "", eps: float = EPS) -> None:
        self.tensors, self.path, self.eps = tensors, path, eps

    def __truediv__(self, part: str | int) -> Shapes:
        return Shapes(self.tensors, f"{self.path}{part}.", self.eps)

    def __contains__(self, name: str) -> bool:
        return f"{self.path}{name}" in self.tensors

    def of(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; FormatError where the checkpoint has none."""
        try:
            tensor_or_shape = self.tensors[f"{self.path}{name}"]
        except KeyError:
            raise FormatError(f"the checkpoint has no tensor {self.path}{name!r}") from None
        return tuple(getattr(tensor_or_shape, "shape", tensor_or_shape))

    def count(self, part: str) -> int:
        """How many numbered modules lie at a part."""
        pattern = re.compile(rf"{re.escape(self.path)}{part}\.(\d{{1,3}})\.")
        return len({m[1] for n in self.tensors if (m := pattern.match(n))})


def conv(s: Shapes, stride: int = 1, *, deep: bool = False, act: bool = True) -> ConvNorm:
    """A convolution with its norm; deep: of each channel."""
    outputs, inputs, kernel, _ = s.of("conv.weight")
    return ConvNorm(
        outputs if deep else inputs,
        outputs,
        kernel,
        stride,
        act="silu" if act else "",
        groups=outputs if deep else 1,
        eps=s.eps,
        names=CONV_BN,
    )


class Bottleneck(nn.Module):
    """Two convolutions; with the input added, where it is as wide."""

    def __init__(self, s: Shapes, adds: bool) -> None:
        self.cv1, self.cv2 = conv(s / "cv1"), conv(s / "cv2")
        self.adds = adds and (s / "cv1").of("conv.weight")[1] == (s / "cv2").of("conv.weight")[0]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.cv2(self.cv1(x))
        return x + y if self.adds else y


class C3k(nn.Module):
    """Bottlenecks beside a shortcut of one convolution."""

    def __init__(self, s: Shapes, adds: bool) -> None:
        self.cv1, self.cv2, self.cv3 = (conv(s / f"cv{i}") for i in (1, 2, 3))
        self.m = nn.Sequential(*[Bottleneck(s / "m" / i, adds) for i in range(s.count("m"))])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.cv3(cat([self.m(self.cv1(x)), self.cv2(x)], 1))
        return out


class C2f(nn.Module):
    """Half of the channels pass block after block, and all of that is joined."""

    def __init__(self, s: Shapes, adds: bool) -> None:
        self.cv1, self.cv2 = conv(s / "cv1"), conv(s / "cv2")
        blocks: list[nn.Module] = []
        for i in range(s.count("m")):
            shapes = s / "m" / i
            blocks.append(
                C3k(shapes, adds) if "cv3.conv.weight" in shapes else Bottleneck(shapes, adds)
            )
        self.m = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.cv1(x).chunk(2, 1))
        for block in self.m:
            parts.append(block(parts[-1]))
        out: Tensor = self.cv2(cat(parts, 1))
        return out


class SPPF(nn.Module):
    """Three poolings of 5, one after another, joined."""

    def __init__(self, s: Shapes) -> None:
        self.cv1, self.cv2 = conv(s / "cv1"), conv(s / "cv2")

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(max_pool2d(parts[-1], 5, 1, 2))
        out: Tensor = self.cv2(cat(parts, 1))
        return out


class _Attention(nn.Module):
    """Attention over all places, with keys of half a head's width and a convolved value."""

    def __init__(self, s: Shapes) -> None:
        self.qkv, self.proj = conv(s / "qkv", act=False), conv(s / "proj", act=False)
        self.pe = conv(s / "pe", deep=True, act=False)
        width = (s / "proj").of("conv.weight")[0]
        self.heads = max(1, width // _HEAD)
        self.head = width // self.heads
        self.key = self.head // 2

    def forward(self, x: Tensor) -> Tensor:
        batch, width, tall, wide = x.shape
        qkv = self.qkv(x).reshape(batch, self.heads, -1, tall * wide)
        q, k, v = qkv.split([self.key, self.key, self.head], 2)
        seen = scaled_dot_product_attention(
            *(head_vectors.transpose(2, 3) for head_vectors in (q, k, v))
        )
        seen = seen.transpose(2, 3).reshape(batch, width, tall, wide)
        out: Tensor = self.proj(seen + self.pe(v.reshape(batch, width, tall, wide)))
        return out


class _PSABlock(nn.Module):
    def __init__(self, s: Shapes) -> None:
        self.attn = _Attention(s / "attn")
        self.ffn = nn.Sequential(conv(s / "ffn" / 0), conv(s / "ffn" / 1, act=False))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        y: Tensor = self.ffn(x)
        return x + y


class C2PSA(nn.Module):
    """Half of the channels pass attention, and are joined with the others."""

    def __init__(self, s: Shapes) -> None:
        self.cv1, self.cv2 = conv(s / "cv1"), conv(s / "cv2")
        self.m = nn.Sequential(*[_PSABlock(s / "m" / i) for i in range(s.count("m"))])

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.cv1(x).chunk(2, 1)
        out: Tensor = self.cv2(cat([first, self.m(second)], 1))
        return out


def put_all(root: nn.Module, path: str, s: Shapes, kinds: str) -> None:
    """A sequence of convolutions at a path, by a letter each.

    c: with a norm; d: of each channel; l: the last, with a bias and no norm. A pair "dc" in one
    module of the sequence is written (dc).
    """
    number = 0
    for token in re.findall(r"\(\w+\)|\w", kinds):
        home, here = f"{path}.{number}", s / number
        if token == "l":
            outputs, inputs, kernel, _ = here.of("weight")
            put(root, home, nn.Conv2d(inputs, outputs, kernel))
        elif token.startswith("("):
            put(
                root,
                home,
                nn.Sequential(
                    *[conv(here / i, deep=letter == "d") for i, letter in enumerate(token[1:-1])]
                ),
            )
        else:
            put(root, home, conv(here, deep=token == "d"))
        number += 1
