"""Segments of a picture from queries that each give a class and a mask (Cheng et al., 2021)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.functional.network.vision import interpolate
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.tasks.record import Option, as_list

Rows = Generator[Any, Any, list[dict[str, Any]]]
KINDS = ("panoptic", "instance", "semantic")


def segments(
    logits: Tensor,
    masks: Tensor,
    size: tuple[int, int],
    labels: Sequence[str],
    options: Mapping[str, Any],
) -> Rows:
    """{"label", "score", "mask"} of each segment, the likeliest first.

    logits (queries, classes + 1), masks (queries, h, w). Of "panoptic" each pixel is of one segment
    at most; of "instance" segments may overlap.
    """
    fused = as_list(options["fuse"])
    if unknown := set(fused) - set(labels):
        raise ValueError(f"image-segmentation: fuse: {min(unknown)!r} is no label of the model")
    with no_grad():
        shares = logits.float().softmax(-1)
    values = np.asarray((yield shares.readback()), np.float32)
    kind = _instances if options["subtask"] == "instance" else _panoptic
    rows = yield from kind(values, masks.float(), size, labels, {**options, "fuse": fused})
    return sorted(rows, key=lambda row: -row["score"])


def _panoptic(
    shares: Any,
    masks: Tensor,
    size: tuple[int, int],
    labels: Sequence[str],
    options: Mapping[str, Any],
) -> Rows:
    best, likely = shares.argmax(1), shares.max(1)
    sure = np.nonzero((best < len(labels)) & (likely > options["threshold"]))[0]
    if not len(sure):
        return []
    with no_grad():
        upsampled = interpolate(_rows(masks, sure).sigmoid(), size=size, mode="bilinear")[0]
        weighted = upsampled * masks.new_tensor(likely[sure].tolist()).reshape(-1, 1, 1)
        which = weighted.argmax(0)
        areas = (weighted >= options["mask_threshold"]).float().sum((1, 2))
    places = np.asarray((yield which.readback()))
    areas = np.asarray((yield areas.readback()))
    rows: list[dict[str, Any]] = []
    for i, query in enumerate(sure.tolist()):
        inside, label = places == i, labels[best[query]]
        area = int(inside.sum())
        # What others hide of a mask is not told, nor what they hide most of.
        if not area or not areas[i] or not area / areas[i] > options["mask_overlap"]:
            continue
        mask = np.where(inside, 255, 0).astype(np.uint8)
        joins = label in options["fuse"]
        same = next((row for row in rows if joins and row["label"] == label), None)
        if same is not None:
            same["mask"] |= mask
        else:
            rows.append({"label": label, "score": float(likely[query]), "mask": mask})
    return rows


def _instances(
    shares: Any,
    masks: Tensor,
    size: tuple[int, int],
    labels: Sequence[str],
    options: Mapping[str, Any],
) -> Rows:
    scores = shares[:, :-1]
    order = np.argsort(-scores, axis=None, kind="stable")[: len(scores)]
    queries, classes = np.unravel_index(order, scores.shape)
    with no_grad():
        inside = (masks > 0).float()
        sums = (masks.sigmoid() * inside).sum((1, 2)), inside.sum((1, 2)) + 1e-6
        firm = sums[0] / sums[1]
    likely = scores[queries, classes] * np.asarray((yield firm.readback()))[queries]
    rows = []
    for i in np.nonzero(likely >= options["threshold"])[0].tolist():
        with no_grad():
            upsampled = interpolate(_rows(inside, queries[i : i + 1]), size=size, mode="nearest")[
                0, 0
            ]
        mask = np.where(np.asarray((yield upsampled.readback())) > 0, 255, 0).astype(np.uint8)
        if mask.any():
            rows.append({"label": labels[classes[i]], "score": float(likely[i]), "mask": mask})
    return rows


def _rows(masks: Tensor, kept: Any) -> Tensor:
    """The masks (1, n, h, w) of some queries."""
    return masks[kept.tolist()].unsqueeze(0)


OPTIONS = (
    Option(
        "subtask",
        "text",
        "panoptic",
        "What is told where the model has masks of queries: "
        "segments that do not overlap, objects, or classes.",
        choices=KINDS,
    ),
    Option(
        "mask_threshold",
        "float",
        0.5,
        "The share from which a pixel is within a segment's mask, of panoptic.",
    ),
    Option(
        "mask_overlap",
        "float",
        0.8,
        "The share of a segment's mask that others must leave of it, of panoptic.",
    ),
    Option("fuse", "texts", (), "The labels whose segments are one, of panoptic."),
)
