"""The task image-feature-extraction: an image model turns images into vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.core.functional.reductions import normalize
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.models.image.files import load_all
from rushlight.models.layers.vision.model import captured
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """The vectors of images, (n, features), or (features,) of a single one."""
    pixels = load_all(images, shrink=True)
    parts, size = [], options["batch_size"]
    for start in range(0, len(pixels), size):
        with no_grad():
            batch = model.processor(pixels[start : start + size], model.device).to(model.dtype)
            vectors_of_batch = captured(model, "encode_image", batch).float()
            parts.append(
                normalize(vectors_of_batch, dim=-1) if options["normalize"] else vectors_of_batch
            )
        yield Progress("encode", min(start + size, len(pixels)), len(pixels))
    vectors = cat(parts, 0)
    return vectors if isinstance(images, list | tuple) else vectors[0]


TASK = Task(
    name="image-feature-extraction",
    summary="Turn images into vectors whose dot products say how alike the images are.",
    input=Input("images", "images", "The images."),
    output="vectors",
    run=run,
    options=(
        Option("normalize", "bool", True, "Give vectors of length 1.", off="plain"),
        Option("batch_size", "int", 8, "Images computed at a time.", least=1),
    ),
)
