"""Detectors whose queries each give a class and a box (Carion et al., 2020)."""

from __future__ import annotations

from rushlight.core import nn
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.vision.model import ImageModel


class Head(nn.Module):
    """`layers` linear layers with relu between them."""

    def __init__(self, width: int, outputs: int, layers: int = 3) -> None:
        sizes = [width] * layers + [outputs]
        self.layers = nn.ModuleList(
            [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
        )

    def forward(self, x: Tensor) -> Tensor:
        *inner, last = self.layers
        for layer in inner:
            x = relu(layer(x))
        out: Tensor = last(x)
        return out


class Detector(ImageModel):
    """Pixels -> logits (batch, queries, classes + 1); the last class is none.

    `detect` gives the boxes too: center, width and height as shares of the picture. independent:
    there is no last class, and the scores of classes are sigmoids. overlap: of boxes of a class,
    from which the worse one is left out; None where queries do not repeat each other; several: a
    box may be of several classes even so. instances: whether there are masks of objects.
    """

    independent = False
    overlap: float | None = None
    several = False
    instances = False

    def detect(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, queries, classes + 1), and boxes (batch, queries, 4) from 0 to 1."""
        raise NotImplementedError

    def forward(self, pixels: Tensor) -> Tensor:
        return self.detect(pixels)[0]
