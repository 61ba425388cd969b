"""YOLOv3 (Redmon and Farhadi, 2018) of darknet's files, the tiny one too: layers as a .cfg says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.activations import leaky_relu
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu, sigmoid
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.outputs.detection import Detector
from rushlight.models.layers.vision.yolo import darknet_files
from rushlight.models.layers.vision.yolo.darknet import checked_layers, outputs, padding

_EPS = 1e-5  # of norms; darknet's own is 1e-6 outside of the root on a CPU, 1e-5 inside on a GPU
_ACTIVATIONS: dict[str, Any] = {
    "linear": lambda x: x,
    "leaky": lambda x: leaky_relu(x, 0.1),
    "relu": relu,
    "logistic": sigmoid,
}


@dataclass
class Config:
    """The keys of config.json: those of [net], and the layers with the keys of a .cfg."""

    width: int
    height: int
    layers: list[Any]
    channels: int = 3
    model_type: str = "yolov3"


class YoloV3(Detector):
    """Pixels from 0 to 1 -> logits (batch, places, classes); see `detect`.

    A place is a map's row, column and anchor, the maps in the order of their layers.
    """

    independent, overlap, several = True, 0.45, True

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels = c, labels
        self.processor = replace(KINDS["Darknet"], size=(c.height, c.width))
        self.layers = checked_layers(c.layers)
        net = {"width": c.width, "height": c.height, "channels": c.channels, "layers": self.layers}
        inputs = c.channels
        for i, (layer, size) in enumerate(zip(self.layers, outputs(net), strict=True)):
            if layer["type"] == "convolutional":
                normed, width = bool(layer["batch_normalize"]), layer["filters"]
                put(
                    self,
                    f"{i}.conv_{i}",
                    nn.Conv2d(
                        inputs,
                        width,
                        layer["size"],
                        layer["stride"],
                        padding(layer),
                        groups=layer["groups"],
                        bias=not normed,
                    ),
                )
                if normed:
                    put(self, f"{i}.batch_norm_{i}", nn.BatchNorm2d(width, _EPS))
            inputs = size[0]
        counts = {detector["classes"] for detector in self.layers if detector["type"] == "yolo"}
        if counts != {len(labels)}:
            raise FormatError(
                f"the .cfg has [yolo] layers of {sorted(counts)} classes; {len(labels)} are named"
            )

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What the [yolo] layers read (batch, anchors * (5 + classes), height, width)."""
        x = self.checked(pixels, self.config.channels)
        results: list[Tensor] = []
        maps: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            kind = layer["type"]
            if kind == "convolutional":
                x = self._convolved(i, layer, x)
            elif kind == "maxpool":
                x = _pooled(x, layer)
            elif kind == "upsample":
                x = interpolate(x, scale_factor=float(layer["stride"]), mode="nearest")
            elif kind == "route":
                x = cat([results[n] for n in layer["layers"]], 1)
            elif kind == "shortcut":
                x = _ACTIVATIONS[layer["activation"]](x + results[layer["from"]])
            else:
                maps.append(x)
            results.append(x)
        return maps

    def _convolved(self, i: int, layer: Mapping[str, Any], x: Tensor) -> Tensor:
        x = self.get_submodule(f"{i}.conv_{i}")(x)
        if layer["batch_normalize"]:
            x = self.get_submodule(f"{i}.batch_norm_{i}")(x)
        activated: Tensor = _ACTIVATIONS[layer["activation"]](x)
        return activated

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.maps(pixels)[0]

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, places, classes) of an object that is of a class; boxes from 0 to 1."""
        logits, boxes, size = [], [], pixels.new_tensor([pixels.shape[3], pixels.shape[2]])
        heads = [head for head in self.layers if head["type"] == "yolo"]
        for x, layer in zip(self.maps(pixels), heads, strict=True):
            batch, (tall, wide), count = len(x), x.shape[2:], len(layer["mask"])
            # (batch, height, width, anchors, 5 + classes)
            x = x.reshape(batch, count, -1, tall, wide).permute(0, 3, 4, 1, 2).float()
            columns = arange(wide, device=x.device).float().reshape(1, 1, wide, 1, 1)
            rows = arange(tall, device=x.device).float().reshape(1, tall, 1, 1, 1)
            middles = [
                (x[..., 0:1].sigmoid() + columns) / wide,
                (x[..., 1:2].sigmoid() + rows) / tall,
            ]
            anchors = x.new_tensor([layer["anchors"][2 * n : 2 * n + 2] for n in layer["mask"]])
            sizes = x[..., 2:4].exp() * anchors / size.float()
            boxes.append(cat([*middles, sizes], 4).reshape(batch, -1, 4))
            logits.append(_both(x[..., 4:5], x[..., 5:]).reshape(batch, tall * wide * count, -1))
        return cat(logits, 1), cat(boxes, 1)


def _both(first: Tensor, second: Tensor) -> Tensor:
    """The logit of the product of two sigmoids: a + b - log(1 + exp(a) + exp(b))."""
    most = relu(first.maximum(second))
    total = (-most).exp() + (first - most).exp() + (second - most).exp()
    return first + second - (most + total.log())


def _pooled(x: Tensor, layer: Mapping[str, Any]) -> Tensor:
    """Darknet's pooling, whose odd rest of the padding is below and at the right."""
    size, stride, total = layer["size"], layer["stride"], layer["padding"]
    sides, before = [], total // 2
    for n in (x.shape[3], x.shape[2]):
        count = (n + total - size) // stride + 1
        sides += [before, (count - 1) * stride + size - n - before]
    # What is padded repeats what each window holds already.
    x = pad(x, sides, mode="replicate") if any(sides) else x
    pooled: Tensor = max_pool2d(x, size, stride)
    return pooled


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> YoloV3:
    """The model of a checkpoint with these tensor names, on the meta device."""
    return YoloV3(read_config(Config, config), labels_of(config))


FAMILY = Family(
    model_types=("yolov3",),
    tasks=("object-detection",),
    config=Config,
    build=build,
    tensors=("0.conv_0.weight",),
    files_of=darknet_files.files_of,
    suffixes=(".cfg", ".weights"),
    open_parts=darknet_files.open_parts,
)
