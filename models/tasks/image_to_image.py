"""The task image-to-image: a picture made of an image, such as a larger one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.layers.vision.model import captured
from rushlight.models.tasks.record import Input, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"width", "height", "image"} of each image; a list for a list of images.

    image: (height, width, 3) uint8, as many times larger as the model makes it.
    """
    made: list[dict[str, Any]] = []
    pixels = load_all(images)
    for image in pixels:
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            large = captured(model, "forward", batch)[0].float()
        values = np.asarray((yield large.readback()), np.float32)
        scale = model.config.upscale
        tall, wide = (n * scale for n in image.shape[:2])  # without what the processor added
        picture = (values.clip(0, 1) * 255).round().astype(np.uint8).transpose(1, 2, 0)
        picture = np.ascontiguousarray(picture[:tall, :wide])
        made.append({"width": wide, "height": tall, "image": picture})
        yield Progress("draw", len(made), len(pixels))
    return drawable(images, pixels, made)


TASK = Task(
    name="image-to-image",
    summary="Make a picture of an image, such as a larger one.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
)
