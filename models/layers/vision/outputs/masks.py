"""Models whose queries each give a class and a mask (Cheng et al., 2021)."""

from __future__ import annotations

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.vision.model import ImageModel


class QueryMasks(ImageModel):
    """Pixels -> shares of classes (batch, classes, height, width): queries' classes by their masks.

    `seen` gives both apart.
    """

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of classes (batch, queries, classes + 1) and of masks (batch, queries, h, w).

        The last class is none.
        """
        raise NotImplementedError

    def forward(self, pixels: Tensor) -> Tensor:
        return of_classes(*self.seen(pixels))


def of_classes(logits: Tensor, masks: Tensor) -> Tensor:
    """What `seen` gives as shares of classes (batch, classes, h, w), none left out."""
    shares = logits.softmax(-1)[..., :-1].transpose(1, 2)
    found = shares @ masks.sigmoid().flatten(2)
    return found.reshape(len(masks), -1, *masks.shape[2:])
