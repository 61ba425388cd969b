"""The task image-segmentation: which pixels of an image show what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.functional.network.folding import interpolate
from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"label", "score", "mask"} of each class that an image shows, the largest first; a list for a
    single image.

    mask: (height, width) uint8 in the image's own pixels: 255 where the class is likelier than the
    others, else 0. score: its mean probability there.
    """
    pixels, found = load_all(images), []
    for image in pixels:
        size = image.shape[:2]
        with no_grad():
            given = model.processor([image], model.device).to(model.dtype)
            logits = interpolate(model(given).float(), size=size, mode="bilinear")[0]
            best, which = logits.softmax(0).max(0)
        classes = np.asarray((yield which.readback())).astype(np.int64)
        shares = np.asarray((yield best.readback()), np.float64)
        found.append(_classes(classes, shares, model.labels, options))
        yield Progress("segment", len(found), len(pixels))
    return found if isinstance(images, list | tuple) else found[0]


def _classes(
    which: Any, shares: Any, labels: tuple[str, ...], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    counts = np.bincount(which.ravel(), minlength=len(labels))
    totals = np.bincount(which.ravel(), weights=shares.ravel(), minlength=len(labels))
    order = np.argsort(-counts, kind="stable").tolist()
    least = max(1, round(options["least"] * which.size))
    kept = [i for i in order if counts[i] >= least]
    return [
        {"label": labels[i], "score": float(totals[i] / counts[i]),
         "mask": np.where(which == i, 255, 0).astype(np.uint8)} for i in kept
    ]  # fmt: skip


def _refuse(options: Mapping[str, Any]) -> None:
    if not 0 <= options["least"] <= 1:
        raise ValueError(
            f"image-segmentation: least is {options['least']}; it must be a share from 0 to 1"
        )


TASK = Task(
    name="image-segmentation",
    summary="Say which pixels of an image show what.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("least", "float", 0.0, "The share of the image that a class must fill to be told."),
    ),
    refuse=_refuse,
)  # fmt: skip
