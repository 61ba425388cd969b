"""The task object-detection: which objects an image shows, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.functional.joining import stack
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.boxes import batched_nms
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.layers.vision.model import captured
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"score", "label", "box"} of each object, the likeliest first; a list for a single image.

    box: {"xmin", "ymin", "xmax", "ymax"} in the image's own pixels.
    """
    pixels, by_image = load_all(images), []
    for image in pixels:
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            logits, boxes = captured(model, "detect", batch)
            alone = getattr(model, "independent", False)
            scores = logits[0].float()
            both = scored(scores.sigmoid() if alone else scores.softmax(-1)[:, :-1], boxes[0])
        values = np.asarray((yield both.readback()))
        place = model.processor.place(*image.shape[:2])
        selection = {
            **options,
            "overlap": options["overlap"] or model.overlap,
            "several": getattr(model, "several", False),
        }
        by_image.append(objects(values, image.shape, model.labels, selection, alone, place))
        yield Progress("detect", len(by_image), len(pixels))
    return drawable(images, pixels, by_image)


def scored(scores: Tensor, boxes: Tensor) -> Tensor:
    """Scores (queries, classes) beside the corners of boxes (queries, 4), for one reading.

    boxes: center, width and height as shares of the picture.
    """
    x, y, w, h = boxes.float().unbind(1)
    return cat([scores, stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)], 1)


def objects(
    values: Any,
    shape: tuple[int, ...],
    labels: Sequence[str],
    options: Mapping[str, Any],
    alone: bool = False,
    place: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0),
) -> list[dict[str, Any]]:
    """The objects of an image (height, width, channels) that `scored` holds, the likeliest first.

    options: threshold, and top_k or None. alone: a box may be of several classes; there are as many
    objects as boxes, of the likeliest pairs of both. place: of the image within what was seen.
    options may have `overlap`: then each box has one class, or where they have `several` all that
    are likely enough, and boxes of a class that overlap more are left out but for the best.
    """
    rows, likely, best, corners = chosen(values, options, alone)
    inside = in_image(corners, shape, place)
    return [
        {"score": float(likely[i]), "label": labels[best[i]], "box": named_box(inside[i])}
        for i in rows
    ]


def chosen(values: Any, options: Mapping[str, Any], alone: bool) -> tuple[list[int], Any, Any, Any]:
    """The rows of objects, the likeliest first, with the scores, classes and corners of all."""
    scores, corners = values[:, :-4], values[:, -4:]
    overlap = options.get("overlap")
    if options.get("several"):
        rows, best = np.nonzero(scores > options["threshold"])
        likely, corners = scores[rows, best], corners[rows]
    elif alone and overlap is None:
        pairs = np.argsort(-scores, axis=None, kind="stable")[: len(scores)]
        rows, best = np.unravel_index(pairs, scores.shape)
        likely, corners = scores[rows, best], corners[rows]
    else:
        best = scores.argmax(1)
        likely = scores[np.arange(len(scores)), best]
    order = np.argsort(-likely, kind="stable")
    above = order[likely[order] > options["threshold"]]
    if overlap is not None:
        above = above[batched_nms(corners[above], likely[above], best[above], overlap)]
    return above[: options["top_k"]].tolist(), likely, best, corners


def in_image(corners: Any, shape: tuple[int, ...], place: tuple[float, ...]) -> Any:
    """Corners (n, 4) as shares of what was seen, in the pixels of the image."""
    shares = (corners - np.tile(place[:2], 2)) / np.tile(place[2:], 2)
    size = np.array([shape[1], shape[0]] * 2)
    return np.clip(shares * size, 0, size)


def named_box(corners: Any) -> dict[str, float]:
    """A box of corners (4,) by the names of its sides."""
    names = ("xmin", "ymin", "xmax", "ymax")
    return {n: round(float(v), 1) for n, v in zip(names, corners, strict=True)}


def refuse(options: Mapping[str, Any]) -> None:
    """ValueError for a threshold that is no share."""
    if not 0 <= options["threshold"] < 1:
        raise ValueError(
            f"detection: threshold is {options['threshold']}; it must be at least 0 and below 1"
        )
    if not 0 < (options.get("overlap") or 1) <= 1:
        raise ValueError(
            f"detection: overlap is {options['overlap']}; it must be above 0 and at most 1"
        )


OPTIONS = (
    Option("threshold", "float", 0.5, "The score from which an object is told."),
    Option("top_k", "int", None, "Objects of each image, the likeliest first; else all.", least=1),
    Option(
        "overlap",
        "float",
        None,
        "The overlap of two boxes of a class from which the worse "
        "one is left out; else as the model needs it.",
    ),
)
TASK = Task(
    name="object-detection",
    summary="Say which objects an image shows, and where.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=OPTIONS,
    refuse=refuse,
)
