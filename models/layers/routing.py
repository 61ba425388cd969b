"""How a router chooses experts for each token and weighs them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor


@dataclass(frozen=True)
class RoutingSpec:
    """Experts are chosen by their scores, which are their weights too.

    softcap: c makes c * tanh(x / c) of the router's numbers. score: what is made of these.
    "sparsemixer" (Liu et al., 2024) is the softmax of those near the largest, within twice
    `jitter`, for one expert after the other. correction: the checkpoint's name of numbers that are
    added to the scores to choose by (Wang et al., 2024), or to the router's numbers themselves, if
    `by_logits`. groups: experts are in groups, of which the best `kept` take part (DeepSeek, 2024),
    by the sum of their `best` largest scores; experts of other groups are chosen by
    the score `other`. least: of the sum that weights are divided by. scale:
    multiplies the weights. before: they multiply what an expert reads, not its result.
    """

    score: Literal["softmax", "sigmoid", "sparsemixer"] = "softmax"
    normalized: bool = True
    bias: bool = False
    correction: str = ""
    by_logits: bool = False
    groups: int = 1
    kept: int = 1
    best: int = 1
    other: float = -math.inf
    least: float = 0.0
    scale: float = 1.0
    jitter: float = 0.01
    softcap: float = 0.0
    before: bool = False


class Router(nn.Linear):
    """The scores of `count` experts for each token."""

    def __init__(self, width: int, count: int, chosen: int, spec: RoutingSpec) -> None:
        self.spec, self.count, self.chosen = spec, count, chosen
        groups = spec.groups
        most = count // max(groups, 1) * min(spec.kept, groups)
        most = most if math.isinf(spec.other) else count
        if groups < 1 or count % groups or not 0 < chosen <= most or spec.best > count // groups:
            raise FormatError(
                f"config.json: {chosen} of {count} experts in {groups} groups, of which "
                f"{spec.kept} are used, cannot be chosen"
            )
        if spec.correction:
            setattr(self, spec.correction, parameter(count))
        super().__init__(width, count, bias=spec.bias)

    def reset_parameters(self) -> None:
        """As a linear layer; corrections are zero."""
        super().reset_parameters()
        if self.spec.correction:
            init.zeros_(getattr(self, self.spec.correction))

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., width) -> weights and numbers of the chosen experts, (..., chosen)."""
        spec, logits = self.spec, self(x).float()
        if spec.softcap:
            logits = (logits / spec.softcap).tanh() * spec.softcap
        if spec.score == "sparsemixer":
            return self._mixed(logits)
        scores = logits.sigmoid() if spec.score == "sigmoid" else logits.softmax(-1)
        if not spec.correction and spec.groups == 1:
            weights, index = scores.topk(self.chosen, -1)
        else:
            told = logits if spec.by_logits else scores
            index = self._limited(told).topk(self.chosen, -1)[1]
            weights = scores.gather(-1, index)
        if spec.normalized:
            whole = weights.sum(-1, keepdim=True)
            weights = weights / (whole.clamp(min=spec.least) if spec.least else whole)
        return (weights if spec.scale == 1 else weights * spec.scale), index

    def _limited(self, scores: Tensor) -> Tensor:
        """What experts are chosen by: `other` in the groups that do not take part."""
        spec = self.spec
        if spec.correction:
            scores = scores + getattr(self, spec.correction).float()
        if spec.groups == 1:
            return scores
        # (..., experts) -> (..., groups, experts of a group)
        parts = scores.reshape(*scores.shape[:-1], spec.groups, -1)
        sums = parts.topk(spec.best, -1)[0].sum(-1)
        best_groups = sums.topk(spec.kept, -1)[1].unsqueeze(-1)
        taken = (best_groups == ops.arange(spec.groups, device=scores.device)).long().sum(-2) > 0
        return ops.where(taken.unsqueeze(-1), parts, spec.other).reshape(*scores.shape)

    def _mixed(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        weights, index, left = [], [], scores
        for _ in range(self.chosen):
            top, expert = left.topk(1, -1)
            far = (top - left) / ops.maximum(scores.abs(), top) > 2 * self.spec.jitter
            weights.append(ops.where(far, -math.inf, left).softmax(-1).gather(-1, expert))
            index.append(expert)
            left = ops.where(
                expert == ops.arange(self.count, device=expert.device), -math.inf, left
            )
        return ops.cat(weights, -1), ops.cat(index, -1)
