"""MTCNN (Zhang et al., 2016): faces with five points each, by three networks in turn.

Weights are facenet-pytorch's: a folder with pnet.pt, rnet.pt and onet.pt.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.boxes import nms
from rushlight.models.image.processor import Processor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel

_NETS = ("pnet", "rnet", "onet")
_POINTS = ("left eye", "right eye", "nose", "left mouth", "right mouth")
_CELL, _STEP = 12, 2  # pixels that the first network sees at a time, and between its places
_BATCH = 512
# Of each network: channels, kernels, poolings, and the layers after them with their results.
_CONVS = {
    "pnet": ((3, 10, 16, 32), (3, 3, 3), (2, 0, 0)),
    "rnet": ((3, 28, 48, 64), (3, 3, 2), (3, 3, 0)),
    "onet": ((3, 32, 64, 64, 128), (3, 3, 3, 2), (3, 3, 2, 0)),
}
_HEADS = {"pnet": (2, 4), "rnet": (2, 4), "onet": (2, 4, 10)}
_DENSE = {"rnet": (576, 128), "onet": (1152, 256)}


@dataclass
class Config:
    """The keys of config.json, which are facenet-pytorch's arguments."""

    min_face_size: int = 20
    factor: float = 0.709
    thresholds: list[float] = field(default_factory=lambda: [0.6, 0.7, 0.7])
    model_type: str = "mtcnn"


class MTCNN(ImageModel):
    """MTCNN in facenet-pytorch's names; `keypoints` finds the faces of an image."""

    processor = Processor(mean=(0.5,) * 3, std=(0.5,) * 3)

    def __init__(self, c: Config) -> None:
        self.config = c
        for name, (widths, kernels, _) in _CONVS.items():
            count = len(kernels)
            for i, kernel in enumerate(kernels):
                put(self, f"{name}.conv{i + 1}", nn.Conv2d(widths[i], widths[i + 1], kernel))
                put(self, f"{name}.prelu{i + 1}", nn.PReLU(widths[i + 1]))
            if name in _DENSE:
                count += 1
                put(self, f"{name}.dense{count}", nn.Linear(*_DENSE[name]))
                put(self, f"{name}.prelu{count}", nn.PReLU(_DENSE[name][1]))
            for i, outputs in enumerate(_HEADS[name]):
                dense = name in _DENSE
                inputs = _DENSE[name][1] if dense else widths[-1]
                head = nn.Linear(inputs, outputs) if dense else nn.Conv2d(inputs, outputs, 1)
                path = f"{'dense' if dense else 'conv'}{count + 1}_{i + 1}"
                put(self, f"{name}.{path}", head)

    def answers(self, name: str, x: Tensor) -> Tensor:
        """What a network says of pixels: how sure of a face, the moves of sides, and points."""
        net, pools = self.get_submodule(name), _CONVS[name][2]
        of, count = net.get_submodule, len(pools)
        for i, pool in enumerate(pools, 1):
            x = of(f"prelu{i}")(of(f"conv{i}")(x))
            x = max_pool2d(x, pool, 2, ceil_mode=True) if pool else x
        kind = "conv"
        if name in _DENSE:
            count, kind = count + 1, "dense"
            x = of(f"dense{count}")(x.permute(0, 3, 2, 1).flatten(1))
            x = of(f"prelu{count}")(x)
        outputs = [of(f"{kind}{count + 1}_{i + 1}")(x) for i in range(len(_HEADS[name]))]
        return cat([outputs[0].softmax(1)[:, 1:], *outputs[1:]], 1)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.answers(_NETS[0], self.checked(pixels))

    def keypoints(self, image: Any, options: Mapping[str, Any]) -> Generator[Any, Any, Any]:
        """A row for each face of an image, the surest first."""
        sure = list(self.config.thresholds)
        sure[2] = sure[2] if options["threshold"] is None else options["threshold"]
        with no_grad():
            pixels = (tensor(image, device=self.device).to(self.dtype) - 127.5) / 128
            pixels = pixels.permute(2, 0, 1).unsqueeze(0)
            boxes, scores, points = yield from self._found(pixels, sure)
        order = np.argsort(-scores, kind="stable")[: options["top_k"]]
        return [
            {
                "score": float(scores[i]),
                "label": "face",
                "box": {
                    n: round(float(v), 1)
                    for n, v in zip(("xmin", "ymin", "xmax", "ymax"), boxes[i], strict=True)
                },
                "keypoints": [
                    {"x": round(float(x), 1), "y": round(float(y), 1), "label": n, "score": 1.0}
                    for n, x, y in zip(_POINTS, points[i][:5], points[i][5:], strict=True)
                ],
            }
            for i in order
        ]

    def _found(self, pixels: Tensor, sure: list[float]) -> Generator[Any, Any, Any]:
        """Corners (n, 4), scores (n,) and points (n, 10) of the faces of an image's pixels."""
        c, (tall, wide), candidates = self.config, pixels.shape[2:], []
        scale = _CELL / c.min_face_size
        while min(tall, wide) * scale >= _CELL:
            small = interpolate(
                pixels, size=(int(tall * scale + 1), int(wide * scale + 1)), mode="area"
            )
            outputs = np.asarray((yield self.answers("pnet", small)[0].float().readback()))
            candidates.append(_cells(outputs, scale, sure[0]))
            scale *= c.factor
        rows = np.concatenate(candidates) if candidates else np.zeros((0, 9), np.float32)
        rows = rows[_kept(rows[:, :4], rows[:, 4], 0.7)]
        size = rows[:, 2:4] - rows[:, :2]
        boxes = _squared(rows[:, :4] + rows[:, 5:] * np.tile(size, 2))
        boxes, outputs = yield from self._asked("rnet", pixels, boxes, 24, sure[1])
        keep = _kept(boxes, outputs[:, 0], 0.7)
        boxes = _squared(_moved(boxes[keep], outputs[keep, 1:5]))
        boxes, outputs = yield from self._asked("onet", pixels, boxes, 48, sure[2])
        size = boxes[:, 2:] - boxes[:, :2] + 1
        points = outputs[:, 5:] * np.repeat(size, 5, 1) + np.repeat(boxes[:, :2], 5, 1) - 1
        boxes = _moved(boxes, outputs[:, 1:5])
        keep = _apart(boxes, outputs[:, 0], 0.7)
        return boxes[keep], outputs[keep, 0], points[keep]

    def _asked(
        self, name: str, pixels: Tensor, boxes: Any, side: int, least: float
    ) -> Generator[Any, Any, Any]:
        """The boxes of which a network is sure, and what it says of them (n, 5 or 15)."""
        tall, wide = pixels.shape[2:]
        corners = boxes.astype(np.int64)
        x, y = (np.maximum(corners[:, i], 1) - 1 for i in (0, 1))
        right, below = np.minimum(corners[:, 2], wide), np.minimum(corners[:, 3], tall)
        there = np.nonzero((right > x) & (below > y))[0]
        said: list[Any] = [np.zeros((0, 1 + sum(_HEADS[name][1:])), np.float32)]
        for start in range(0, len(there), _BATCH):
            crops = [
                interpolate(
                    pixels[:, :, y[i] : below[i], x[i] : right[i]], size=(side, side), mode="area"
                )
                for i in there[start : start + _BATCH].tolist()
            ]
            said.append(np.asarray((yield self.answers(name, cat(crops, 0)).float().readback())))
        outputs = np.concatenate(said)
        keep = outputs[:, 0] > least
        return boxes[there][keep], outputs[keep]


