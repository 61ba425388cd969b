"""The task mask-generation: masks of what points and boxes in an image point at."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.boxes import nms
from rushlight.models.image.files import Pixels, load_all
from rushlight.models.image.plot import drawable
from rushlight.models.tasks.record import Input, Option, Progress, Run, Task

NAME = "mask-generation"
_AT_ONCE = 64  # prompts of a grid
_APART = 0.7  # the overlap of boxes from which the worse mask is left out
_FIRM = 1.0  # what logits are moved by to see whether a mask is stable

Array = npt.NDArray[Any]


def run(model: Any, images: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"mask", "score", "box"} of each prompt, in their order; a list for a single image.

    mask: (height, width) uint8 in the image's own pixels, 255 or 0; box: {"xmin", "ymin", "xmax",
    "ymax"} around it; score: the overlap with the truth that the model expects. Without prompts
    those of a grid of points, where the model is sure and masks do not cover each other. The map of
    the last image is kept, so further prompts of it are quick. ValueError for prompts that do not
    fit each other.
    """
    pixels, by_image = load_all(images), []
    prompts = _prompts(options)
    for image in pixels:
        seen = _seen(model, image)
        if prompts:
            rows: list[dict[str, Any]] = []
            for prompt in prompts:
                rows += yield from _answer(model, seen, image, prompt, options["all"])
        else:
            rows = yield from _everything(model, seen, image, options)
        by_image.append(rows)
        yield Progress("mask", len(by_image), len(pixels))
    return drawable(images, pixels, by_image)


def _prompts(options: Mapping[str, Any]) -> list[dict[str, Array]]:
    """The prompts: points (m, 2) with labels (m,), a box (4,), or both."""
    points = _nested(options["points"], 2, "points")
    boxes = [] if options["boxes"] is None else list(_rows(options["boxes"], 4, "boxes"))
    signs = _signs(options["labels"], points)
    if points and boxes and len(points) != len(boxes):
        raise ValueError(f"{NAME}: {len(points)} prompts of points and {len(boxes)} boxes differ")
    prompts = []
    for i in range(max(len(points), len(boxes))):
        prompt = {"points": points[i], "labels": signs[i]} if points else {}
        prompts.append(prompt | ({"boxes": boxes[i]} if boxes else {}))
    return prompts


def _signs(labels: Any, points: list[Array]) -> list[Array]:
    """The labels (m,) of each prompt's points; 1 where there are none."""
    if labels is None:
        return [np.ones(len(prompt_points), np.int64) for prompt_points in points]
    flat = all(np.ndim(label) == 0 for label in labels)
    try:
        signs = [
            np.asarray(prompt_labels, np.float32)
            for prompt_labels in ([labels] if flat else labels)
        ]
    except ValueError:
        signs = []
    if [row.shape for row in signs] != [(len(row),) for row in points] or not all(
        np.isin(row, (0, 1)).all() for row in signs
    ):
        raise ValueError(
            f"{NAME}: labels {labels!r:.60} do not fit the points; each point has 1 or 0"
        )
    return [row.astype(np.int64) for row in signs]


def _nested(value: Any, width: int, name: str) -> list[Array]:
    """Lists of rows of a list of rows, or of a list of those."""
    if value is None or len(value) == 0:
        return []
    deep = isinstance(value[0], Sequence | np.ndarray) and any(np.ndim(row) for row in value[0])
    return [_rows(rows, width, name) for rows in (value if deep else [value])]


def _rows(value: Any, width: int, name: str) -> Array:
    """Rows (n, width) of a list of rows, or of a single row."""
    try:
        rows = np.atleast_2d(np.asarray(value, np.float32))
    except ValueError:
        rows = np.zeros((0, width), np.float32)
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows) or not np.isfinite(rows).all():
        raise ValueError(f"{NAME}: {name} {value!r:.60} are no rows of {width} numbers")
    return rows


def _seen(model: Any, image: Pixels) -> Any:
    """The maps of an image, which the model keeps for the next prompts of it."""
    said = hashlib.blake2b(image.tobytes(), digest_size=16).digest()
    key = said, image.shape, model.device, model.dtype
    cached = getattr(model, "kept_image", None)
    if cached is None or cached[0] != key:
        with no_grad():
            batch = model.processor([image], model.device).to(model.dtype)
            model.kept_image = key, model.maps(batch)
    return model.kept_image[1]


def _asked(model: Any, image: Pixels, one: Mapping[str, Array]) -> dict[str, Tensor]:
    """A prompt as tensors with a batch of one, in the pixels that the model sees."""
    share, prompt = _share(model, image), {}
    if "points" in one:
        prompt["points"] = one["points"].reshape(-1, 2) * share
        prompt["labels"] = one["labels"]
    if "boxes" in one:
        prompt["boxes"] = one["boxes"] * np.tile(share, 2)
    return {
        n: tensor(v[None].astype(np.int64 if n == "labels" else np.float32), device=model.device)
        for n, v in prompt.items()
    }


def _share(model: Any, image: Pixels) -> Array:
    """What x and y in the image are multiplied by for the pixels that the model sees."""
    tall, wide = _inner(model, image)
    return np.array([wide / image.shape[1], tall / image.shape[0]], np.float32)


