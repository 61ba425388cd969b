"""Losses of regression, ranking and classification beyond those of ../losses.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.losses import (
    _check_reduction,
    _check_same,
    _reduced,
    cross_entropy,
    reduction_of,
)
from rushlight.core.functional.network.activations import (
    cosine_similarity,
    logsigmoid,
    pairwise_distance,
)
from rushlight.core.ops.binary import maximum, minimum, where
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.indexing import GATHER
from rushlight.core.ops.matmul import linear
from rushlight.core.ops.unary import abs, exp, log

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-y log p - (1 - y) log(1 - p) of probabilities; logarithms are at least -100."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_same("binary_cross_entropy", input, target)
    yes, no = (log(p).clamp(min=-100) for p in (input, 1 - input))
    loss = -(target * yes + (1 - target) * no)
    return _reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


@network
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_same("smooth_l1_loss", input, target)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta is {beta}; it must not be negative")
    d = abs(input - target)
    if beta == 0:
        return _reduced("smooth_l1_loss", d, reduction)
    return _reduced(
        "smooth_l1_loss", where(d < beta, d.square() / (2 * beta), d - beta / 2), reduction
    )


@network
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2) (Huber, 1964)."""
    _check_same("huber_loss", input, target)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta is {delta}; it must be positive")
    d = abs(input - target)
    loss = where(d <= delta, d.square() / 2, delta * (d - delta / 2))
    return _reduced("huber_loss", loss if weight is None else loss * weight, reduction)


@public
@network
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target (log target - input) for log-probabilities `input`; "batchmean" divides by dim 0."""
    reduction = reduction_of(size_average, reduce, reduction)
    if log_target:
        loss = exp(target) * (target - input)
    else:
        safe = where(target > 0, target, 1.0)
        loss = where(target > 0, target * log(safe), 0.0) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    return _reduced("kl_div", loss, reduction)


@public
@network
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(x) - y x, or x - y log(x + eps); `full` adds Stirling's term for y > 1."""
    reduction = reduction_of(size_average, reduce, reduction)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        loss = loss + where(target > 1, stirling, 0.0)
    return _reduced("poisson_nll_loss", loss, reduction)


@network
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """(log var + (x - y)^2 / var) / 2 with var at least eps; `full` adds log(2 pi) / 2."""
    spread = input.ones_like() * var if isinstance(var, int | float) else var
    if spread.ndim == input.ndim - 1:
        spread = spread.unsqueeze(-1)
    # The limit takes no part in the gradient.
    spread = spread + (spread.detach().clamp(min=eps) - spread.detach())
    loss = 0.5 * (log(spread) + (input - target).square() / spread)
    return _reduced(
        "gaussian_nll_loss", loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction
    )


@public
@network
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -y (x1 - x2) + margin)."""
    reduction = reduction_of(size_average, reduce, reduction)
    return _reduced(
        "margin_ranking_loss", (-target * (input1 - input2) + margin).clamp(min=0), reduction
    )


@public
@network
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x where y is 1, max(0, margin - x) where y is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    zero = input * 0
    loss = where(target != 1, (margin - input).clamp(min=0), zero)
    return _reduced("hinge_embedding_loss", loss + where(target != -1, input, zero), reduction)


@public
@network
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos where y is 1, max(0, cos - margin) where y is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    cos = cosine_similarity(input1, input2, -1)
    loss = where(target == 1, 1 - cos, (cos - margin).clamp(min=0))
    return _reduced("cosine_embedding_loss", loss, reduction)


@network
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """log(1 + exp(-y x))."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_same("soft_margin_loss", input, target)
    return _reduced("soft_margin_loss", -logsigmoid(target * input), reduction)


@network
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of the binary cross entropy of logits."""
    reduction = reduction_of(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return _reduced("multilabel_soft_margin_loss", loss.mean(-1), reduction)


@network
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over classes of max(0, margin - x_y + x_i)^p, for i other than the class y."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_reduction("multi_margin_loss", reduction)
    if p not in (1, 2) or (weight is not None and weight.ndim != 1):
        raise ValueError(f"multi_margin_loss: p is {p}, weight {weight}; p must be 1 or 2, a "
                         "weight one-dimensional")  # fmt: skip
    rows = input if input.ndim > 1 else input.reshape(1, -1)
    index = target.reshape(-1, 1)
    own = GATHER(rows, index, dim=1, blamed="multi_margin_loss: target")
    loss = (margin - own + rows).clamp(min=0)
    loss = loss if p == 1 else loss**p
    if weight is not None:
        loss = loss * weight[index]
    own = rows.detach().zeros_like(dtype="bool").scatter(1, index, True)
    loss = loss.masked_fill(own, 0.0).sum(1) / rows.shape[1]
    return _reduced("multi_margin_loss", loss if input.ndim > 1 else loss.reshape(), reduction)


@network
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Margins of 1 between the classes named (up to the first -1) and all others."""
    reduction = reduction_of(size_average, reduce, reduction)
    _check_reduction("multilabel_margin_loss", reduction)
    rows, named = (x if x.ndim > 1 else x.reshape(1, -1) for x in (input, target))
    counted = (named < 0).long().cumsum(1) == 0
    safe = where(counted, named, 0)
    marks = rows.detach().zeros_like().scatter_add(1, safe, counted.to(rows.dtype)) > 0
    gap = (1 - rows.gather(1, safe).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    keep = counted.unsqueeze(2) & ~marks.unsqueeze(1)
    loss = where(keep, gap, gap * 0).sum((1, 2)) / rows.shape[1]
    return _reduced("multilabel_margin_loss", loss if input.ndim > 1 else loss.reshape(), reduction)


@public
@network
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, d(a, p) - d(a, n) + margin); `swap` takes the nearer of d(a, n) and d(p, n)."""
    reduction = reduction_of(size_average, reduce, reduction)

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap,
        reduction=reduction,
    )  # fmt: skip


@network
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """`triplet_margin_loss` with a distance of one's own; by default `pairwise_distance`."""
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin is {margin}; it must be positive")
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return _reduced("triplet_margin_loss", (near - far + margin).clamp(min=0), reduction)


