"""SuperPoint (DeTone et al., 2017): corners of a picture, and a vector of what is around each."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.functional.network.vision import grid_sample
from rushlight.core.functional.reductions import normalize
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, captured

ARCHITECTURES = ("SuperPointForKeypointDetection",)
_CELL = 8  # pixels of a cell's side, within which there is one score for each


@dataclass
class Config:
    """The keys of config.json."""

    encoder_hidden_sizes: list[int] = field(default_factory=lambda: [64, 64, 128, 128])
    decoder_hidden_size: int = 256
    keypoint_decoder_dim: int = 65
    descriptor_decoder_dim: int = 256
    keypoint_threshold: float = 0.005
    max_keypoints: Any = -1
    nms_radius: int = 4
    border_removal_distance: int = 4
    model_type: str = "superpoint"


class SuperPoint(ImageModel):
    """Pixels -> scores of corners (batch, height, width), zero but where they are the largest.

    `vectors` gives what is around points. The first channel alone is read.
    """

    def __init__(self, c: Config) -> None:
        self.config, self.processor, before = c, KINDS["SuperPoint"], 1
        for i, width in enumerate(c.encoder_hidden_sizes):
            for name, inputs in (("a", before), ("b", width)):
                conv = nn.Conv2d(inputs, width, 3, padding=1)
                put(self, f"encoder.conv_blocks.{i}.conv_{name}", conv)
            before = width
        wide = c.decoder_hidden_size
        for path, outputs in (
            ("keypoint_decoder.conv_score", c.keypoint_decoder_dim),
            ("descriptor_decoder.conv_descriptor", c.descriptor_decoder_dim),
        ):
            put(self, f"{path}_a", nn.Conv2d(before, wide, 3, padding=1))
            put(self, f"{path}_b", nn.Conv2d(wide, outputs, 1))

    def hidden(self, pixels: Tensor) -> Tensor:
        x, blocks = self.checked(pixels)[:, :1], self.get_submodule("encoder.conv_blocks")
        for i, block in enumerate(blocks.children()):
            x = max_pool2d(x, 2, 2) if i else x
            for conv in block.children():
                x = conv(x).relu()
        return x

    def _decoded(self, x: Tensor, path: str) -> Tensor:
        first, last = (self.get_submodule(f"{path}_{name}") for name in "ab")
        made: Tensor = last(first(x).relu())
        return made

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """`forward`, and the vectors of cells (batch, channels, height / 8, width / 8)."""
        x = self.hidden(pixels)
        scores = self._decoded(x, "keypoint_decoder.conv_score").softmax(1)[:, :-1]
        batch, _, tall, wide = scores.shape
        scores = scores.permute(0, 2, 3, 1).reshape(batch, tall, wide, _CELL, _CELL)
        scores = scores.permute(0, 1, 3, 2, 4).reshape(batch, tall * _CELL, wide * _CELL)
        cells = self._decoded(x, "descriptor_decoder.conv_descriptor")
        return self._largest(scores), normalize(cells, dim=1)

    def _largest(self, scores: Tensor) -> Tensor:
        """Scores that are the largest around them; others are zero."""
        radius = self.config.nms_radius

        def around(x: Tensor) -> Tensor:
            pooled: Tensor = max_pool2d(x.unsqueeze(1), 2 * radius + 1, 1, radius)
            return pooled.squeeze(1)

        kept = (scores == around(scores)).to(scores.dtype)
        for _ in range(2):
            near = around(kept)
            others = scores * (1 - near)
            kept = kept.maximum((others == around(others)).to(scores.dtype) * (1 - near))
        return scores * kept

    def forward(self, pixels: Tensor) -> Tensor:
        return self.seen(pixels)[0]

    def vectors(self, cells: Tensor, points: Tensor) -> Tensor:
        """Vectors (n, channels) of length 1 of points (n, 2) in pixels, x before y."""
        tall, wide = (n * _CELL - _CELL / 2 - 0.5 for n in cells.shape[2:])
        places = (points - _CELL / 2 + 0.5) / points.new_tensor([wide, tall]) * 2 - 1
        read = grid_sample(cells[:1], places.reshape(1, 1, -1, 2), align_corners=True)
        out: Tensor = normalize(read[0, :, 0], dim=0).T
        return out

    def found(self, scores: Any, threshold: float | None = None) -> tuple[Any, Any]:
        """Points (n, 2) in pixels, x before y, and scores (n,) of a map of scores (h, w)."""
        c, (tall, wide) = self.config, scores.shape
        least = c.keypoint_threshold if threshold is None else threshold
        rows, columns = np.nonzero(scores > least)
        near, border = c.border_removal_distance, _CELL  # which is counted in cells' sizes
        inside = (rows >= near) & (rows < tall * border - near)
        inside &= (columns >= near) & (columns < wide * border - near)
        points, values = np.stack([columns, rows], 1)[inside], scores[rows, columns][inside]
        if 0 <= c.max_keypoints < len(points):
            order = np.argsort(-values, kind="stable")[: c.max_keypoints]
            points, values = points[order], values[order]
        return points.astype(np.float32), values

    def keypoints(self, image: Any, options: Mapping[str, Any]) -> Generator[Any, Any, Any]:
        """One row with the corners of an image, the surest first, and their vectors."""
        with no_grad():
            batch = self.processor([image], self.device).to(self.dtype)
            scores, cells = captured(self, "seen", batch)
        points, values = self.found(
            np.asarray((yield scores[0].float().readback())), options["threshold"]
        )
        order = np.argsort(-values, kind="stable")[: options["top_k"]]
        points, values = points[order], values[order]
        made: Any = np.zeros((0, self.config.descriptor_decoder_dim), np.float32)
        if len(points):
            with no_grad():
                vectors = self.vectors(cells.float(), tensor(points, device=self.device))
            made = np.asarray((yield vectors.readback()))
        shares = points / np.array([batch.shape[3], batch.shape[2]])
        places = shares * np.array([image.shape[1], image.shape[0]])
        rows = [
            {"x": round(float(x), 1), "y": round(float(y), 1), "score": float(s)}
            for (x, y), s in zip(places, values, strict=True)
        ]
        return [{"keypoints": rows, "descriptors": made}]


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> SuperPoint:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("keypoint_decoder_dim", c.keypoint_decoder_dim, (_CELL**2 + 1,))
    sizes = c.encoder_hidden_sizes
    if len(sizes) != 4 or not all(type(n) is int and 1 <= n <= 1 << 14 for n in sizes):
        raise FormatError(f"config.json: encoder_hidden_sizes {sizes} must be four sizes")
    if type(c.max_keypoints) is not int or c.max_keypoints < -1:
        raise FormatError(f"config.json: max_keypoints is {c.max_keypoints!r}")
    return SuperPoint(c)


FAMILY = Family(
    model_types=("superpoint",),
    tasks=("keypoint-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
