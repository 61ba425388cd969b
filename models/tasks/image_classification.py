"""The task image-classification: what an image shows, of the checkpoint's classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.layers.vision.model import captured
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task

FUNCTIONS = ("softmax", "sigmoid", "none")


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The likeliest `top_k` classes of each image, {"label", "score"}; a list for a single image.

    Scores pass what the checkpoint's problem_type asks for: a sigmoid for several labels at once,
    else softmax.
    """
    if not model.labels:
        raise ValueError("image-classification: the checkpoint has no head with classes")
    pixels = load_all(images, shrink=True)
    size, function = options["batch_size"], options["function_to_apply"]
    if function is None:
        function = "sigmoid" if model.problem == "multi_label_classification" else "softmax"
    rankings = []
    for start in range(0, len(pixels), size):
        batch_images = pixels[start : start + size]
        with no_grad():
            batch = model.processor(batch_images, model.device).to(model.dtype)
            logits = captured(model, "forward", batch).float()
            if function != "none":
                logits = logits.sigmoid() if function == "sigmoid" else logits.softmax(-1)
        for row in np.asarray((yield logits.readback())):
            order = np.argsort(-row, kind="stable")[: options["top_k"]].tolist()
            rankings.append([{"label": model.labels[j], "score": float(row[j])} for j in order])
        yield Progress("classify", len(rankings), len(pixels))
    return drawable(images, pixels, rankings)


TASK = Task(
    name="image-classification",
    summary="Say which of the checkpoint's classes an image shows.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("top_k", "int", 5, "Classes of each image, the likeliest first.", least=1),
        Option(
            "function_to_apply",
            "text",
            None,
            "What scores pass; else the checkpoint says it.",
            choices=FUNCTIONS,
        ),
        Option("batch_size", "int", 8, "Images computed at a time.", least=1),
    ),
)
