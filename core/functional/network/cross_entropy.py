"""Cross entropies: of classes and their likelihoods, and of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.functional.network.losses import (
    check_reduction,
    check_same,
    reduced,
    reduction_of,
)
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import maximum
from rushlight.core.ops.checking import require
from rushlight.core.ops.declare import network
from rushlight.core.ops.derived import derived
from rushlight.core.ops.indexing import GATHER
from rushlight.core.ops.matmul import linear
from rushlight.core.ops.unary import log, log1p

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@network
@casts(cpu="float32", accelerator="refused")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-y log p - (1 - y) log(1 - p) of probabilities p and targets y of one shape.

    Logarithms are at least -100, and the gradient (p - y) / (p (1 - p)) has a divisor of at least
    1e-12, as in torch: a saturated sigmoid before it gets zero and not nan. weight broadcasts.

    `input` are p, `target` y. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce`
    are torch's old spelling of it. Raises ValueError for another reduction, ShapeError for
    different shapes, RangeError for numbers outside 0 to 1, on cpu at once.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_same("binary_cross_entropy", input, target)
    for label, x in (("input", input), ("target", target)):
        require(
            "binary_cross_entropy", (x >= 0) & (x <= 1), f"{label} has an element out of [0, 1]"
        )
    loss = derived(
        "binary_cross_entropy",
        _crossed,
        (_crossed_input, _crossed_target),
        input,
        target,
        wide=False,
    )
    return reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


def _crossed(p: Tensor, y: Tensor) -> Tensor:
    return (y - 1) * log1p(-p).clamp(min=-100) - y * log(p).clamp(min=-100)


def _crossed_input(p: Tensor, y: Tensor, out: Tensor) -> Tensor:
    return (p - y) / ((1 - p) * p).clamp(min=1e-12)


def _crossed_target(p: Tensor, y: Tensor, out: Tensor) -> Tensor:
    return log1p(-p) - log(p)


@network
@casts("inside")
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """`cross_entropy` of `linear(input, linear_weight)`; weight (classes, ..., features).

    options of chunking change no value and are ignored.

    `linear_bias` is the layer's; `target`, `reduction`, `ignore_index`, `label_smoothing` are
    cross_entropy's. Raises ValueError for an ignore_index with probabilities, and what that raises.
    """
    *outs, features = linear_weight.shape
    if ignore_index is not None and target.dtype.is_floating_point:
        raise ValueError("linear_cross_entropy: ignore_index is for targets of class indices")
    if len(outs) > 1 and input.ndim < 2:
        raise ShapeError(
            f"linear_cross_entropy: input is {input.shape}; weight "
            f"{linear_weight.shape} takes (n, {features})"
        )
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, features), bias)
    logits = logits.reshape(*input.shape[:-1], *outs)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@network
@casts("float32")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-y log s(x) - (1 - y) log(1 - s(x)) with s the sigmoid, without overflow; one shape.

    weight multiplies each element's loss, pos_weight the first term; both broadcast.

    `input` are the logits, `target` numbers from 0 to 1. `reduction` is "mean", "sum" or "none";
    `size_average` and `reduce` are torch's old spelling of it. Raises ValueError for another
    reduction, ShapeError for different shapes.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    name = "binary_cross_entropy_with_logits"
    check_same(name, input, target)
    # log(1 + exp(-x)). The gradient of maximum is half each at equality, which is right at x = 0.
    negative = maximum(-input, input.zeros_like()) + (-input.abs()).exp().log1p()
    if pos_weight is not None:
        negative = negative * (target * (pos_weight - 1) + 1)
    loss = (1 - target) * input + negative
    return reduced(name, loss if weight is None else loss * weight, reduction)


def _class_dim(name: str, input: Tensor, target: Tensor) -> int:
    """The dim of the classes; checks that `target` has one integer per remaining position."""
    if input.ndim == 0:
        raise ShapeError(f"{name}: input is 0-d; it must be (classes,) or (n, classes, ...)")
    dim = 0 if input.ndim == 1 else 1
    want = input.shape[:dim] + input.shape[dim + 1 :]
    message = f"{name}: target is {target.dtype.name} {target.shape}; for input {input.shape} it "
    if target.shape != want:
        raise ShapeError(f"{message}must hold class indices of shape {want}")
    if target.dtype.kind not in "ui":
        raise TypeMismatch(f"{message}must hold class indices, which are integers: target.long()")
    return dim


def _check_weight(name: str, weight: Tensor | None, classes: int) -> None:
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"{name}: weight is {weight.shape}; there are {classes} classes")


@network
@casts("float32")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] for log-probabilities (classes,) or (n, classes, ...), times the weight.

    target: class indices (n, ...); those equal to ignore_index are ignored. weight: (classes,).
    "mean" divides by the sum of the weights that were used; nan if none was. IndexError for an
    index that is not a class.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling of
    it. Raises ValueError for another reduction, ShapeError for shapes that do not fit.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return _nll_loss("nll_loss", input, target, weight, ignore_index, reduction)


def _nll_loss(
    name: str,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
) -> Tensor:
    dim = _class_dim(name, input, target)
    _check_weight(name, weight, input.shape[dim])
    check_reduction(name, reduction)
    counted = target != ignore_index
    index = target.where(counted, 0)
    factor = counted.to(input.dtype)
    picked = -GATHER(input, index.unsqueeze(dim), dim=dim, blamed=f"{name}: target").squeeze(dim)
    if weight is not None:
        factor = factor * _of_class(weight, index).to(input.dtype)
    # With `where` an infinite log-probability at an ignored position adds no nan.
    loss = (picked * factor).where(counted, 0.0)
    if reduction == "mean":
        return loss.sum() / factor.sum()
    return reduced(name, loss, reduction)


def _of_class(weight: Tensor, index: Tensor) -> Tensor:
    return weight.index_select(0, index.reshape(-1)).reshape(*index.shape)


@network
@casts("float32")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target] for logits (classes,) or (n, classes, ...).

    target: class indices (n, ...), where those equal to ignore_index are ignored, or probabilities
    of the shape of `input`. label_smoothing: the share of the target that is spread over all
    classes (Szegedy et al., 2016). weight: (classes,). "mean" divides by the weights of the targets
    that were used, for probabilities by the number of positions.

    `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are torch's old spelling of
    it. Raises ValueError for another reduction or smoothing, ShapeError for shapes that do not fit,
    IndexError for an index that is no class.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing is {label_smoothing}; not in [0, 1]")
    check_reduction("cross_entropy", reduction)
    dim = 0 if input.ndim == 1 else 1
    positions = input.shape[:dim] + input.shape[dim + 1 :]
    if target.dtype.is_floating_point and input.ndim and target.shape != positions:
        check_same("cross_entropy", input, target)
        return _soft_cross_entropy(input, target, dim, weight, reduction, label_smoothing)
    dim = _class_dim("cross_entropy", input, target)
    logp = input.log_softmax(dim)
    loss = _nll_loss("cross_entropy", logp, target, weight, ignore_index, reduction)
    if label_smoothing == 0:
        return loss
    spread = -(logp if weight is None else logp * _along(weight, logp, dim)).sum(dim)
    labelled = target != ignore_index
    spread = spread.where(labelled, 0.0)
    if reduction == "mean":
        counted = labelled.to(logp.dtype)
        if weight is not None:
            counted = counted * _of_class(weight, target.where(labelled, 0)).to(logp.dtype)
        spread = spread.sum() / counted.sum()
    elif reduction == "sum":
        spread = spread.sum()
    return loss * (1 - label_smoothing) + spread * (label_smoothing / input.shape[dim])


def _along(weight: Tensor, x: Tensor, dim: int) -> Tensor:
    return weight.to(x.dtype).reshape(*[-1 if d == dim else 1 for d in range(x.ndim)])


def _soft_cross_entropy(
    input: Tensor,
    target: Tensor,
    dim: int,
    weight: Tensor | None,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    classes = input.shape[dim]
    _check_weight("cross_entropy", weight, classes)
    logp = input.log_softmax(dim)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        logp = logp * _along(weight, logp, dim)
    loss = -(logp * target).sum(dim)
    return reduced("cross_entropy", loss, reduction)