@public
@network
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability of label sequences over all alignments (Graves et al., 2006).

    log_probs: (steps, n, classes) or (steps, classes). targets: (n, length) or all joined. Lengths:
    tensors or lists of integers. "mean" divides by the target's length first.
    """
    single = log_probs.ndim == 2
    logs = log_probs.unsqueeze(1) if single else log_probs
    steps, n, _ = logs.shape
    given, wanted = ([int(v) for v in (t.reshape(-1).tolist() if hasattr(t, "tolist") else t)]
                     for t in (input_lengths, target_lengths))  # fmt: skip
    most = max(wanted, default=0)
    flat, rows, at = targets.reshape(-1).tolist(), [], 0
    width = targets.shape[-1] if targets.ndim > 1 else 0
    for i, count in enumerate(wanted):
        at = i * width if targets.ndim > 1 else at
        row = [int(v) for v in flat[at : at + count]]
        at += count
        rows.append(row + [blank] * (most - count))
    labels = [[blank, *(v for label in row for v in (label, blank))] for row in rows]
    width = 2 * most + 1
    index = of_data(labels, dtype="int64", device=logs.device).reshape(n, width)
    skips = [[s > 1 and row[s] != blank and row[s] != row[s - 2] for s in range(width)]
             for row in labels]  # fmt: skip
    skip = of_data(skips, dtype="bool", device=logs.device).reshape(n, width)
    low = -1e30  # a logarithm of 0 whose gradient is 0 and not nan
    first = of_data([[s < 2 and s < 2 * c + 1 for s in range(width)] for c in wanted],
                   dtype="bool", device=logs.device).reshape(n, width)  # fmt: skip
    state = where(first, logs[0].gather(1, index), low)
    pad = logs.detach()[0, :, :1] * 0 + low
    for t in range(1, steps):
        one = _shifted(state, pad, 1, width)
        two = where(skip, _shifted(state, pad, 2, width), low)
        best = maximum(maximum(state, one), two).detach()
        total = log(exp(state - best) + exp(one - best) + exp(two - best)) + best
        moved = maximum(total, low) + logs[t].gather(1, index)
        going = of_data([t < length for length in given], dtype="bool", device=logs.device)
        state = where(going.unsqueeze(1), moved, state)
    ends = of_data([[2 * c, max(2 * c - 1, 0)] for c in wanted], dtype="int64", device=logs.device)
    last = state.gather(1, ends.reshape(n, 2))
    short = of_data([[False, c == 0] for c in wanted], dtype="bool", device=logs.device)
    last = where(short.reshape(n, 2), low, last)
    best = last.amax(1, True).detach()
    loss = -(log(exp(last - best).sum(1)) + best.squeeze(1))
    # torch's gradient is that of probabilities which add up to 1: exp(log_probs) has a share. For
    # the result of log_softmax this changes nothing.
    counted = of_data([[t < length for length in given] for t in range(steps)], dtype="bool",
                      device=logs.device).reshape(steps, n)  # fmt: skip
    mass = where(counted, exp(logs).sum(2), 0.0).sum(0)
    loss = loss + (mass - mass.detach())
    never = loss > -low / 2
    loss = where(never, 0.0 if zero_infinity else math.inf, loss).to(logs.dtype)
    if reduction == "mean":
        sizes = of_data([max(c, 1) for c in wanted], dtype=loss.dtype, device=logs.device)
        return (loss / sizes).mean()
    return _reduced("ctc_loss", loss.reshape() if single else loss, reduction)


def _shifted(state: Tensor, pad: Tensor, by: int, width: int) -> Tensor:
    from rushlight.core.ops.join import cat

    front = pad.expand(pad.shape[0], min(by, width))
    return cat([front, state[:, : max(width - by, 0)]], 1)


@network
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: object = None,
) -> Tensor:  # fmt: skip
    """`cross_entropy` of `linear(input, linear_weight)`; weight (classes, ..., features).

    options of chunking change no value and are ignored.
    """
    *outs, features = linear_weight.shape
    if ignore_index is not None and target.dtype.is_floating_point:
        raise ValueError("linear_cross_entropy: ignore_index is for targets of class indices")
    if len(outs) > 1 and input.ndim < 2:
        raise ShapeError(f"linear_cross_entropy: input is {input.shape}; weight "
                         f"{linear_weight.shape} takes (n, {features})")  # fmt: skip
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, features), bias)
    logits = logits.reshape(*input.shape[:-1], *outs)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(logits, target, weight, ignore_index=ignored, reduction=reduction,
                         label_smoothing=label_smoothing)  # fmt: skip
