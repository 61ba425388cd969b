"""Loss functions of regression, ranking and classification, but for cross entropies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.functional.network.activations import logsigmoid
from rushlight.core.functional.network.distance import pairwise_distance
from rushlight.core.functional.pointwise import xlogy
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import minimum, where
from rushlight.core.ops.checking import require
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.indexing import GATHER
from rushlight.core.ops.unary import abs, exp, log, sqrt

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
@casts("float32")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2.

    A target of another shape is broadcast, with a warning.

    `input` - `target` is d (Girshick, 2015). `reduction` is "mean", "sum" or "none"; `size_average`
    and `reduce` are torch's old spelling of it. Raises ValueError for another reduction or a
    negative beta, ShapeError for shapes that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _beside("smooth_l1_loss", input, target)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta is {beta}; it must not be negative")
    d = abs(input - target)
    if beta == 0:
        return reduced("smooth_l1_loss", d, reduction)
    near = (d < beta) | (d != d)
    # The square is of near ones only: the gradient of an infinite difference is not nan.
    small = where(near, d, 0.0)
    loss = where(near, small.square() / (2 * beta), d - beta / 2)
    return reduced("smooth_l1_loss", loss, reduction)


@network
@casts("float32")
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2) (Huber, 1964).

    A target of another shape is broadcast, with a warning; a weight has the shape of input.

    `reduction` is "mean", "sum" or "none". Raises ValueError for another reduction or a delta that
    is not positive, ShapeError for shapes that do not broadcast.
    """
    _beside("huber_loss", input, target, weight)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta is {delta}; it must be positive")
    d = abs(input - target)
    near = (d <= delta) | (d != d)
    small = where(near, d, 0.0)
    loss = where(near, small.square() / 2, delta * (d - delta / 2))
    return reduced("huber_loss", loss if weight is None else loss * weight, reduction)


@public
@network
@casts("float32")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target (log target - input) for log-probabilities `input`; "batchmean" divides by dim 0.

    `log_target`: targets are logarithms too. `reduction` is "mean", "batchmean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. Raises ValueError for another
    reduction, ShapeError for shapes that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if log_target:
        loss = exp(target) * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss
    return reduced("kl_div", loss, reduction)


@public
@network
@casts("float32")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - y x, or x - y log(x + eps); `full` adds Stirling's term for y > 1.

    `input` is x, the logarithm of the rate with `log_input`, `target` y. `reduction` is "mean",
    "sum" or "none"; `size_average` and `reduce` are torch's old spelling of it. Raises ValueError
    for another reduction, ShapeError for shapes that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced("poisson_nll_loss", loss, reduction)


