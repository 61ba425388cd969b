"""Support vector machines: kernels between features and support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import FLOAT
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.operators.ml.scores import (
    DOMAIN,
    as_rows,
    both,
    chosen,
    labels_of,
    like,
    once,
    transform_of,
    transformed,
)
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
_TURNS = 100  # of the search for probabilities
_LEAST = 1e-7  # a probability between two classes
_ENOUGH = 0.005  # the error at which the search ends, times the classes
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _kernel(call: Call) -> Any:
    """The function of rows (N, F) and vectors (S, F) that gives (N, S)."""
    name = call.choice("kernel_type", "LINEAR", *_KERNELS)
    gamma, offset, degree = (*call.floats("kernel_params", []), 0.0, 0.0, 0.0)[:3]

    def kernel(rows: Tensor, vectors: Tensor) -> Tensor:
        if name == "RBF":
            # |a - b|^2 as it is: the expanded form loses what near rows differ by.
            pieces = rows.unsqueeze(1) - vectors.unsqueeze(0)
            return rl.exp((pieces * pieces).sum(2) * -gamma)
        products = rl.matmul(rows, vectors.t())
        if name == "POLY":
            return rl.pow(products * gamma + offset, degree)
        return rl.tanh(products * gamma + offset) if name == "SIGMOID" else products

    return kernel


def _table(call: Call, name: str, rows: int) -> Array:
    numbers = np.array(call.floats(name, []), np.float32)
    if rows < 1 or len(numbers) % rows or not len(numbers):
        raise call.fail(f"{name} has {len(numbers)} numbers for {rows} rows")
    return numbers.reshape(rows, -1)


@operator("SVMRegressor", domain=DOMAIN, raw=True)
def svm_regressor(call: Call, x: Value) -> Any:
    """The weighted sum of kernels and an offset; its sign for a machine of one class."""
    kernel, transform = _kernel(call), transform_of(call)
    supports, sign = call.int("n_supports", 0), call.flag("one_class")

    def make() -> list[Value]:
        weights = _table(call, "coefficients", 1)
        rho = np.array(call.floats("rho", [0.0])[:1], np.float32)
        # Without vectors of support, the coefficients are weights of features.
        vectors = _table(call, "support_vectors", supports) if supports else weights
        if supports and weights.shape[1] != supports:
            raise call.fail(f"{weights.shape[1]} coefficients for {supports} vectors")
        return [Value(vectors, FLOAT), Value(weights, FLOAT), Value(rho, FLOAT)]

    call.ignore("support_vectors")

    def run(inner: Call, rows: Tensor, vectors: Tensor, weights: Tensor, rho: Tensor) -> Tensor:
        inner.result_kinds = [FLOAT]
        kernels = kernel(as_rows(rows).to("float32"), vectors)
        score = (rl.matmul(kernels, weights.t()) if supports else kernels) + rho
        if sign:
            return rl.where(score > 0, rl.ones_like(score), -rl.ones_like(score))
        return transformed(score, transform)

    return call.interpreter.apply(call, run, [x, *once(call, make)])


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def _pair_weights(call: Call, per_class: list[int], supports: int) -> Array:
    """The weights (pairs, supports) of the kernels in the decision between two classes."""
    classes = len(per_class)
    if min(per_class, default=0) < 0 or classes < 2 or classes > 1 << 10:
        raise call.fail(f"vectors_per_class={per_class[:8]}")
    table = _table(call, "coefficients", classes - 1)
    if table.shape[1] != supports:
        raise call.fail(f"{table.shape[1]} coefficients for {supports} vectors")
    begins = np.cumsum([0, *per_class])
    out = np.zeros((len(_pairs(classes)), supports), np.float32)
    for row, (i, j) in zip(out, _pairs(classes), strict=True):
        of_i, of_j = slice(begins[i], begins[i + 1]), slice(begins[j], begins[j + 1])
        row[of_i], row[of_j] = table[j - 1, of_i], table[i, of_j]
    return out


@operator("SVMClassifier", domain=DOMAIN, raw=True)
def svm_classifier(call: Call, x: Value) -> Any:
    """The label that most decisions between two favour, or the likeliest; and the scores."""
    kernel, transform = _kernel(call), transform_of(call)
    labels, per_class = labels_of(call, "classlabels_ints"), call.ints("vectors_per_class", [])
    sharp, offsets = call.floats("prob_a", []), call.floats("prob_b", [])
    supports = sum(per_class)
    call.ignore("support_vectors", "coefficients", "rho")

    def make() -> list[Value]:
        rho = np.array(call.floats("rho"), np.float32)
        if supports > 0:
            if supports > 1 << 26:
                raise call.fail(f"{supports} support vectors")
            vectors = _table(call, "support_vectors", supports)
            weights = _pair_weights(call, per_class, supports)
        else:
            vectors = weights = _table(call, "coefficients", max(len(labels), 1))
        if len(rho) not in (1, len(weights)):
            raise call.fail(f"rho has {len(rho)} numbers for {len(weights)} scores")
        return [Value(vectors, FLOAT), Value(weights, FLOAT), Value(rho, FLOAT)]

    tables = once(call, make)
    pairs = _pairs(len(per_class))
    if sharp and not len(sharp) == len(offsets) == len(pairs):
        raise call.fail(f"prob_a and prob_b have {len(sharp)} numbers for {len(pairs)} pairs")

    def decide(inner: Call, rows: Tensor, vectors: Tensor, weights: Tensor, rho: Tensor) -> Tensor:
        inner.result_kinds = [FLOAT]
        kernels = kernel(as_rows(rows).to("float32"), vectors)
        return (rl.matmul(kernels, weights.t()) if supports > 0 else kernels) + rho

    decisions = call.interpreter.apply(call, decide, [x, *tables])[0]
    if sharp:
        if len(labels) != len(per_class):
            raise call.fail(f"{len(labels)} labels for {len(per_class)} classes")
        scores = _probabilities(call, decisions, sharp, offsets, len(per_class))
    else:
        scores = decisions

    def judge(inner: Call, raw: Tensor, values: Tensor) -> Any:
        inner.result_kinds = [None, FLOAT]
        if supports <= 0:
            return [rl.argmax(values, 1), transformed(values, transform)]
        # Decisions vote, also where there are probabilities: so does libsvm.
        place = rl.argmax(_votes(raw, pairs, len(per_class)), 1)
        if sharp or len(per_class) > 2:
            return [place, transformed(values, transform)]
        return [place, both(values, transform, transform != "NONE")]

    place, scores = call.interpreter.apply(call, judge, [decisions, scores])
    return [chosen(call, place, labels), scores]


def _votes(decisions: Tensor, pairs: list[tuple[int, int]], classes: int) -> Tensor:
    """How many decisions (N, pairs) favour each class."""
    first = np.zeros((len(pairs), classes), np.float32)
    second = np.zeros((len(pairs), classes), np.float32)
    for n, (i, j) in enumerate(pairs):
        first[n, i] = second[n, j] = 1
    above = (decisions > 0).to("float32")

    return rl.matmul(above, like(first, above)) + rl.matmul(1 - above, like(second, above))


def _probabilities(
    call: Call, decisions: Value, sharp: list[float], offsets: list[float], classes: int
) -> Value:
    """The probabilities of the classes, of those between two (Wu, Lin, Weng 2004; as in libsvm)."""
    if classes == 2:

        def pair(inner: Call, raw: Tensor) -> Tensor:
            inner.result_kinds = [FLOAT]
            return _of_two(rl.sigmoid(-(raw * sharp[0] + offsets[0])))

        made: Value = call.interpreter.apply(call, pair, [decisions])[0]
        return made
    raw = call.interpreter.host(decisions, f"{call.title}: the decisions").astype(np.float64)
    power = np.clip(raw * np.array(sharp) + np.array(offsets), -700, 700)
    between = np.clip(1 / (1 + np.exp(power)), _LEAST, 1 - _LEAST)
    table = np.zeros((len(raw), classes, classes))
    for n, (i, j) in enumerate(_pairs(classes)):
        table[:, i, j], table[:, j, i] = between[:, n], 1 - between[:, n]
    return Value(_coupled(table).astype(np.float32), FLOAT)


def _of_two(first: Tensor) -> Tensor:
    """`_coupled` for two classes, where two turns are all that it takes. first: (N, 1)."""
    a = first.clamp(_LEAST, 1 - _LEAST)
    b = 1 - a
    system = [[b * b, -(a * b)], [-(a * b), a * a]]
    p = [rl.full_like(a, 0.5), rl.full_like(a, 0.5)]
    for _ in range(2):
        product = [row[0] * p[0] + row[1] * p[1] for row in system]
        total = p[0] * product[0] + p[1] * product[1]
        errors = [rl.abs(x - total) for x in product]
        going = (rl.maximum(*errors) >= _ENOUGH / 2).to(a.dtype)
        for t in range(2):
            step = going * (total - product[t]) / system[t][t]
            p[t] = p[t] + step
            grown = total + step * (step * system[t][t] + 2 * product[t])
            total = grown / (1 + step) / (1 + step)
            product = [(product[k] + step * system[k][t]) / (1 + step) for k in range(2)]
            p = [x / (1 + step) for x in p]
    return rl.cat(p, 1)


def _coupled(table: Array) -> Array:
    """The probabilities p (N, K) that fit p_i / (p_i + p_j), the table (N, K, K), best."""
    rows, count, _ = table.shape
    own = np.arange(count)
    system = -np.swapaxes(table, 1, 2) * table
    system[:, own, own] = (np.swapaxes(table, 1, 2) ** 2).sum(2)
    p = np.full((rows, count), 1 / count)
    going = np.ones(rows, bool)
    for _ in range(max(_TURNS, count)):
        product = np.einsum("nij,nj->ni", system, p)
        total = (p * product).sum(1)
        going &= np.abs(product - total[:, None]).max(1, initial=0) >= _ENOUGH / count
        if not going.any():
            break
        for t in range(count):
            step = np.where(going, (total - product[:, t]) / system[:, t, t], 0)
            p[:, t] += step
            total = (total + step * (step * system[:, t, t] + 2 * product[:, t])) / (1 + step) ** 2
            product = (product + step[:, None] * system[:, t]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
    return p
