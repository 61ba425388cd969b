"""Boxes in pictures: conversions, overlaps, and the suppression of boxes that overlap.

They are computed by NumPy; tensors are read, and results put on the device of the boxes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.tensor.tensor import Tensor, from_numpy

Floats = npt.NDArray[np.float64]
FORMATS = ("xyxy", "xywh", "cxcywh")


def box_convert(boxes: Any, in_fmt: str, out_fmt: str) -> Any:
    """Boxes (.., 4) in another format: corners "xyxy", a corner and the size "xywh", or "cxcywh".

    A tensor or array of floats for one; ValueError for another format.

    `boxes` are in `in_fmt`, the result in `out_fmt`.
    """
    for name in (in_fmt, out_fmt):
        if name not in FORMATS:
            raise ValueError(f"box_convert: {name!r} is no format; formats: {', '.join(FORMATS)}")
    a, b, c, d = np.moveaxis(_boxes(boxes, "box_convert"), -1, 0)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return _like(boxes, np.stack([a, b, c, d], -1).astype(np.float32))


def box_area(boxes: Any) -> Any:
    """The areas (n,) of boxes (n, 4) given by their corners."""
    return _like(boxes, _area(_boxes(boxes, "box_area", True)).astype(np.float32))


def box_iou(boxes1: Any, boxes2: Any) -> Any:
    """The overlaps (n, m) of boxes (n, 4) and (m, 4): the share of their union that both cover.

    0 where both are empty.
    """
    overlaps = _overlap(_boxes(boxes1, "box_iou", True), _boxes(boxes2, "box_iou", True))
    return _like(boxes1, overlaps.astype(np.float32))


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """The indices (k,) int64 of the boxes (n, 4) that no better one covers by more than a share.

    boxes: corners; scores (n,): the best come first. Equal scores keep their order; a score that is
    no number comes last. Greedy, as in Girshick et al. (2014).

    `iou_threshold` is that share, of the union. Raises ValueError for shapes that do not fit.
    """
    corners = _boxes(boxes, "nms", True)
    values = _scores(scores, len(corners), "nms")
    return _like(boxes, _kept(corners, values, iou_threshold))


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """`nms` of each class by itself; idxs (n,): the classes. Indices by decreasing score.

    `boxes`, `scores` and `iou_threshold` are nms's. Raises ValueError for shapes that do not fit.
    """
    corners = _boxes(boxes, "batched_nms", True)
    values = _scores(scores, len(corners), "batched_nms")
    kinds = np.asarray(_host(idxs)).reshape(-1)
    if len(kinds) != len(corners):
        raise ValueError(f"batched_nms: {len(kinds)} classes for {len(corners)} boxes")
    is_kept = np.zeros(len(corners), bool)
    for kind in np.unique(kinds):
        rows = np.nonzero(kinds == kind)[0]
        is_kept[rows[_kept(corners[rows], values[rows], iou_threshold)]] = True
    order = _order(values)
    return _like(boxes, order[is_kept[order]])


def soft_nms(
    boxes: Any, scores: Any, sigma: float = 0.5, score_threshold: float = 0.001
) -> tuple[Any, Any]:
    """Indices (k,) and scores (k,) of boxes whose scores fall with what better ones cover.

    A score is multiplied by exp(-overlap**2 / sigma), and a box whose score is below
    score_threshold is left out (Bodla et al., 2017). ValueError for a sigma of 0 or less.
    """
    if not sigma > 0:
        raise ValueError(f"soft_nms: sigma is {sigma}; it must be above 0")
    corners = _boxes(boxes, "soft_nms", True)
    left = np.nan_to_num(_scores(scores, len(corners), "soft_nms"), nan=-np.inf)
    open_ = np.ones(len(corners), bool)
    picked: list[int] = []
    while open_.any():
        best = int(np.argmax(np.where(open_, left, -np.inf)))
        if not left[best] >= score_threshold:
            break
        picked.append(best)
        open_[best] = False
        left = left.copy()
        covered = _overlap(corners[best : best + 1], corners)[0]
        left[open_] *= np.exp(-(covered[open_] ** 2) / sigma)
    rows = np.array(picked, np.int64)
    return _like(boxes, rows), _like(boxes, left[rows].astype(np.float32))


def _kept(corners: Floats, values: Floats, threshold: float) -> npt.NDArray[np.int64]:
    order = _order(values)
    alive, rows = np.ones(len(order), bool), []
    for place, row in enumerate(order.tolist()):
        if alive[place]:
            rows.append(row)
            rest = order[place + 1 :]
            alive[place + 1 :] &= ~(_overlap(corners[row : row + 1], corners[rest])[0] > threshold)
    return np.array(rows, np.int64)


def _order(values: Floats) -> npt.NDArray[np.int64]:
    return np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")


def _area(corners: Floats) -> Floats:
    area: Floats = (corners[..., 2] - corners[..., 0]) * (corners[..., 3] - corners[..., 1])
    return area


def _overlap(first: Floats, second: Floats) -> Floats:
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    union = _area(first)[:, None] + _area(second)[None, :] - shared
    ratio: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return ratio


def _host(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _boxes(value: Any, name: str, listed: bool = False) -> Floats:
    corners = np.asarray(_host(value), np.float64)
    if corners.ndim < 1 or corners.shape[-1] != 4 or (listed and corners.ndim != 2):
        wanted = "(n, 4)" if listed else "(.., 4)"
        raise ValueError(f"{name}: boxes are {corners.shape}; they must be {wanted}")
    return corners


def _scores(value: Any, count: int, name: str) -> Floats:
    values = np.asarray(_host(value), np.float64)
    if values.shape != (count,):
        raise ValueError(f"{name}: scores are {values.shape}; they must be ({count},)")
    return values


def _like(given: Any, found: npt.NDArray[Any]) -> Any:
    """A tensor on the device of a given one, else the array."""
    if not isinstance(given, Tensor):
        return found
    return from_numpy(np.ascontiguousarray(found)).to(given.device)