def _cells(outputs: Any, scale: float, least: float) -> Any:
    """Rows (n, 9) of a map's places that may be a face: corners, a score and the sides' moves."""
    rows, columns = np.nonzero(outputs[0] >= least)
    start = np.stack([columns, rows], 1).astype(np.float32) * _STEP
    first, last = (np.floor((start + n) / np.float32(scale)) for n in (1, _CELL))
    values = outputs[:, rows, columns].T
    rows_of_cells = np.concatenate([first, last, values], 1).astype(np.float32)
    return rows_of_cells[_kept(rows_of_cells[:, :4], rows_of_cells[:, 4], 0.5)]


def _kept(boxes: Any, scores: Any, overlap: float) -> Any:
    return nms(np.ascontiguousarray(boxes), np.ascontiguousarray(scores), overlap)


def _squared(boxes: Any) -> Any:
    """Squares around the same middles, as large as the longer sides."""
    size = boxes[:, 2:] - boxes[:, :2]
    side = size.max(1, keepdims=True) if len(boxes) else size[:, :1]
    start = boxes[:, :2] + size / 2 - side / 2
    return np.concatenate([start, start + side], 1)


def _moved(boxes: Any, moves: Any) -> Any:
    """Boxes whose sides are moved by shares of their size."""
    size = boxes[:, 2:] - boxes[:, :2] + 1
    return boxes + moves * np.tile(size, 2)


def _apart(boxes: Any, scores: Any, most: float) -> list[int]:
    """The places of boxes, the surest first, of whose smaller one no better box covers more."""
    left, chosen = np.argsort(-scores, kind="stable"), []
    area = np.prod(boxes[:, 2:] - boxes[:, :2] + 1, 1)
    while len(left):
        best, left = left[0], left[1:]
        chosen.append(int(best))
        start = np.maximum(boxes[best, :2], boxes[left, :2])
        end = np.minimum(boxes[best, 2:], boxes[left, 2:])
        both = np.prod(np.maximum(end - start + 1, 0), 1)
        left = left[both / np.minimum(area[best], area[left]) <= most]
    return chosen


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MTCNN:
    """The model of a checkpoint with these tensor names, on the meta device."""
    return MTCNN(read_config(Config, config))


def open_parts(place: Path | str) -> tuple[dict[str, bytes], dict[str, Tensor]] | None:
    """Small files and tensors of a folder with the three networks' files; None for another."""
    paths = {name: Path(place) / f"{name}.pt" for name in _NETS}
    if isinstance(place, str) or not all(path.is_file() for path in paths.values()):
        return None
    from rushlight.core.io import load_weights

    tensors = {
        f"{name}.{inner}": t
        for name, path in paths.items()
        for inner, t in load_weights(path)[0].items()
    }
    return {"config.json": json.dumps({"model_type": "mtcnn"}).encode()}, tensors


FAMILY = Family(
    model_types=("mtcnn",),
    tasks=("keypoint-detection",),
    config=Config,
    build=build,
    suffixes=(".pt",),
    open_parts=open_parts,
)
