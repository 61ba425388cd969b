"""Small .cfg files of darknet, weights by a seed for them, and a picture."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

# Residuals, a route back, an enlarged map and two heads, as in the published yolov3.cfg.
RESIDUAL = """
[net]
# Testing
batch=1
width=48
height=32
channels=3
momentum=0.9

[convolutional]
batch_normalize=1
filters=6
size=3
stride=1
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=10
size=3
stride=2
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=5
size=1
stride=1
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=10
size=3
stride=1
pad=1
activation=leaky

[shortcut]
from=-3
activation=linear

[convolutional]
batch_normalize=1
filters=12
size=3
stride=2
pad=1
activation=leaky

[convolutional]
size=1
stride=1
pad=1
filters=24
activation=linear

[yolo]
mask = 2,3,4
anchors = 10,13,  16,30,  33,23,  30,61,  62,45
classes=3
num=5
jitter=.3
ignore_thresh = .7
truth_thresh = 1
random=1

[route]
layers = -3

[convolutional]
batch_normalize=1
filters=7
size=1
stride=1
pad=1
activation=leaky

[upsample]
stride=2

[route]
layers = -1, 4

[convolutional]
batch_normalize=1
filters=9
size=3
stride=1
pad=1
activation=leaky

[convolutional]
size=1
stride=1
pad=1
filters=16
activation=linear

[yolo]
mask = 0,1
anchors = 10,13,  16,30,  33,23,  30,61,  62,45
classes=3
num=5
"""

# Poolings, the last of them with a step of 1, as in yolov3-tiny.cfg; groups and other activations.
TINY = """
[network]
width=60
height=44

[conv]
batch_normalize=1
filters=8
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
groups=2
filters=6
size=3
stride=2
padding=1
activation=relu

[maxpool]
size=2
stride=1

[max]
size=3
stride=1

[convolutional]
filters=12
size=2
stride=1
pad=1

[convolutional]
size=1
filters=14
activation=linear

[yolo]
mask=1,0
anchors=7,9, 20,15
classes=2
"""
CFGS = {"residual": RESIDUAL, "tiny": TINY}
# The channels that each convolution reads and the groups; a reader of its own would repeat ours.
_CONVS = {
    "residual": [3, 6, 10, 5, 10, 12, 12, 17, 9],
    "tiny": [3, 8, 6, 12],
}


def weights_of(name: str, version: tuple[int, int] = (0, 2)) -> bytes:
    """The bytes of a .weights; variances are positive, and products keep their size."""
    draw = np.random.default_rng(len(name))
    parts = [struct.pack("<3i", *version, 0), struct.pack("<q" if version >= (0, 2) else "<i", 99)]
    sections = re.split(r"\n\[", CFGS[name])
    convs = [
        dict(re.findall(r"^(\w+) *= *(.+)$", one, re.M))
        for one in sections
        if one.startswith("conv")
    ]
    for said, inputs in zip(convs, _CONVS[name], strict=True):
        count, size = int(said["filters"]), int(said["size"])
        parts.append(_some(draw, count))
        if said.get("batch_normalize") == "1":
            parts += [
                _some(draw, count, 1.0),
                _some(draw, count),
                draw.uniform(0.5, 1.5, count).astype("<f4").tobytes(),
            ]
        each = inputs // int(said.get("groups", 1)) * size * size
        kernel = draw.standard_normal(count * each) * 1.2 / np.sqrt(each)
        parts.append(kernel.astype("<f4").tobytes())
    return b"".join(parts)


def _some(draw: Any, count: int, about: float = 0.0) -> bytes:
    made: bytes = (draw.standard_normal(count) * 0.1 + about).astype("<f4").tobytes()
    return made


def picture() -> npt.NDArray[np.uint8]:
    """A picture (height, width, 3) that is neither square nor of the network's sides."""
    return np.random.default_rng(8).integers(0, 256, (53, 71, 3), np.uint8)
