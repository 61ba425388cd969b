"""CRAFT (Baek et al., 2019) finds letters and their links; a CRNN (Shi et al., 2015) reads lines.

The parameters have the names of easyocr's files: the two nets lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.image.regions import (
    grown,
    joined,
    least_rectangle,
    regions,
    sides,
)
from rushlight.models.image.resize import resize
from rushlight.models.layers.vision.reading import Run, TextReader, stitched, windows

Array = npt.NDArray[Any]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_TEXT, _LINK, _SURE = 0.4, 0.4, 0.7  # of a place with a letter, with a link; of a word's best place
_MARGIN = 0.1  # of a line's height, around it


def _numbered(**layers: nn.Module) -> nn.Sequential:
    """Layers under the numbers that a file has for them: `c3` is number 3."""
    made = nn.Sequential()
    for name, layer in layers.items():
        made.add_module(name[1:], layer)
    return made


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Vgg(nn.Module):
    """VGG-16 with norms up to its 13th convolution, in slices, and two wider convolutions."""

    def __init__(self) -> None:
        act, norm = nn.ReLU, nn.BatchNorm2d
        self.slice1 = _numbered(
            c0=_conv(3, 64), n1=norm(64), r2=act(), c3=_conv(64, 64), n4=norm(64), r5=act(),
            p6=nn.MaxPool2d(2), c7=_conv(64, 128), n8=norm(128), r9=act(), c10=_conv(128, 128),
            n11=norm(128),
        )  # fmt: skip
        self.slice2 = _numbered(
            r12=act(), p13=nn.MaxPool2d(2), c14=_conv(128, 256), n15=norm(256), r16=act(),
            c17=_conv(256, 256), n18=norm(256),
        )  # fmt: skip
        self.slice3 = _numbered(
            r19=act(), c20=_conv(256, 256), n21=norm(256), r22=act(), p23=nn.MaxPool2d(2),
            c24=_conv(256, 512), n25=norm(512), r26=act(), c27=_conv(512, 512), n28=norm(512),
        )  # fmt: skip
        self.slice4 = _numbered(
            r29=act(), c30=_conv(512, 512), n31=norm(512), r32=act(), p33=nn.MaxPool2d(2),
            c34=_conv(512, 512), n35=norm(512), r36=act(), c37=_conv(512, 512), n38=norm(512),
        )  # fmt: skip
        self.slice5 = _numbered(
            p0=nn.MaxPool2d(3, 1, 1),
            c1=nn.Conv2d(512, 1024, 3, padding=6, dilation=6),
            c2=nn.Conv2d(1024, 1024, 1),
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """What each slice gives, the last first; of the first three after the next one's relu."""
        seen: list[Tensor] = []
        for number in range(1, 6):
            x = self.get_submodule(f"slice{number}")(x)
            x = relu(x) if number < 4 else x
            seen.insert(0, x)
        return seen


