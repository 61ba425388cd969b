"""The task object-detection: which objects an image shows, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.functional.pieces import stack
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.files import load_all
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"score", "label", "box"} of each object, the likeliest first; a list for a single image.

    box: {"xmin", "ymin", "xmax", "ymax"} in the image's own pixels.
    """
    pixels, found = load_all(images), []
    for image in pixels:
        with no_grad():
            given = model.processor([image], model.device).to(model.dtype)
            logits, boxes = model.detect(given)
            alone = getattr(model, "independent", False)
            scores = logits[0].float()
            both = scored(scores.sigmoid() if alone else scores.softmax(-1)[:, :-1], boxes[0])
        values = np.asarray((yield both.readback()))
        found.append(objects(values, image.shape, model.labels, options, alone))
        yield Progress("detect", len(found), len(pixels))
    return found if isinstance(images, list | tuple) else found[0]


def scored(scores: Tensor, boxes: Tensor) -> Tensor:
    """Scores (queries, classes) beside the corners of boxes (queries, 4), for one reading.

    boxes: center, width and height as shares of the picture.
    """
    x, y, w, h = boxes.float().unbind(1)
    return cat([scores, stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)], 1)


def objects(
    values: Any, shape: tuple[int, ...], labels: Sequence[str], options: Mapping[str, Any],
    alone: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """The objects of an image (height, width, channels) that `scored` holds, the likeliest first.

    options: threshold, and top_k or None. alone: a box may be of several classes; there are as many
    objects as boxes, of the likeliest pairs of both.
    """
    scores, corners = values[:, :-4], values[:, -4:]
    if alone:
        pairs = np.argsort(-scores, axis=None, kind="stable")[: len(scores)]
        rows, best = np.unravel_index(pairs, scores.shape)
        likely, corners = scores[rows, best], corners[rows]
    else:
        best = scores.argmax(1)
        likely = scores[np.arange(len(scores)), best]
    size = np.array([shape[1], shape[0]] * 2)
    inside = np.clip(corners * size, 0, size)
    names = ("xmin", "ymin", "xmax", "ymax")
    order = np.argsort(-likely, kind="stable")
    return [
        {"score": float(likely[i]), "label": labels[best[i]],
         "box": {n: round(float(v), 1) for n, v in zip(names, inside[i], strict=True)}}
        for i in order[: options["top_k"]].tolist() if likely[i] > options["threshold"]
    ]  # fmt: skip


def refuse(options: Mapping[str, Any]) -> None:
    """ValueError for a threshold that is no share."""
    if not 0 <= options["threshold"] < 1:
        raise ValueError(
            f"detection: threshold is {options['threshold']}; it must be at least 0 and below 1"
        )


TASK = Task(
    name="object-detection",
    summary="Say which objects an image shows, and where.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("threshold", "float", 0.5, "The score from which an object is told."),
        Option("top_k", "int", None, "Objects of each image, the likeliest first; else all.",
               least=1),
    ),
    refuse=refuse,
)  # fmt: skip
