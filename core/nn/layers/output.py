"""Output layers that hold their weights and give a loss: adaptive softmax, linear cross entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.network.cross_entropy import linear_cross_entropy
from rushlight.core.nn.containers import ModuleList, Sequential
from rushlight.core.nn.linear import Linear
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.ops.binary import where
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class Scored(NamedTuple):
    """The log-probability of each target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax over many classes, the rare ones by clusters of smaller width (Grave et al., 2017).

    Classes below cutoffs[0] are outputs of `head`, as is each cluster; `tail` has a pair of layers
    for each cluster, of width in_features // div_value^(i + 1). ValueError for cutoffs that do not
    rise from 1 to n_classes - 1.

    `in_features` and `n_classes` are counts; `head_bias`: whether the head has one. `device`
    and `dtype` are those of the parameters.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        ends = list(cutoffs)
        rising = bool(ends) and ends == sorted({int(c) for c in ends})
        if not rising or not 0 < ends[0] <= ends[-1] < n_classes:
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs are {ends}; they must be integers that rise "
                f"from at least 1 to at most {n_classes - 1}"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*ends, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = ends[0] + len(ends)
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail: ModuleList[Any] = ModuleList()
        for i, (low, high) in enumerate(self._clusters()):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, device, dtype),
                    Linear(width, high - low, False, device, dtype),
                )
            )

    def _clusters(self) -> list[tuple[int, int]]:
        return list(zip(self.cutoffs[:-1], self.cutoffs[1:], strict=True))

    def reset_parameters(self) -> None:
        """The defaults of the linear layers."""
        for linear in (self.head, *(layer for pair in self.tail for layer in pair)):
            linear.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Scored:
        """(n, in_features) and classes (n,) -> log-probabilities (n,) and the loss; also without n.

        Every cluster is computed for all rows, so nothing is read back.
        """
        if (input_.ndim, target_.ndim) not in ((2, 1), (1, 0)) or (
            input_.shape[:-1] != target_.shape
        ):
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: input is {input_.shape} and target {target_.shape}; "
                "they must be (n, in_features) and (n,), or without n"
            )
        input, target = input_.reshape(-1, self.in_features), target_.reshape(-1).long()
        head = self.head(input).log_softmax(1)
        # Only the first and the last keep indices that no class has, so that gather refuses them.
        index = where(target < self.shortlist_size, target, 0)
        output = head.gather(1, index.unsqueeze(1)).squeeze(1)
        for i, (low, high) in enumerate(self._clusters()):
            inside = target >= low if high == self.n_classes else (target >= low) & (target < high)
            index = where(inside, target - low, 0).unsqueeze(1)
            score = self.tail[i](input).log_softmax(1).gather(1, index).squeeze(1)
            output = where(inside, head[:, self.shortlist_size + i] + score, output)
        return Scored(output.reshape(*target_.shape), -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """(n, in_features) -> (n, n_classes), log-probabilities of all classes."""
        return self._all(input, self.head(input))

    def _all(self, input: Tensor, head: Tensor) -> Tensor:
        head = head.log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for i, layer in enumerate(self.tail):
            column = self.shortlist_size + i
            parts.append(layer(input).log_softmax(1) + head[:, column : column + 1])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """(n, in_features) -> (n,): the likeliest of the head's classes, or where that is a
        cluster, the likeliest of all.
        """
        head = self.head(input)
        best = head.argmax(1)
        return where(best < self.shortlist_size, best, self._all(input, head).argmax(1))


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How torch cuts the work of `linear_cross_entropy`; nothing here depends on it.

    `allow_retain_graph`, `batch_chunk_size`, `chunking_method`, `acc_policy` and `acc_dtype`
    are torch's fields. None is checked, and none raises.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(Module):
    """`cross_entropy` of a linear layer's outputs; `out_features` are further dims of targets.

    `in_features` of the layer, `num_classes`, and whether it has a `bias`. `weight`
    (num_classes,) weighs each class; targets equal to `ignore_index` are left out;
    `label_smoothing` is the share that all classes get; `reduction` is "mean", "sum" or "none".
    `options` change nothing. `device` and `dtype` are those of the parameters. Raises
    ShapeError for a weight of another shape, ValueError for a smoothing outside 0 to 1.
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Place = None,
        dtype: Kind = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        name = "LinearCrossEntropyLoss"
        if weight is not None and weight.shape != (num_classes,):
            raise ShapeError(f"{name}: weight is {weight.shape}; it must be ({num_classes},)")
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"{name}: label_smoothing is {label_smoothing}; not in [0, 1]")
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features, self.reduction = num_classes, out_features, reduction
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options = options
        self.linear = Linear(
            in_features, num_classes * math.prod(out_features), bias, device, dtype
        )

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(n, in_features) or (in_features,), and targets as of cross_entropy -> the loss."""
        shape, layer = (self.num_classes, *self.out_features), self.linear
        return linear_cross_entropy(
            input,
            layer.weight.reshape(*shape, layer.in_features),
            target,
            linear_bias=None if layer.bias is None else layer.bias.reshape(*shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """Sizes and options."""
        layer = self.linear
        return (
            f"in_features={layer.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={layer.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
