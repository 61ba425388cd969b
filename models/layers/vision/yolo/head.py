"""YOLO's heads without anchors: boxes by distributions, key points, and masks of prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.yolo.blocks import Shapes, conv, put_all

STRIDES = (8, 16, 32)


class Head(nn.Module):
    """Maps of three strides -> what each place says of an object."""

    def __init__(self, s: Shapes) -> None:
        light = "cv3.0.0.0.conv.weight" in s  # YOLO11's classes have convolutions of each channel
        self.more = "cv4.0.0.conv.weight" in s
        for i in range(len(STRIDES)):
            put_all(self, f"cv2.{i}", s / "cv2" / i, "ccl")
            put_all(self, f"cv3.{i}", s / "cv3" / i, "(dc)(dc)l" if light else "ccl")
            if self.more:
                put_all(self, f"cv4.{i}", s / "cv4" / i, "ccl")
        self.bins = (s / "dfl").of("conv.weight")[1]
        if (s / "cv2" / 0).of("2.weight")[0] != 4 * self.bins:
            raise FormatError("the head's boxes do not fit its distribution of distances")
        put(self, "dfl.conv", nn.Conv2d(self.bins, 1, 1, bias=False))
        if "proto.cv1.conv.weight" in s:
            proto = s / "proto"
            put(self, "proto.cv1", conv(proto / "cv1"))
            inputs, outputs, kernel, _ = proto.of("upsample.weight")
            put(self, "proto.upsample", nn.ConvTranspose2d(inputs, outputs, kernel, kernel))
            put(self, "proto.cv2", conv(proto / "cv2"))
            put(self, "proto.cv3", conv(proto / "cv3"))

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits (batch, places, classes), boxes (batch, places, 4) and what cv4 says, or None.

        Boxes are center, width and height in pixels.
        """
        boxes, classes, more = [], [], []
        for i, x in enumerate(maps):
            boxes.append(_through(self.get_submodule(f"cv2.{i}"), x).flatten(2))
            classes.append(_through(self.get_submodule(f"cv3.{i}"), x).flatten(2))
            if self.more:
                more.append(_through(self.get_submodule(f"cv4.{i}"), x).flatten(2))
        centers, stride = self.places(maps)
        sides = cat(boxes, 2)
        batch, _, count = sides.shape
        shares = sides.reshape(batch, 4, self.bins, count).transpose(1, 2).softmax(1)
        apart = self.get_submodule("dfl.conv")(shares).reshape(batch, 4, count).transpose(1, 2)
        low, high = centers - apart[..., :2], centers + apart[..., 2:]
        corners = cat([(low + high) / 2, high - low], 2) * stride
        rest = cat(more, 2).transpose(1, 2) if more else None
        return cat(classes, 2).transpose(1, 2), corners, rest

    def places(self, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The middles (1, places, 2) of the maps' places, in steps of their stride, and these."""
        middles, steps = [], []
        for x, stride in zip(maps, STRIDES, strict=True):
            tall, wide = x.shape[2:]
            rows, columns = (arange(n, device=x.device).to(x.dtype) + 0.5 for n in (tall, wide))
            across = columns.unsqueeze(0).expand(tall, wide).reshape(-1, 1)
            down = rows.unsqueeze(1).expand(tall, wide).reshape(-1, 1)
            middles.append(cat([across, down], 1))
            steps.append(across * 0 + stride)
        return cat(middles, 0).unsqueeze(0), cat(steps, 0).unsqueeze(0)

    def points(self, maps: Sequence[Tensor], said: Tensor, each: int) -> Tensor:
        """Key points (batch, places, n, each) in pixels; the third number is a share."""
        centers, stride = self.places(maps)
        batch, count, _ = said.shape
        said = said.reshape(batch, count, -1, each)
        moved = (said[..., :2] * 2 + (centers.unsqueeze(2) - 0.5)) * stride.unsqueeze(2)
        return moved if each == 2 else cat([moved, said[..., 2:].sigmoid()], 3)

    def prototypes(self, x: Tensor) -> Tensor:
        """(batch, n, height / 4, width / 4) of the finest map."""
        net: Any = self.get_submodule("proto")
        prototypes: Tensor = net.cv3(net.cv2(net.upsample(net.cv1(x))))
        return prototypes


def _through(parts: nn.Module, x: Tensor) -> Tensor:
    for layer in parts.children():
        x = layer(x)
    return x
