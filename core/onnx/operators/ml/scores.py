"""Scores of classes: what transforms them, and the labels of the highest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import INT64, STRING
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.registry import Call
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_NEAR_ZERO = 1e-7  # scores that SOFTMAX_ZERO leaves at zero
T = TypeVar("T")


def once(call: Call, make: Callable[[], T]) -> T:
    """What `make` gives for a node's attributes; made once if no function's caller decides them."""
    if any(a.reference for a in call.node.attributes.values()):
        return make()
    if call.node.made is None:
        call.node.made = make()
    for name in call.attributes:
        call.asked.add(name)
    return call.node.made  # type: ignore[no-any-return]


def transform_of(call: Call) -> str:
    """The attribute post_transform."""
    return call.choice("post_transform", "NONE", *TRANSFORMS)


def transformed(scores: Tensor, transform: str) -> Tensor:
    """Scores (N, K) after a transform of ai.onnx.ml; a single one has PROBIT alone."""
    if scores.shape[1] < 2 and transform != "PROBIT":
        return scores
    if transform == "LOGISTIC":
        return rl.sigmoid(scores)
    if transform == "PROBIT":
        return rl.erfinv(scores * 2 - 1) * math.sqrt(2)
    if transform == "NONE" or not scores.numel():
        return scores
    highest = scores.amax(1, keepdim=True)
    powers = rl.exp(scores - highest)
    if transform == "SOFTMAX":
        return powers / powers.sum(1, keepdim=True)
    counted = rl.abs(scores) > _NEAR_ZERO
    total = rl.where(counted, powers, rl.zeros_like(powers)).sum(1, keepdim=True)
    return rl.where(counted, powers, scores * rl.exp(-highest)) / total


def both(score: Tensor, transform: str, probable: bool) -> Tensor:
    """The scores (N, 2) of two classes, of that of the second alone (N, 1).

    probable: the score is a probability, whose rest is the first's.
    """
    if transform == "PROBIT":
        score = transformed(score, transform)
        return rl.cat([1 - score, score], 1) if probable else rl.cat([-score, score], 1)
    if transform == "LOGISTIC":
        return rl.sigmoid(rl.cat([-score, score], 1))
    return rl.cat([1 - score if probable else -score, score], 1)


def as_rows(x: Tensor, wanted: Any = None) -> Tensor:
    """The features (N, F) as floats; a vector is one row."""
    rows = x if x.dtype.kind == "f" else x.to("float32")
    if rows.ndim == 1:
        return rows.reshape(1, -1)
    return rows if rows.ndim == 2 else rows.reshape(rows.shape[0] if rows.ndim else 1, -1)


def like(values: Any, x: Tensor) -> Tensor:
    """Numbers of an attribute as a tensor beside `x`, in its dtype."""
    return tensor(np.asarray(values), dtype=x.dtype, device=x.device)


def labels_of(call: Call, ints: str) -> list[Any]:
    """The labels of the classes: strings, or the integers of the attribute `ints`."""
    texts, numbers = call.texts("classlabels_strings", None), call.ints(ints, None)
    if texts and numbers:
        raise call.fail("the labels are strings and integers; there must be one kind of them")
    return texts or numbers or []


def chosen(call: Call, place: Value, labels: list[Any]) -> Value:
    """The label at each place (N,). NeedsValue for strings while only the shape is known."""
    if labels and isinstance(labels[0], str):
        places = call.interpreter.host(place, f"{call.title}: the class")
        texts = np.empty(len(labels), np.object_)
        texts[:] = labels
        return Value(texts[places], STRING)
    numbers = np.array(labels, np.int64)

    def pick(inner: Call, places: Tensor, table: Tensor) -> Tensor:
        return rl.index_select(table, 0, places)

    picked: Value = call.interpreter.apply(call, pick, [place, Value(numbers, INT64)])[0]
    return picked
