"""Metrics against their definitions: counts by hand, and scikit-learn's values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native


class Sklearn:
    """scikit-learn's metrics, imported by the first test that asks: every worker collects this."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pytest.importorskip("sklearn.metrics"), name)


sklearn = Sklearn()
training: Any = rl.training


def given(seed: int, count: int = 57, classes: int = 4) -> tuple[Any, Any]:
    draws = np.random.default_rng(seed)
    return draws.normal(size=(count, classes)).astype(np.float32), draws.integers(0, classes, count)


def gather(metric: Any, output: Any, target: Any, device: str) -> Any:
    """In three batches of other sizes."""
    for at in (slice(0, 5), slice(5, 30), slice(30, None)):
        metric.update(rl.tensor(output[at], device=device), rl.tensor(target[at], device=device))
    return metric.compute()


@pytest.mark.parametrize("top", [1, 2, 3])
def test_accuracy(top: int, device: str) -> None:
    output, target = given(top)
    metric = training.Accuracy(top)
    wanted = sklearn.top_k_accuracy_score(target, output, k=top, labels=range(4))
    assert gather(metric, output, target, device) == pytest.approx(wanted, abs=1e-6)
    metric.reset()
    assert math.isnan(metric.compute())
    ignored = np.where(np.arange(57) % 3 == 0, -100, target)
    wanted = sklearn.top_k_accuracy_score(
        target[ignored >= 0], output[ignored >= 0], k=top, labels=range(4)
    )
    assert gather(metric, output, ignored, device) == pytest.approx(wanted, abs=1e-6)
    before = metric.compute()
    right = output.argmax(1)
    assert metric(rl.tensor(output, device=device), rl.tensor(right, device=device)) == 1.0
    assert metric.compute() == before  # that was a batch by itself


def test_accuracy_of_two_classes(device: str) -> None:
    output, target = given(9, classes=2)
    scores = output[:, 0]
    found = gather(training.Accuracy(), scores, target, device)
    assert found == pytest.approx(sklearn.accuracy_score(target, scores > 0), abs=1e-6)


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", "none"])
def test_f1_and_confusion(average: str, device: str) -> None:
    output, target = given(5)
    target[target == 3] = 0
    output[:, 3] -= 9  # a class that does not occur
    said = output.argmax(1)
    found = gather(training.F1Score(4, average), output, target, device)
    labels = None if average in ("macro", "micro", "weighted") else range(4)
    theirs = None if average == "none" else average
    wanted = sklearn.f1_score(target, said, average=theirs, labels=labels, zero_division=0)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    counts = gather(training.ConfusionMatrix(4), output, target, device)
    np.testing.assert_array_equal(counts, sklearn.confusion_matrix(target, said, labels=range(4)))
    two = target % 2
    wanted = sklearn.f1_score(two, said % 2, average="binary")
    found = gather(training.F1Score(2, "binary"), said % 2, two, device)
    assert found == pytest.approx(wanted, abs=1e-6)


def test_area_under_the_curve(device: str) -> None:
    output, target = given(6, classes=2)
    scores = np.round(output[:, 1], 1)  # with ties
    found = gather(training.AUROC(), scores, target, device)
    assert found == pytest.approx(sklearn.roc_auc_score(target, scores), abs=1e-6)
    both = gather(training.AUROC(), output, target, device)
    wanted = sklearn.roc_auc_score(target, output[:, 1] - output[:, 0])
    assert both == pytest.approx(wanted, abs=1e-6)
    assert math.isnan(gather(training.AUROC(), scores, np.ones_like(target), device))


def test_perplexity(device: str) -> None:
    draws = np.random.default_rng(8)
    output = draws.normal(size=(57, 6, 9)).astype(np.float32)
    target = draws.integers(0, 9, (57, 6))
    target[3, 2:] = -100
    found = gather(training.Perplexity(), output, target, device)
    logs = output - np.log(np.exp(output.astype(np.float64)).sum(-1, keepdims=True))
    said = np.take_along_axis(logs, np.maximum(target, 0)[..., None], -1)[..., 0]
    assert found == pytest.approx(np.exp(-said[target >= 0].mean()), rel=1e-5)


def test_metrics_refuse_by_name() -> None:
    with pytest.raises(ValueError, match="top_k is 0"):
        training.Accuracy(0)
    with pytest.raises(ValueError, match="num_classes is 1"):
        training.ConfusionMatrix(1)
    with pytest.raises(ValueError, match="average is 'mean'"):
        training.F1Score(3, "mean")
    with pytest.raises(ValueError, match=r"output is \(4, 2\); it needs scores of 3 classes"):
        training.Accuracy(3).update(rl.ones(4, 2), rl.zeros(4, dtype=rl.int64))