def _inner(model: Any, image: Pixels) -> tuple[int, int]:
    """The size of the image within the square that the model sees."""
    target = model.processor.target(*image.shape[:2])
    return image.shape[:2] if target is None else target


def _answer(
    model: Any, seen: Any, image: Pixels, one: Mapping[str, Array], every: bool
) -> Generator[Any, Any, list[dict[str, Any]]]:
    with no_grad():
        masks, scores = model.masks(seen, **_asked(model, image, one))
    values = np.asarray((yield scores[0].float().readback()))
    # The first mask is for prompts that leave no doubt; a single point leaves it.
    doubt = "boxes" not in one and len(one["points"]) == 1
    choice = [1 + int(values[1:].argmax())] if doubt else [0]
    if every:
        choice = [1 + int(i) for i in np.argsort(-values[1:], kind="stable")]
    answers = []
    for i in choice:
        mask = yield from _grown(model, image, masks[:, i : i + 1])
        answers.append({"mask": mask, "score": float(values[i]), "box": _around(mask)})
    return answers


def _grown(model: Any, image: Pixels, logits: Tensor) -> Generator[Any, Any, Array]:
    """The mask (height, width) uint8 of logits (1, 1, h, w), in the image's own pixels."""
    tall, wide = _inner(model, image)
    with no_grad():
        large = logits.float()
        if model.processor.longest is not None:  # what the image is filled up with is cut off
            large = interpolate(large, size=model.image_size, mode="bilinear")[:, :, :tall, :wide]
        large = interpolate(large, size=image.shape[:2], mode="bilinear")
    values = np.asarray((yield large[0, 0].readback()))
    return np.where(values > 0, 255, 0).astype(np.uint8)


def _around(mask: Array) -> dict[str, float]:
    rows, columns = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
    if not len(rows):
        return dict.fromkeys(("xmin", "ymin", "xmax", "ymax"), 0.0)
    return {
        "xmin": float(columns[0]),
        "ymin": float(rows[0]),
        "xmax": float(columns[-1] + 1),
        "ymax": float(rows[-1] + 1),
    }


def _everything(
    model: Any, seen: Any, image: Pixels, options: Mapping[str, Any]
) -> Generator[Any, Any, list[dict[str, Any]]]:
    """The masks of a grid of points that are sure, stable and apart, the best first."""
    side = options["grid"]
    middle = (np.arange(side) + 0.5) / side
    grid_points = np.stack(np.meshgrid(middle * image.shape[1], middle * image.shape[0]), -1)
    points = grid_points.reshape(-1, 1, 2).astype(np.float32) * _share(model, image)
    candidates: list[tuple[Tensor, float, Array]] = []
    for start in range(0, len(points), _AT_ONCE):
        batch_points = points[start : start + _AT_ONCE]
        with no_grad():
            masks, scores = model.masks(
                seen,
                tensor(batch_points, device=model.device),
                tensor(np.ones((len(batch_points), 1), np.int64), device=model.device),
            )
            sure, inside = ((masks > bound).float().sum((2, 3)) for bound in (_FIRM, -_FIRM))
            both = stack([scores.float(), sure / inside.clamp(min=1)], 0)
        values, firm = np.asarray((yield both.readback()))[:, :, 1:]
        good = (values >= options["threshold"]) & (firm >= options["stability"])
        for row, column in zip(*np.nonzero(good), strict=True):
            low = masks[int(row), 1 + int(column)]
            logits = np.asarray((yield low.float().readback()))
            box = np.array(list(_around(logits > 0).values()))
            candidates.append((low, float(values[row, column]), box))
        yield Progress("points", min(start + _AT_ONCE, len(points)), len(points))
    if not candidates:
        return []
    chosen = nms(np.stack([k[2] for k in candidates]), np.array([k[1] for k in candidates]), _APART)
    answers = []
    for i in chosen.tolist():
        mask = yield from _grown(
            model, image, candidates[i][0].reshape(1, 1, *candidates[i][0].shape)
        )
        answers.append({"mask": mask, "score": candidates[i][1], "box": _around(mask)})
    return answers


def _refuse(options: Mapping[str, Any]) -> None:
    for name in ("threshold", "stability"):
        if not 0 <= options[name] <= 1:
            raise ValueError(f"{NAME}: {name} is {options[name]}; it must be 0 to 1")
    if options["grid"] > 128:
        raise ValueError(f"{NAME}: a grid of {options['grid']} points a side is above 128")
    _prompts(options)


TASK = Task(
    name=NAME,
    summary="Cut out what points and boxes in an image point at.",
    input=Input("images", "images", "The images."),
    output="value",
    run=run,
    options=(
        Option(
            "points",
            "numbers",
            None,
            "[x, y] of the points of a prompt, or a list of those of several prompts.",
        ),
        Option(
            "labels",
            "numbers",
            None,
            "For each point 1 if it is in the object, 0 if it is not; default: 1.",
        ),
        Option("boxes", "numbers", None, "[left, top, right, bottom] of a box for each prompt."),
        Option("all", "bool", False, "Give every mask of a prompt, not the best one."),
        Option("grid", "int", 16, "Points a side where there is no prompt.", least=1),
        Option("threshold", "float", 0.88, "The score from which a mask of the grid is told."),
        Option("stability", "float", 0.95, "The share of a mask that must be sure."),
    ),
    refuse=_refuse,
)