@network
@casts("inside")
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (x - y)^2 / var) / 2 with var at least eps; `full` adds log(2 pi) / 2.

    var: a number, or a tensor of the shape of x, or without its last dim, or with one dim of 1.
    ValueError for a negative number, and for other shapes.

    `input` is x, `target` y, `reduction` "mean", "sum" or "none". ValueError for another.
    """
    if isinstance(var, int | float):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var is {var}; it must not be negative")
        spread = input.detach().ones_like() * var
    else:
        spread = var
    if spread.shape != input.shape:
        if spread.shape == input.shape[:-1]:
            spread = spread.unsqueeze(-1)
        elif (
            spread.ndim != input.ndim
            or sum(n for n, m in zip(spread.shape, input.shape, strict=True) if n != m) != 1
        ):
            raise ShapeError(
                f"gaussian_nll_loss: var is {spread.shape}; for input {input.shape} it must have "
                "that shape, but for the last dim or one of 1"
            )
    if spread is var:
        require("gaussian_nll_loss", ~(var < 0), "var has a negative element")
    # The limit takes no part in the gradient.
    spread = spread + (spread.detach().clamp(min=eps) - spread.detach())
    loss = 0.5 * (log(spread) + (input - target).square() / spread)
    return reduced(
        "gaussian_nll_loss", loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction
    )


@public
@network
@casts("float32")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -y (x1 - x2) + margin) of three tensors with as many dims.

    `input1` and `input2` are x1 and x2, `target` y (1 or -1). `reduction` is "mean", "sum" or
    "none"; `size_average` and `reduce` are torch's old spelling of it. Raises ValueError for
    another reduction, ShapeError for different counts of dims.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            f"margin_ranking_loss: input1 {input1.shape}, input2 {input2.shape} and "
            f"target {target.shape} differ in their number of dims"
        )
    return reduced(
        "margin_ranking_loss", (-target * (input1 - input2) + margin).clamp(min=0), reduction
    )


@public
@network
@casts("float32")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where y is 1, max(0, margin - x) where y is -1.

    `input` is x, `target` y. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce`
    are torch's old spelling of it. Raises ValueError for another reduction, ShapeError for shapes
    that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    loss = where(target != 1, (margin - input).clamp(min=0), 0.0)
    return reduced("hinge_embedding_loss", loss + where(target != -1, input, 0.0), reduction)


@public
@network
@casts("float32")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where y is 1, max(0, cos - margin) where y is -1, and 0 elsewhere.

    The inputs are (n, features), the target (n,), or without n. 1e-12 is added to squared lengths.

    cos is that of `input1` and `input2`. `reduction` is "mean", "sum" or "none"; `size_average` and
    `reduce` are torch's old spelling of it. Raises ValueError for another reduction, ShapeError for
    other shapes.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if input1.ndim != input2.ndim or input1.ndim != target.ndim + 1 or target.ndim > 1:
        raise ShapeError(
            f"cosine_embedding_loss: input1 is {input1.shape}, input2 {input2.shape}, "
            f"target {target.shape}; they must be (n, features) and (n,), or "
            "(features,) and ()"
        )
    dim = target.ndim
    lengths = [x.square().sum(dim) + 1e-12 for x in (input1, input2)]
    cos = (input1 * input2).sum(dim) / sqrt(lengths[0] * lengths[1])
    loss = where(target == 1, 1 - cos, 0.0) + where(target == -1, (cos - margin).clamp(min=0), 0.0)
    return reduced("cosine_embedding_loss", loss, reduction)


@network
@casts("float32")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-y x)), without overflow where -y x is large (torch gives inf there).

    `input` is x, `target` y (1 or -1). `reduction` is "mean", "sum" or "none"; `size_average` and
    `reduce` are torch's old spelling of it. Raises ValueError for another reduction, ShapeError for
    different shapes.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_same("soft_margin_loss", input, target)
    return reduced("soft_margin_loss", -logsigmoid(target * input), reduction)


@network
@casts("inside")
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes, the last dim of input, of the binary cross entropy of logits.

    `target` is 0 or 1 for each class, `weight` (classes,). `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. Raises ValueError for another
    reduction, ShapeError for shapes that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    dim = input.ndim - 1
    loss = loss.sum(dim) / input.shape[dim]
    return reduced("multilabel_soft_margin_loss", loss, reduction)


@network
@casts("float32")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of max(0, margin - x_y + x_i)^p, for i other than the class y.

    `input` is (n, classes) or (classes,), `target` (n,) or () the right classes, `weight`
    (classes,). `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old
    spelling of it. Raises ValueError for another reduction or another p, IndexError for an index
    that is no class.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_reduction("multi_margin_loss", reduction)
    if p not in (1, 2) or (weight is not None and weight.ndim != 1):
        raise ValueError(
            f"multi_margin_loss: p is {p}, weight {weight}; p must be 1 or 2, a "
            "weight one-dimensional"
        )
    rows = input if input.ndim > 1 else input.reshape(1, -1)
    index = target.reshape(-1, 1)
    correct = GATHER(rows, index, dim=1, blamed="multi_margin_loss: target")
    loss = (margin - correct + rows).clamp(min=0)
    loss = loss if p == 1 else loss**p
    if weight is not None:
        loss = loss * weight[index]
    correct = rows.detach().zeros_like(dtype="bool").scatter(1, index, True)
    loss = loss.masked_fill(correct, 0.0).sum(1) / rows.shape[1]
    return reduced("multi_margin_loss", loss if input.ndim > 1 else loss.reshape(), reduction)


@network
@casts("float32")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Margins of 1 between the classes named (up to the first -1) and all others.

    `input` is (n, classes) or (classes,), `target` of its shape int64. `reduction` is "mean", "sum"
    or "none"; `size_average` and `reduce` are torch's old spelling of it. Raises ValueError for
    another reduction, RangeError for no class, on cpu at once.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_reduction("multilabel_margin_loss", reduction)
    rows, named = (x if x.ndim > 1 else x.reshape(1, -1) for x in (input, target))
    require(
        "multilabel_margin_loss",
        (named >= -1) & (named < rows.shape[1]),
        f"target has an element that is no class below {rows.shape[1]} and not -1",
    )
    counted = (named < 0).long().cumsum(1) == 0
    safe = where(counted, named, 0)
    marks = rows.detach().zeros_like().scatter_add(1, safe, counted.to(rows.dtype)) > 0
    gap = (1 - rows.gather(1, safe).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    keep = counted.unsqueeze(2) & ~marks.unsqueeze(1)
    loss = where(keep, gap, 0.0).sum((1, 2)) / rows.shape[1]
    return reduced("multilabel_margin_loss", loss if input.ndim > 1 else loss.reshape(), reduction)


@public
@network
@casts("float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin); `swap` takes the nearer of d(a, n) and d(p, n).

    `anchor`, `positive` and `negative` are a, p and n; d is the p-norm of the difference plus
    `eps`. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old
    spelling of it. Raises ValueError for another reduction or a margin that is not positive,
    ShapeError for different counts of dims.
    """
    reduction = reduction_of(size_average, reduce, reduction)

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=distance,
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


