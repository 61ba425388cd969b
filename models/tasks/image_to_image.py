"""The task image-to-image: a picture made of an image: a larger one, or as a prompt says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.diffusion.request import CHANGES, OPTIONS, SIZES, drawing
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.layers.vision.model import captured
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"width", "height", "image"} of each image; a list for a list of images.

    image: (height, width, 3) uint8, as many times larger as the model makes it. A model that draws
    follows the prompt and the other options, and its result has the settings too.
    """
    if "text-to-image" in model.tasks:
        prompt = "" if options["prompt"] is None else options["prompt"]
        return (yield from drawing(model, prompt, options, images))
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


_OPTIONS = (Option("prompt", "texts", None, "What is drawn."), *CHANGES, *OPTIONS, *SIZES)
_NAMES = frozenset(option.name for option in _OPTIONS)

TASK = Task(
    name="image-to-image",
    summary="Make a picture of an image: a larger one, or as a prompt says.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=_OPTIONS,
    follows=lambda model: _NAMES if "text-to-image" in model.tasks else frozenset(),
)
