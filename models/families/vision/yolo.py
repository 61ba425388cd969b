"""YOLOv8 (Jocher et al., 2023) and YOLO11 (Jocher and Qiu, 2024), in Ultralytics' names.

They find objects, their key points or masks, or classify, as the checkpoint's head does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.io.weights.pickles.modules import CLASSES
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.coco import OBJECTS
from rushlight.models.image.preprocessor_config import KINDS, TORCHVISION
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, numbered_classes
from rushlight.models.layers.vision.outputs.detection import Detector
from rushlight.models.layers.vision.yolo.blocks import C2PSA, SPPF, C2f, Shapes, conv
from rushlight.models.layers.vision.yolo.head import Head

TENSORS = (
    "model.22.dfl.conv.weight",
    "model.23.dfl.conv.weight",
    "model.9.linear.weight",
    "model.10.linear.weight",
)
_KINDS = {
    "detect": ("object-detection",),
    "pose": ("pose-estimation", "object-detection"),
    "segment": ("image-segmentation", "object-detection"),
    "classify": ("image-classification",),
}
# The layers: c a convolution of stride 2, f a C2f without and r with residuals, s pooling, a
# attention, u twice the size, and numbers for what is joined.
_LAYERS = {
    "yolov8": "c c r c r c r c r s u 6 f u 4 f c 12 f c 9 f".split(),
    "yolo11": "c c r c r c r c r s a u 6 r u 4 r c 13 r c 10 r".split(),
}
_OUT = {"yolov8": (15, 18, 21), "yolo11": (16, 19, 22)}
_CLASSIFIED = {"yolov8": 9, "yolo11": 10}  # layers before the head of classes


@dataclass
class Config:
    """The keys of a config.json. task: detect, pose, segment or classify; point: of numbers."""

    task: str = "detect"
    point: int = 3
    model_type: str = "yolov8"


def _layer(kind: str, s: Shapes) -> nn.Module:
    if kind == "c":
        return conv(s, 2)
    if kind in "fr":
        return C2f(s, kind == "r")
    return SPPF(s) if kind == "s" else C2PSA(s)


class Yolo(Detector):
    """Pixels whose sides are multiples of 32 -> logits (batch, places, classes); see `detect`."""

    independent, overlap = True, 0.7

    def __init__(self, c: Config, s: Shapes, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["Yolo"]
        self.layers, self.out = _LAYERS[c.model_type], _OUT[c.model_type]
        self.instances = c.task == "segment"
        for i, kind in enumerate(self.layers):
            if kind in "cfrsa":
                put(self, f"model.{i}", _layer(kind, s / "model" / i))
        put(self, f"model.{len(self.layers)}", Head(s / "model" / len(self.layers)))

    @property
    def head(self) -> Any:
        """The last module."""
        return self.get_submodule(f"model.{len(self.layers)}")

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What the head reads (batch, channels, height, width), of strides 8, 16 and 32."""
        x = self.checked(pixels)
        if x.shape[2] % 32 or x.shape[3] % 32:
            raise ValueError(
                f"{self.config.model_type}: pixels are {x.shape}; sides must be multiples of 32"
            )
        outputs: list[Tensor] = []
        for i, kind in enumerate(self.layers):
            if kind == "u":
                x = interpolate(x, scale_factor=2.0, mode="nearest")
            elif kind in "cfrsa":
                x = self.get_submodule(f"model.{i}")(x)
            else:
                x = cat([x, outputs[int(kind)]], 1)
            outputs.append(x)
        return [outputs[i] for i in self.out]

    def hidden(self, pixels: Tensor) -> Tensor:
        return self.maps(pixels)[-1]

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        return self.seen(pixels)[:2]

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Logits (batch, places, classes), boxes (batch, places, 4) from 0 to 1, and of each place
        key points (batch, places, n, 2 or 3) from 0 to 1, or weights (batch, places, n) of
        prototypes (batch, n, height, width), whose sums are logits of masks; else None.
        """
        maps, head = self.maps(pixels), self.head
        logits, boxes, more = head(maps)
        tall, wide = pixels.shape[2:]
        size = pixels.new_tensor([wide, tall, wide, tall])
        boxes = boxes / size
        if self.config.task == "pose":
            points = head.points(maps, more, self.config.point)
            shares = points[..., :2] / size[:2]
            more = cat([shares, points[..., 2:]], 3) if self.config.point == 3 else shares
        return logits, boxes, more, head.prototypes(maps[0]) if self.instances else None


class YoloClasses(ImageModel):
    """Pixels -> logits (batch, classes)."""

    def __init__(self, c: Config, s: Shapes, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, TORCHVISION
        # The same layers as for objects, without the pooling.
        self.layers = [
            k for k in _LAYERS[c.model_type][: _CLASSIFIED[c.model_type] + 1] if k != "s"
        ]
        for i, kind in enumerate(self.layers):
            put(self, f"model.{i}", _layer(kind, s / "model" / i))
        self.last, home = len(self.layers), f"model.{len(self.layers)}"
        head = s / "model" / self.last
        put(self, f"{home}.conv", conv(head / "conv"))
        put(self, f"{home}.linear", nn.Linear(head.of("linear.weight")[1], len(labels)))
        self.classifier_path = f"{home}.linear"

    def hidden(self, pixels: Tensor) -> Tensor:
        x = self.checked(pixels)
        for i in range(self.last):
            x = self.get_submodule(f"model.{i}")(x)
        out: Tensor = self.get_submodule(f"model.{self.last}.conv")(x)
        return out


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> ImageModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("task", c.task, tuple(_KINDS))
    choose("point", c.point, (2, 3))
    stored: Any = names
    if c.task == "classify":
        model: ImageModel = YoloClasses(c, Shapes(stored, eps=1e-5), labels_of(config))
    else:
        model = Yolo(c, Shapes(stored), labels_of(config))
    model.tasks = _KINDS[c.task]
    return model


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint: its layers tell the version, its head the task."""
    first = next(n for n in TENSORS if n in tensors)
    number = int(first.split(".")[1])
    kind, s = "yolov8" if number in (22, 9) else "yolo11", Shapes(tensors) / "model" / number
    values: dict[str, Any] = {"model_type": kind}
    if first.endswith("linear.weight"):
        count, task = s.of("linear.weight")[0], "classify"
    else:
        count, task = (s / "cv3" / 0).of("2.weight")[0], "detect"
        if "proto.cv1.conv.weight" in s:
            task = "segment"
        elif "cv4.0.0.conv.weight" in s:
            task = "pose"
            numbers = (s / "cv4" / 0).of("2.weight")[0]
            values["point"] = 2 if numbers % 3 else 3
    if kind == "yolo11" and task != "classify" and "cv3.0.0.0.conv.weight" not in s:
        raise FormatError("the checkpoint is a kind of YOLO that is not supported")
    known = {80: OBJECTS, 1: ("person",)}.get(count if task != "pose" else 1)
    labels = known if task != "classify" and known and len(known) == count else None
    if CLASSES in tensors:  # what Ultralytics' files say themselves
        told = parse_json(tensors[CLASSES].numpy().tobytes(), CLASSES, depth=2)
        labels = tuple(told) if len(told) == count else labels
    labels = labels or numbered_classes(count, "the classes of the head")
    return values | {"task": task, "id2label": {str(i): n for i, n in enumerate(labels)}}


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is the names of the classes, which config.json has."""
    return name == CLASSES


FAMILY = Family(
    model_types=("yolov8", "yolo11"),
    tasks=("object-detection", "pose-estimation", "image-segmentation", "image-classification"),
    config=Config,
    build=build,
    unused=unused,
    tensors=TENSORS,
    config_of=config_of,
)
