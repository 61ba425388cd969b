"""The task keypoint-detection: points of an image that are found again, or joints of bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"keypoints"} and more for each box of an image, or for the whole; a list for one image.

    keypoints: {"x", "y", "score"} in the image's own pixels. Models of bodies give "box" and
    "score", and the points' "label"; models of corners give "descriptors" (points, n).
    """
    pixels, by_image = load_all(images), []
    for image in pixels:
        by_image.append((yield from model.keypoints(image, options)))
        yield Progress("find", len(by_image), len(pixels))
    return drawable(images, pixels, by_image)


def _refuse(options: Mapping[str, Any]) -> None:
    threshold, boxes = options["threshold"], options["boxes"] or []
    if threshold is not None and not 0 <= threshold < 1:
        raise ValueError(
            f"keypoint-detection: threshold is {threshold}; it must be at least 0 and below 1"
        )
    for box in boxes:
        if not isinstance(box, list | tuple) or len(box) != 4 or min(box[2:]) <= 0:
            raise ValueError(
                f"keypoint-detection: a box is {box!r}; it must be [left, top, width, height]"
            )


TASK = Task(
    name="keypoint-detection",
    summary="Say where the key points of an image are.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("threshold", "float", None, "The score from which a point is told."),
        Option("top_k", "int", None, "Points of each image; else all.", least=1),
        Option(
            "boxes",
            "numbers",
            None,
            "Where the bodies are, [left, top, width, height] each; else the whole image is one.",
        ),
        Option("dataset", "int", 0, "The dataset whose points a model of several gives.", least=0),
    ),
    refuse=_refuse,
)
