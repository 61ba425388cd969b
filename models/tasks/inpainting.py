"""The task inpainting: a part of an image drawn anew, as a prompt says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.diffusion.request import CHANGES, OPTIONS, SIZES, drawing
from rushlight.models.tasks.record import Input, Option, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"width", "height", "image", "settings"} of each image; a list for a list of images.

    mask_image is white where the image is drawn anew; prompt says what.
    """
    if options["mask_image"] is None:
        raise ValueError("inpainting: mask_image is missing; it is white where to draw anew")
    prompt = "" if options["prompt"] is None else options["prompt"]
    return (yield from drawing(model, prompt, options, images, options["mask_image"]))


TASK = Task(
    name="inpainting",
    summary="Draw a part of an image anew, as a prompt says.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("prompt", "texts", None, "What is drawn."),
        Option("mask_image", "image", None, "White where the image is drawn anew."),
        *CHANGES,
        *OPTIONS,
        *SIZES,
    ),
)
