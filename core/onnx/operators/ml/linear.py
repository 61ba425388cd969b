"""Linear models: scores that are weighted sums of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import FLOAT
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.operators.ml.scores import (
    DOMAIN,
    as_rows,
    both,
    chosen,
    labels_of,
    once,
    transform_of,
    transformed,
)
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.tensor.tensor import Tensor


def weights_of(call: Call, classes: int) -> tuple[Value, Value]:
    """coefficients as (classes, features), and intercepts."""

    def make() -> tuple[Value, Value]:
        coefficients = np.array(call.floats("coefficients"), np.float32)
        intercepts = np.array(call.floats("intercepts", [0.0] * classes), np.float32)
        if classes < 1 or len(coefficients) % classes or len(intercepts) not in (1, classes):
            raise call.fail(
                f"{len(coefficients)} coefficients and {len(intercepts)} intercepts for {classes} "
                "scores"
            )
        return Value(coefficients.reshape(classes, -1), FLOAT), Value(intercepts, FLOAT)

    return once(call, make)


def scores_of(x: Tensor, weights: Tensor, intercepts: Tensor) -> Tensor:
    """x @ weights.T + intercepts, of float32."""
    rows = as_rows(x).to("float32")
    return rl.matmul(rows, weights.t()) + intercepts


@operator("LinearRegressor", domain=DOMAIN, raw=True)
def linear_regressor(call: Call, x: Value) -> Any:
    """Weighted sums of the features, for each target."""
    transform = transform_of(call)
    weights = weights_of(call, call.int("targets", 1))

    def regress(inner: Call, *tensors: Tensor) -> Tensor:
        inner.result_kinds = [FLOAT]
        return transformed(scores_of(*tensors), transform)

    return call.interpreter.apply(call, regress, [x, *weights])


@operator("LinearClassifier", domain=DOMAIN, raw=True)
def linear_classifier(call: Call, x: Value) -> Any:
    """The label of the highest score, and the scores."""
    labels = labels_of(call, "classlabels_ints")
    transform = transform_of(call)
    call.ignore("multi_class")
    count = max(len(call.floats("intercepts", [])), 1)
    if len(call.floats("intercepts", [])) == 0:
        count = len(labels)
    weights = weights_of(call, count)
    if len(labels) != count and not (count == 1 and len(labels) == 2):
        raise call.fail(f"{len(labels)} labels for {count} scores")

    def classify(inner: Call, *tensors: Tensor) -> Any:
        inner.result_kinds = [None, FLOAT]
        scores = scores_of(*tensors)
        if scores.shape[1] == 1:
            place = (scores[:, 0] > 0).to("int64")
            if len(labels) == 2:
                return [place, both(scores, transform, probable=True)]
            return [rl.zeros_like(place), transformed(scores, transform)]
        return [rl.argmax(scores, 1), transformed(scores, transform)]

    place, scores = call.interpreter.apply(call, classify, [x, *weights])
    return [chosen(call, place, labels), scores]
