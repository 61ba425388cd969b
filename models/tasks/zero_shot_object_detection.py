"""The task zero-shot-object-detection: where an image shows what any labels name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.image.plot import drawable
from rushlight.models.tasks.object_detection import objects, refuse, scored
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task
from rushlight.models.tasks.zero_shot_image_classification import asked, text_vectors

NAME = "zero-shot-object-detection"


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"score", "label", "box"} of each object, the likeliest first; a list for a single image.

    box: {"xmin", "ymin", "xmax", "ymax"} in the image's own pixels. The score of a label does not
    depend on the other labels. ValueError for missing labels, or a template without {}.
    """
    labels, sentences = asked(options, NAME)
    prompted = getattr(model, "prompted", False)
    texts: Any = model.prompt(sentences) if prompted else text_vectors(model, sentences)
    pixels, by_image = load_all(images), []
    for image in pixels:
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            logits, boxes = model.ground(batch, texts)
            both = scored(logits[0].float().sigmoid(), boxes[0])
        values = np.asarray((yield both.readback()))
        place = model.processor.place(*image.shape[:2])
        by_image.append(objects(values, image.shape, labels, options, place=place))
        yield Progress("detect", len(by_image), len(pixels))
    return drawable(images, pixels, by_image)


TASK = Task(
    name=NAME,
    summary="Say where an image shows what any labels name.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option("candidate_labels", "texts", (), "The labels, or one text with commas."),
        Option("hypothesis_template", "text", "{}", "A sentence with {} for the label."),
        Option("threshold", "float", 0.1, "The score from which an object is told."),
        Option(
            "top_k", "int", None, "Objects of each image, the likeliest first; else all.", least=1
        ),
    ),
    refuse=refuse,
)
