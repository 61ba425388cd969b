"""More loss functions, beside those of losses.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.functional.activations import logsigmoid, softplus
from rushlight.core.functional.algebra import cosine_similarity, pairwise_distance
from rushlight.core.functional.clamping import clamp
from rushlight.core.functional.elementwise import xlogy
from rushlight.core.functional.losses import _check_same, _reduced
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import network

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-y log x - (1 - y) log(1 - x), the logarithms -100 at least; x are shares in [0, 1]."""
    name = "binary_cross_entropy"
    _check_same(name, input, target)
    loss = (target - 1) * clamp((1 - input).log(), min=-100) - target * clamp(input.log(), min=-100)
    return _reduced(name, loss if weight is None else loss * weight, reduction)


@network
def smooth_l1_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """The square over 2 beta where |input - target| < beta, |input - target| - beta / 2 beyond."""
    _check_same("smooth_l1_loss", input, target)
    gap = (input - target).abs()
    loss = where(gap < beta, gap * gap * (0.5 / beta), gap - 0.5 * beta) if beta else gap
    return _reduced("smooth_l1_loss", loss, reduction)


@network
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Half the square where |input - target| <= delta, a line beyond (Huber, 1964)."""
    _check_same("huber_loss", input, target)
    gap = (input - target).abs()
    loss = where(gap <= delta, gap * gap * 0.5, (gap - 0.5 * delta) * delta)
    return _reduced("huber_loss", loss, reduction)


@network
def kl_div(
    input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """target * (log target - input), input being logarithms; "batchmean" divides by dim 0."""
    loss = target.exp() * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return _reduced("kl_div", loss, reduction)


@network
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The likelihood of counts; input is the rate, or its logarithm; full adds Stirling's term."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = clamp(target, min=1)
        rest = safe * safe.log() - safe + (safe * (2 * math.pi)).log() * 0.5
        loss = loss + rest.masked_fill(target <= 1, 0)
    return _reduced("poisson_nll_loss", loss, reduction)


@network
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input - target)^2 / var) / 2, var at least eps; full adds log(2 pi) / 2."""
    spread = (input * 0 + var) if isinstance(var, int | float) else var
    if spread.ndim == input.ndim - 1:
        spread = spread.unsqueeze(-1)
    # As in torch, the limit of the variance takes no part in its gradient.
    spread = spread + (clamp(spread, min=eps) - spread).detach()
    loss = (spread.log() + (input - target).square() / spread) * 0.5
    return _reduced(
        "gaussian_nll_loss", loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction
    )


@network
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    loss = clamp(-target * (input1 - input2) + margin, min=0)
    return _reduced("margin_ranking_loss", loss, reduction)


@network
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
    near = where(target != -1, input, 0.0)
    far = where(target != 1, clamp(margin - input, min=0), 0.0)
    return _reduced("hinge_embedding_loss", near + far, reduction)


@network
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)), targets being 1 or -1."""
    return _reduced("soft_margin_loss", softplus(-target * input, 1.0, 80.0), reduction)


@network
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Binary cross entropy of logits with targets 0 or 1, the mean over the last dim first."""
    loss = (target - 1) * logsigmoid(-input) - target * logsigmoid(input)
    loss = loss if weight is None else loss * weight
    return _reduced("multilabel_soft_margin_loss", loss.mean(-1), reduction)


@network
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; of the last dim."""
    cos = cosine_similarity(input1, input2, -1, 1e-12)
    loss = where(target == 1, 1 - cos, where(target == -1, clamp(cos - margin, min=0), 0.0))
    return _reduced("cosine_embedding_loss", loss, reduction)


@network
def triplet_margin_loss(  # noqa: PLR0913
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm of the difference.

    swap takes the smaller one of negative's distances to anchor and positive.
    """
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    far = far.minimum(pairwise_distance(positive, negative, p, eps)) if swap else far
    return _reduced("triplet_margin_loss", clamp(near - far + margin, min=0), reduction)
