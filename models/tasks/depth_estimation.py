"""The task depth-estimation: how far away every pixel of an image is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.functional.network.vision import interpolate
from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.image.own_steps import margins
from rushlight.models.image.plot import drawable
from rushlight.models.image.resize import stretched
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"width", "height", "depth"} of each image, in its own pixels; a list for a list of images.

    depth: (height, width) float32: relative and inverse, or meters, as the checkpoint says; with
    `picture` uint8, stretched to 0 to 255.
    """
    depths = []
    pixels = load_all(images)
    for image in pixels:
        size = image.shape[:2]
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            below, right = margins(model.processor, *size)
            whole = size[0] + 2 * below, size[1] + 2 * right
            depth = interpolate(model(batch).float().unsqueeze(1), size=whole, mode="bicubic")
            depth = depth[:, :, below : below + size[0], right : right + size[1]]
        values = np.asarray((yield depth[0, 0].readback()), np.float32)
        if options["picture"]:
            values = stretched(values)
        depths.append({"width": size[1], "height": size[0], "depth": values})
        yield Progress("measure", len(depths), len(pixels))
    return drawable(images, pixels, depths)


TASK = Task(
    name="depth-estimation",
    summary="Say how far away every pixel of an image is.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(Option("picture", "bool", False, "Give bytes to be shown, not depths."),),
)
