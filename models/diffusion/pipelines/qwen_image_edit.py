"""Qwen-Image-Edit (Wu et al., 2025): pictures drawn after one, and after up to four."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.ops.creation import zeros
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.model import Conditions, Request
from rushlight.models.diffusion.pipelines.flow import conditions_of
from rushlight.models.diffusion.pipelines.qwen_image import QwenImage
from rushlight.models.image.resize import resize

# What the authors trained the model to read around a prompt, and the tokens before the prompt.
TEMPLATE = (
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture,"
    " objects, background), then explain how the user's text instruction should alter or modify the"
    " image. Generate a new image that meets the user's requirements while maintaining consistency "
    "with the original input where appropriate.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\n"
)
BEFORE = 64
_PLACE = "<|vision_start|>{}<|vision_end|>"
_SIDE = 32  # sides of pictures are multiples of it


class QwenImageEdit(QwenImage):
    """Qwen2.5-VL reads the prompt with the picture; the denoiser sees the picture's latents."""

    needs = (*QwenImage.needs, "processor")
    most_references = 1
    inline = _PLACE  # what stands for a picture in the prompt, with its number
    read_area = drawn_area = 1 << 20  # pixels in which pictures are read, and seen and drawn

    def conditions(self, request: Request) -> Conditions:
        """As Qwen-Image's, of prompts with pictures. ValueError without a picture."""
        if not request.references:
            raise ValueError(
                f"{self.config.model_type} changes pictures: pass reference_images, or an image to "
                "image-to-image"
            )
        return super().conditions(request)

    def states_of(self, text: str, request: Request) -> Tensor:
        """The last states (words, width) of a prompt with the pictures, without the instruction."""
        encoder, tokenizer = self.parts.get("text_encoder"), self.parts.tokenizer("tokenizer")
        encoder.sees_by(self.parts.source.files("processor"))
        images = [_resized(picture, self.read_area) for picture in request.references]
        places = [self.inline.replace("{n}", str(n)) for n in range(1, len(images) + 1)]
        before, after = TEMPLATE.split("{}")
        states: Tensor = encoder.pictured(tokenizer, images, places, (before, text + after))
        return states[BEFORE:]

    def size_after(self, references: Sequence[Any]) -> tuple[int, int]:
        """(height, width) of a picture: the last reference's shape, in about a million pixels."""
        return _size(references[-1], self.drawn_area)

    def referred(self, request: Request) -> dict[str, Tensor]:
        """The latents of the pictures to draw after, in about a million pixels."""
        maps = []
        for picture in request.references:
            pixels = np.asarray(_resized(picture, self.drawn_area), np.float32)
            shares = self.tensor_of(pixels.transpose(2, 0, 1)[None] / 127.5 - 1)
            maps.append(self.encode(shares, zeros((1,), device=self.device)))
        return conditions_of(maps, len(request.prompts))


class QwenImageEditPlus(QwenImageEdit):
    """Qwen-Image-Edit of 2509 and later: several pictures, read in fewer pixels."""

    most_references = 4
    inline = "Picture {n}: " + _PLACE
    read_area = 384 * 384


def _size(pixels: Any, area: int) -> tuple[int, int]:
    """(height, width) of about so many pixels, in the shape of a picture."""
    height, width = pixels.shape[:2]
    wide = math.sqrt(area * (width / height))
    tall = wide / (width / height)
    return round(tall / _SIDE) * _SIDE, round(wide / _SIDE) * _SIDE


def _resized(pixels: Any, area: int) -> Any:
    size = _size(pixels, area)
    return pixels if pixels.shape[:2] == size else resize(pixels, size, "lanczos")
