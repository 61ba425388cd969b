"""VideoModel: the base class of families that see frames one after another."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.transformer import Layer, LayerSpec


class VideoModel(ImageModel):
    """Pixels (batch, frames, channels, height, width) -> logits, or the last hidden state.

    frames: how many a video has, of which each `tube` make one row of patches.
    """

    frames: int = 1
    channels: int = 3
    size: tuple[int, int] = (224, 224)
    tube: tuple[int, int, int] = (1, 16, 16)

    def make_patches(self, path: str, width: int) -> int:
        """Give the model the projection of its patches; how many a video has."""
        grid = [n // p for n, p in zip((self.frames, *self.size), self.tube, strict=True)]
        if min(grid) < 1:
            raise FormatError(
                f"config.json: {self.frames} frames of {self.size} have no patch of {self.tube}"
            )
        put(self, path, nn.Conv3d(self.channels, width, self.tube, self.tube))
        return grid[0] * grid[1] * grid[2]

    def seen(self, pixels: Tensor, any_length: bool = False) -> Tensor:
        """The pixels; ValueError where their shape is not the model's."""
        wanted = (self.frames, self.channels, *self.size)
        there = pixels.shape[1:]
        if len(there) != 4 or there[any_length:] != wanted[any_length:] or not there[0]:
            raise ValueError(
                f"{self.config.model_type}: pixels are {pixels.shape}; they must be (batch, "
                f"{', '.join(map(str, wanted))})"
            )
        return pixels

    def encode_image(self, pixels: Tensor) -> Tensor:
        """One vector for each video (batch, n): what a head would classify."""
        first: Tensor = self.hidden(pixels)[:, 0]
        return first


def vit_layer(c: Any, biases: tuple[bool, bool, bool]) -> Layer:
    """A layer of a vision transformer's configuration."""
    return Layer(
        LayerSpec(
            c.hidden_size,
            c.num_attention_heads,
            c.intermediate_size,
            c.hidden_act,
            c.layer_norm_eps,
            biases,
        )
    )
