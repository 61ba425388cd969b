"""The task pose-estimation: the key points of the people, or objects, in an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.tasks.object_detection import (
    OPTIONS,
    chosen,
    in_image,
    named_box,
    refuse,
    scored,
)
from rushlight.models.tasks.record import Input, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"score", "label", "box", "keypoints"} of each person, the likeliest first; a list for a
    single image.

    box: {"xmin", "ymin", "xmax", "ymax"}; keypoints: {"x", "y", "score"} in the order of the
    checkpoint's training, all in the image's own pixels; score: how sure a point is seen, 1 where
    the model does not say.
    """
    pixels, by_image = load_all(images), []
    selection = {**options, "overlap": options["overlap"] or model.overlap}
    for image in pixels:
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            logits, boxes, points, _ = model.seen(batch)
            count, each = points.shape[2:]
            both = cat(
                [points[0].float().flatten(1), scored(logits[0].float().sigmoid(), boxes[0])], 1
            )
        values = np.asarray((yield both.readback()))
        keypoints = values[:, : count * each].reshape(-1, count, each)
        rows, likely, best, corners = chosen(values[:, count * each :], selection, True)
        place = model.processor.place(*image.shape[:2])
        inside = in_image(corners, image.shape, place)
        size = np.array([image.shape[1], image.shape[0]])
        there = (keypoints[..., :2] - place[:2]) / np.array(place[2:]) * size
        sure = keypoints[..., 2] if each == 3 else np.ones(keypoints.shape[:2])
        by_image.append(
            [
                {
                    "score": float(likely[i]),
                    "label": model.labels[best[i]],
                    "box": named_box(inside[i]),
                    "keypoints": [
                        {"x": round(float(x), 1), "y": round(float(y), 1), "score": float(s)}
                        for (x, y), s in zip(there[i], sure[i], strict=True)
                    ],
                }
                for i in rows
            ]
        )
        yield Progress("pose", len(by_image), len(pixels))
    return drawable(images, pixels, by_image)


TASK = Task(
    name="pose-estimation",
    summary="Say where the joints of the people in an image are.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=OPTIONS,
    refuse=refuse,
)
