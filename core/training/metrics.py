"""Metrics of classifiers and language models, gathered on the device and read once.

Definitions are those of scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import float32, int64
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.embedding import one_hot
from rushlight.core.ops.join import cat
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]


class Metric:
    """Something that is gathered over batches: `update(output, target)`, then `compute()`.

    `compute` reads the device once; `reset` begins anew. Calling it updates and computes for one
    batch. A subclass defines `of(output, target) -> Tensor`, a sum over the batch, and
    `value(sum)`, made of the sums of all batches as a NumPy array.
    """

    def __init__(self) -> None:
        self.total: Tensor | None = None

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """What a batch adds to the sum."""
        raise NotImplementedError(f"{type(self).__name__} has no method of")

    def value(self, total: Array) -> Any:
        """The metric of a sum."""
        raise NotImplementedError(f"{type(self).__name__} has no method value")

    def update(self, output: Tensor, target: Tensor) -> None:
        """Add a batch."""
        with autograd.no_grad():
            added = self.of(output.detach(), target.detach())
            self.total = added if self.total is None else self.total + added

    def compute(self) -> Any:
        """The metric of all batches since `reset`; NaN where there were none."""
        return float("nan") if self.total is None else self.value(self.total.numpy())

    async def compute_async(self) -> Any:
        """`compute` without a blocking wait."""
        return float("nan") if self.total is None else self.value(await self.total.numpy_async())

    def reset(self) -> None:
        """Forget all batches."""
        self.total = None

    def __call__(self, output: Tensor, target: Tensor) -> Any:
        alone = type(self).__new__(type(self))
        vars(alone).update({**vars(self), "total": None})
        alone.update(output, target)
        return alone.compute()


class Accuracy(Metric):
    """The share of samples whose class is among the `top_k` likeliest.

    output: (n, classes, ...) scores, or (n,) scores of the second of two classes, positive for it;
    target: the classes (n, ...). ignore_index: a class that is not counted.
    """

    def __init__(self, top_k: int = 1, ignore_index: int = -100) -> None:
        super().__init__()
        if top_k < 1:
            raise ValueError(f"Accuracy: top_k is {top_k}; it must be 1 or more")
        self.top_k, self.ignore_index = top_k, ignore_index

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """(right ones, all)."""
        counted = (target != self.ignore_index).float()
        if output.ndim == target.ndim:
            right = ((output > 0).to(int64) == target.to(int64)).float()
        elif self.top_k == 1:
            right = (output.argmax(1) == target).float()
        else:
            _check(self, output, self.top_k)
            best = output.topk(self.top_k, 1).indices
            right = (best == target.unsqueeze(1)).any(1).float()
        return stack([(right * counted).sum(), counted.sum()])

    def value(self, total: Array) -> float:
        """Right ones by all."""
        return float(total[0] / total[1]) if total[1] else float("nan")


class ConfusionMatrix(Metric):
    """How often class i was taken for class j, at [i, j]: a NumPy array (classes, classes).

    output: (n, classes) scores, or (n,) classes; target: (n,) classes below num_classes.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(
                f"{type(self).__name__}: num_classes is {num_classes}; it must be 2 or more"
            )
        self.num_classes = num_classes

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """The counts, float32: exact up to 2**24 of a batch."""
        _check(self, output, 0)
        said = output.argmax(1) if output.ndim == target.ndim + 1 else output.to(int64)
        rows = one_hot(target.to(int64).reshape(-1), self.num_classes).to(float32)
        columns = one_hot(said.reshape(-1), self.num_classes).to(float32)
        return rows.transpose(0, 1) @ columns

    def value(self, total: Array) -> Any:
        """The counts."""
        return total.astype(np.int64)


class F1Score(ConfusionMatrix):
    """The harmonic mean of precision and recall.

    average: "macro" (the mean over classes that occur or were said), "micro", "weighted" (by how
    often a class occurs), "binary" (of class 1), or "none" (an array of all classes).
    """

    def __init__(self, num_classes: int, average: str = "macro") -> None:
        super().__init__(num_classes)
        if average not in ("macro", "micro", "weighted", "binary", "none"):
            raise ValueError(
                f"F1Score: average is {average!r}; supported: macro, micro, weighted, binary, none"
            )
        self.average = average

    def value(self, total: Array) -> Any:
        """From the counts."""
        right, there, said = np.diag(total), total.sum(1), total.sum(0)
        both = there + said
        each = np.divide(2 * right, both, out=np.zeros_like(right), where=both > 0)
        if self.average == "none":
            return each
        if self.average == "binary":
            return float(each[1])
        if self.average == "micro":
            return float(right.sum() / max(total.sum(), 1))
        if self.average == "weighted":
            return float((each * there).sum() / max(there.sum(), 1))
        return float(each[both > 0].mean()) if (both > 0).any() else float("nan")


class AUROC(Metric):
    """The area under the ROC curve: the chance that a positive sample has the higher score.

    output: (n,) scores, or (n, 2) scores of both classes; target: (n,) of 0 and 1. All scores are
    kept until `compute`; ties count a half. NaN where a class does not occur.
    """

    def update(self, output: Tensor, target: Tensor) -> None:
        """Keep the scores of a batch."""
        scores = output.detach().float()
        scores = scores[:, 1] - scores[:, 0] if scores.ndim == 2 else scores
        added = stack([scores, target.detach().float()])
        self.total = added if self.total is None else cat([self.total, added], 1)

    def value(self, total: Array) -> float:
        """By the ranks of the scores (Mann and Whitney, 1947)."""
        scores, positive = total[0], total[1] > 0.5
        count = int(positive.sum())
        others = len(scores) - count
        if not count or not others:
            return float("nan")
        _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
        return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


class Perplexity(Metric):
    """exp of the mean negative log-likelihood of the tokens.

    output: (batch, length, vocabulary) logits; target: (batch, length) ids, of which ignore_index
    is not counted.
    """

    def __init__(self, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def of(self, output: Tensor, target: Tensor) -> Tensor:
        """(the sum of the negative log-likelihoods, the number of tokens)."""
        counted = target != self.ignore_index
        ids = target.masked_fill(~counted, 0).unsqueeze(-1)
        said = output.float().log_softmax(-1).gather(-1, ids).squeeze(-1)
        return stack([-(said * counted.float()).sum(), counted.float().sum()])

    def value(self, total: Array) -> float:
        """exp of the mean."""
        return float(np.exp(total[0] / total[1])) if total[1] else float("nan")


def _check(metric: Metric, output: Tensor, least: int) -> None:
    if output.ndim < 1 or (least and (output.ndim < 2 or output.shape[1] < least)):
        raise ValueError(
            f"{type(metric).__name__}: output is {output.shape}; it needs scores of "
            f"{least} classes or more at dim 1"
        )
