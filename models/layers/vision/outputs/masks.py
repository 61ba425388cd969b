"""Models whose queries each give a class and a mask (Cheng et al., 2021)."""

from __future__ import annotations

from rushlight.core.functional.network.vision import interpolate
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.vision.model import ImageModel


class QueryMasks(ImageModel):
    """Pixels -> shares of classes (batch, classes, height, width): queries' classes by their masks.

    `seen` gives both apart. scaled: the size that masks have before anything is made of them.
    """

    scaled: tuple[int, int] | None = None

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of classes (batch, queries, classes + 1) and of masks (batch, queries, h, w).

        The last class is none.
        """
        raise NotImplementedError

    def told(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """What `seen` gives, with the masks at `scaled`, in float32."""
        logits, masks = self.seen(pixels)
        masks = masks.float()
        if self.scaled is not None:
            masks = interpolate(masks, size=self.scaled, mode="bilinear")
        return logits.float(), masks

    def forward(self, pixels: Tensor) -> Tensor:
        return of_classes(*self.told(pixels))


def of_classes(logits: Tensor, masks: Tensor) -> Tensor:
    """Shares of classes (batch, classes, h, w) of what `seen` gives, without none."""
    shares = logits.softmax(-1)[..., :-1].transpose(1, 2)
    class_shares = shares @ masks.sigmoid().flatten(2)
    return class_shares.reshape(len(masks), -1, *masks.shape[2:])