@network
@casts("inside")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own; by default `pairwise_distance`.

    `anchor`, `positive`, `negative`, `margin`, `swap` and `reduction` are as there, and so is what
    it raises; `distance_function` takes two tensors.
    """
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin is {margin}; it must be positive")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            f"triplet_margin_loss: anchor {anchor.shape}, positive {positive.shape}, "
            f"negative {negative.shape} differ in their number of dims"
        )
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced("triplet_margin_loss", (near - far + margin).clamp(min=0), reduction)


def check_reduction(name: str, reduction: str) -> None:
    """Raise ValueError for a reduction that is none."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f'{name}: reduction is {reduction!r}; it must be "none", "mean" or "sum"')


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """torch's old spelling of a reduction, where one is given."""
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    """The losses themselves, their mean or their sum; ValueError for another reduction."""
    check_reduction(name, reduction)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def check_same(name: str, input: Tensor, other: Tensor, what: str = "target") -> None:
    """Raise ShapeError where the other tensor has another shape than the input."""
    if input.shape != other.shape:
        raise ShapeError(f"{name}: input is {input.shape}, {what} {other.shape}; reshape one")


def _beside(name: str, input: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
    """Warn where a target will be broadcast, as torch does; a weight has the input's shape."""
    if weight is not None:
        check_same(name, input, weight, "weight")
    if input.shape != target.shape:
        broadcast_shapes(name, input.shape, target.shape)
        warnings.warn(
            f"{name}: using a target of shape {target.shape} that differs from the input's "
            f"{input.shape}: they are broadcast, which is likely to give wrong results; give both "
            "one shape",
            stacklevel=5,
        )


def _weighted(name: str, loss: Tensor, reduction: str, weight: Tensor | None) -> Tensor:
    """The loss with a weight for each element, by whose sum the mean divides."""
    if weight is None:
        return reduced(name, loss, reduction)
    if reduction == "mean":
        return (loss * weight).sum() / weight.sum()
    return reduced(name, loss * weight, reduction)


@network
@casts("float32")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)^2; weight: one for each element of input.

    A target of another shape is broadcast, with a warning.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling of
    it. Raises ValueError for another reduction, ShapeError for shapes that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _beside("mse_loss", input, target, weight)
    return _weighted("mse_loss", (input - target).square(), reduction, weight)


@network
@casts("float32")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|; weight: one for each element of input.

    A target of another shape is broadcast, with a warning.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling of
    it. Raises ValueError for another reduction, ShapeError for shapes that do not broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _beside("l1_loss", input, target, weight)
    return _weighted("l1_loss", (input - target).abs(), reduction, weight)