class Up(nn.Module):
    """Two convolutions with norms over what is joined."""

    def __init__(self, inputs: int, between: int, outputs: int) -> None:
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, between, 1), nn.BatchNorm2d(between), nn.ReLU(),
            _conv(between, outputs), nn.BatchNorm2d(outputs), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class Lines(nn.Module):
    """Pixels (batch, 1, 64, width) of lines -> states (batch, width / 4, channels)."""

    def __init__(self, width: int) -> None:
        a, b, c = width // 8, width // 4, width // 2
        act, half = nn.ReLU, (2, 1)  # of the height alone
        self.ConvNet = _numbered(
            c0=_conv(1, a), r1=act(), p2=nn.MaxPool2d(2), c3=_conv(a, b), r4=act(),
            p5=nn.MaxPool2d(2), c6=_conv(b, c), r7=act(), c8=_conv(c, c), r9=act(),
            p10=nn.MaxPool2d(half, half),
            c11=nn.Conv2d(c, width, 3, padding=1, bias=False), n12=nn.BatchNorm2d(width),
            r13=act(), c14=nn.Conv2d(width, width, 3, padding=1, bias=False),
            n15=nn.BatchNorm2d(width), r16=act(), p17=nn.MaxPool2d(half, half),
            c18=nn.Conv2d(width, width, 2), r19=act(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.ConvNet(x).mean(2).transpose(1, 2)
        return states


class BothWays(nn.Module):
    """An LSTM in both directions, and a layer over their outputs."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        self.rnn = nn.LSTM(inputs, hidden, bidirectional=True, batch_first=True)
        self.linear = nn.Linear(2 * hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(self.rnn(x)[0])
        return out


class CraftCrnn(TextReader):
    """Finds lines by CRAFT and reads them by a CRNN; alphabet: the blank and then its letters."""

    line_height, narrowest = 64, 64

    @nn.layers_on("meta")
    def __init__(self, config: Any, width: int, hidden: int) -> None:
        self.config = config
        self.alphabet = ["", *config.characters]
        self.basenet = Vgg()
        self.upconv1 = Up(1024 + 512, 512, 256)
        self.upconv2 = Up(512 + 256, 256, 128)
        self.upconv3 = Up(256 + 128, 128, 64)
        self.upconv4 = Up(128 + 64, 64, 32)
        self.conv_cls = nn.Sequential(
            _conv(32, 32), nn.ReLU(), _conv(32, 32), nn.ReLU(), _conv(32, 16), nn.ReLU(),
            nn.Conv2d(16, 16, 1), nn.ReLU(), nn.Conv2d(16, 2, 1),
        )  # fmt: skip
        self.FeatureExtraction = Lines(width)
        self.SequenceModeling = nn.Sequential(
            BothWays(width, hidden, hidden), BothWays(hidden, hidden, hidden)
        )
        self.Prediction = nn.Linear(hidden, len(self.alphabet))

    def maps(self, pixels: Tensor) -> Tensor:
        """Maps (batch, 2, height / 2, width / 2) of letters and of links."""
        x, *others = self.basenet(pixels)
        for number, other in enumerate(others, 1):
            if number > 1:
                x = interpolate(x, size=other.shape[2:], mode="bilinear")
            x = self.get_submodule(f"upconv{number}")(cat([x, other], 1))
        out: Tensor = self.conv_cls(x)
        return out

    def forward(self, pixels: Tensor) -> Tensor:
        """`maps`."""
        return self.maps(pixels)

    def find(self, image: Array, threshold: float) -> Run:
        """The corners of lines, of words that stand beside one another."""
        pieces, size, (scale, offset) = windows(image, 0, self.most)
        mean, std = (np.array(x, np.float32) * 255 for x in (MEAN, STD))
        maps = []
        for top, left, seen in pieces:
            given = np.ascontiguousarray(((seen - mean) / std).transpose(2, 0, 1)[None])
            with no_grad():
                out = self.maps(from_numpy(given).to(device=self.device, dtype=self.dtype))
            values = np.asarray((yield out.float().readback()))[0]
            maps.append((top // 2, left // 2, values))
        text, link = stitched(maps, (size[0] // 2, size[1] // 2))
        limits = np.array(image.shape[1::-1])
        found = joined([(2 * q - offset) / scale for q in words(text, link, threshold)])
        lines = [np.clip(grown(q, _MARGIN * min(sides(q))), 0, limits) for q in found]
        return np.array([q for q in lines if min(sides(q)) > 3]).reshape(-1, 4, 2)

    def strips(self, lines: Sequence[Array], width: int) -> Array:
        """Lines as float32 (n, 1, height, width) of grey from -1 to 1; the last column goes on."""
        batch = np.empty((len(lines), 1, self.line_height, width), np.float32)
        for row, line in zip(batch, lines, strict=True):
            grey = (line @ np.array([0.299, 0.587, 0.114], np.float32))[:, :, None]
            fits = min(width, max(1, -(-line.shape[1] * self.line_height // line.shape[0])))
            small = resize(grey, (self.line_height, fits), "bicubic")[:, :, 0].clip(0, 255)
            row[0, :, :fits] = small / 127.5 - 1
            row[0, :, fits:] = row[0, :, fits - 1 : fits]
        return batch

    def letters(self, strips: Tensor) -> Tensor:
        """Probabilities (batch, steps, classes)."""
        states = self.FeatureExtraction(strips.to(dtype=self.dtype))
        found: Tensor = self.Prediction(self.SequenceModeling(states)).softmax(-1)
        return found


def words(text: Array, link: Array, threshold: float) -> list[Array]:
    """The rectangles (4, 2) of words in maps (height, width) of letters and of links."""
    found = []
    for ends in regions((text > _TEXT) | (link > _LINK)):
        first, last = np.split(ends.astype(int), 2)
        rows = [(y, x, end + 1) for (x, y), (end, _) in zip(first, last, strict=True)]
        area = sum(end - x for _, x, end in rows)
        best = max(float(text[y, x:end].max()) for y, x, end in rows)
        if area < 10 or best < max(threshold, _SURE * threshold / 0.5):
            continue
        kept = [(x + i, y) for y, x, end in rows for i in np.nonzero(text[y, x:end] > _TEXT)[0]]
        wide, high = ends.max(0) - ends.min(0) + 1
        # The map is a letter's middle, as much smaller as the region is slender.
        growth = int(2 * np.sqrt(area * min(wide, high) / (wide * high))) / 2
        found.append(grown(least_rectangle(np.array(kept, np.float64)), growth))
    return found
