"""The task image-segmentation: which pixels of an image show what."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.functional.network.vision import interpolate
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.files import Pixels, load_all
from rushlight.models.image.plot import drawable
from rushlight.models.layers.vision.outputs.masks import QueryMasks
from rushlight.models.tasks.object_detection import chosen, in_image, named_box, scored
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task
from rushlight.models.tasks.segments import OPTIONS, segments
from rushlight.models.tasks.zero_shot_image_classification import text_features


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"label", "score", "mask"} of each class that an image shows, the largest first; a list for a
    single image.

    mask: (height, width) uint8 in the image's own pixels: 255 where the class is likelier than the
    others, else 0. score: its mean probability there. Of a model that finds objects those of each
    object, with its "box", the likeliest first; of a model whose queries give masks what `subtask`
    says, by default segments that do not overlap. Of a model that segments what texts name those of
    `candidate_labels`, in their order: 255 where the probability is above `mask_threshold`.
    """
    pixels, by_image = load_all(images), []
    named, texts = hasattr(model, "segment"), options["candidate_labels"]
    if named != bool(texts):
        kind = model.config.model_type
        raise ValueError(
            f"image-segmentation: {kind} segments what candidate_labels name; name the labels"
            if named
            else f"image-segmentation: {kind} has its own classes; candidate_labels has no effect"
        )
    if named:
        labels = [label.strip() for label in texts.split(",")] if isinstance(texts, str) else texts
        features = text_features(model, list(labels))
        for image in pixels:
            by_image.append((yield from _named(model, image, features, labels, options)))
            yield Progress("segment", len(by_image), len(pixels))
        return drawable(images, pixels, by_image)
    if getattr(model, "instances", False):
        for image in pixels:
            by_image.append((yield from _objects(model, image, options)))
            yield Progress("segment", len(by_image), len(pixels))
        return drawable(images, pixels, by_image)
    asked = isinstance(model, QueryMasks)
    for image in pixels:
        size = image.shape[:2]
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            if asked and options["subtask"] != "semantic":
                logits, masks = model.told(batch)
                told = yield from segments(logits[0], masks[0], size, model.labels, options)
                by_image.append(_large(told, options))
                yield Progress("segment", len(by_image), len(pixels))
                continue
            logits = interpolate(model(batch).float(), size=size, mode="bilinear")[0]
            # Queries' shares of classes are positive, but their sum is not 1.
            best, which = (logits / logits.sum(0) if asked else logits.softmax(0)).max(0)
        classes = np.asarray((yield which.readback())).astype(np.int64)
        shares = np.asarray((yield best.readback()), np.float64)
        by_image.append(_classes(classes, shares, model.labels, options))
        yield Progress("segment", len(by_image), len(pixels))
    return drawable(images, pixels, by_image)


def _objects(
    model: Any, image: Pixels, options: Mapping[str, Any]
) -> Generator[Any, Any, list[dict[str, Any]]]:
    """The objects of an image with their masks, cut by their boxes."""
    with no_grad():
        batch = model.processor([image], model.device).to(model.dtype)
        logits, boxes, weights, prototypes = model.seen(batch)
        both = scored(logits[0].float().sigmoid(), boxes[0])
    values = np.asarray((yield both.readback()))
    selection = {"threshold": options["threshold"], "top_k": None, "overlap": model.overlap}
    rows, likely, best, corners = chosen(values, selection, True)
    place, size = model.processor.place(*image.shape[:2]), image.shape[:2]
    inside, objects = in_image(corners, image.shape, place), []
    tall, wide = batch.shape[2:]
    left, top = round(place[0] * wide), round(place[1] * tall)
    right, below = left + round(place[2] * wide), top + round(place[3] * tall)
    for i in rows:
        with no_grad():
            mask = (weights[0, i] @ prototypes[0].flatten(1)).reshape(1, 1, *prototypes.shape[2:])
            large = interpolate(mask.float(), size=(tall, wide), mode="bilinear")
            large = interpolate(large[:, :, top:below, left:right], size=size, mode="bilinear")
        shown = np.asarray((yield large[0, 0].readback())) > 0
        x1, y1, x2, y2 = inside[i]
        across, down = np.arange(size[1]) + 0.5, np.arange(size[0]) + 0.5
        within = ((down > y1) & (down < y2))[:, None] & ((across > x1) & (across < x2))
        area = int((shown & within).sum())
        if area >= max(1, round(options["least"] * shown.size)):
            objects.append(
                {
                    "label": model.labels[best[i]],
                    "score": float(likely[i]),
                    "box": named_box(inside[i]),
                    "mask": np.where(shown & within, 255, 0).astype(np.uint8),
                }
            )
    return objects


def _named(
    model: Any, image: Pixels, features: Tensor, labels: Sequence[str], options: Mapping[str, Any]
) -> Generator[Any, Any, list[dict[str, Any]]]:
    """The masks of what texts with these features name in an image."""
    with no_grad():
        batch = model.processor([image], model.device).to(model.dtype)
        logits = model.segment(batch, features.to(model.dtype)).float()
        shares = interpolate(logits, size=image.shape[:2], mode="bilinear")[0].sigmoid()
    values = np.asarray((yield shares.readback()), np.float64)
    shown = values > options["mask_threshold"]
    rows = [
        {
            "label": label,
            "score": float(share[inside].mean()) if inside.any() else 0.0,
            "mask": np.where(inside, 255, 0).astype(np.uint8),
        }
        for label, share, inside in zip(labels, values, shown, strict=True)
    ]
    return _large(rows, options)


def _large(rows: list[dict[str, Any]], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    least = options["least"]
    return [row for row in rows if (row["mask"] > 0).mean() >= least]


def _classes(
    which: Any, shares: Any, labels: tuple[str, ...], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    counts = np.bincount(which.ravel(), minlength=len(labels))
    totals = np.bincount(which.ravel(), weights=shares.ravel(), minlength=len(labels))
    order = np.argsort(-counts, kind="stable").tolist()
    least = max(1, round(options["least"] * which.size))
    shown_classes = [i for i in order if counts[i] >= least]
    return [
        {
            "label": labels[i],
            "score": float(totals[i] / counts[i]),
            "mask": np.where(which == i, 255, 0).astype(np.uint8),
        }
        for i in shown_classes
    ]


def _refuse(options: Mapping[str, Any]) -> None:
    for name in ("least", "threshold", "mask_threshold", "mask_overlap"):
        if not 0 <= options[name] <= 1:
            raise ValueError(
                f"image-segmentation: {name} is {options[name]}; it must be a share from 0 to 1"
            )


TASK = Task(
    name="image-segmentation",
    summary="Say which pixels of an image show what.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option(
            "least",
            "float",
            0.0,
            "The share of the image that a class or object must fill to be told.",
        ),
        Option(
            "threshold",
            "float",
            0.5,
            "The score from which an object is told, where the model finds objects.",
        ),
        Option(
            "candidate_labels",
            "texts",
            (),
            "What to segment, where the model takes texts; with commas between them.",
        ),
        *OPTIONS,
    ),
    refuse=_refuse,
)
