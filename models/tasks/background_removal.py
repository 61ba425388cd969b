"""The task background-removal: which pixels of an image are its foreground."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.image.resize import resize, stretched
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"width", "height", "mask"} of each image, in its own pixels; a list for a list of images.

    mask: the opacity (height, width) uint8 of every pixel, 255 for the foreground, stretched to
    the whole range as the published pipelines do.
    """
    cutouts = []
    pixels = load_all(images)
    for image in pixels:
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            share = model(batch).float().sigmoid()[0, 0]
        values = np.asarray((yield share.readback()))
        cutouts.append(mask_of(values, image.shape[:2], options["threshold"]))
        yield Progress("cut", len(cutouts), len(pixels))
    return drawable(images, pixels, cutouts)


def mask_of(
    values: npt.NDArray[np.float32], size: tuple[int, int], threshold: float | None
) -> dict[str, Any]:
    """The mask of probabilities (height, width) at another size."""
    mask = resize(stretched(values)[:, :, None], size, "lanczos")[:, :, 0]
    if threshold is not None:
        mask = np.where(mask >= threshold * 255, 255, 0).astype(np.uint8)
    return {"width": size[1], "height": size[0], "mask": mask}


def _refuse(options: Mapping[str, Any]) -> None:
    threshold = options["threshold"]
    if threshold is not None and not 0 < threshold < 1:
        raise ValueError(
            f"background-removal: threshold is {threshold}; it must be between 0 and 1"
        )


TASK = Task(
    name="background-removal",
    summary="Cut the foreground of an image out.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("threshold", "float", None, "Opacity from which a pixel is whole, else nothing."),
    ),
    refuse=_refuse,
)
