"""Loss functions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.ops.binary import maximum
from rushlight.core.ops.declare import network
from rushlight.core.ops.indexing import GATHER

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f'{name}: reduction is {reduction!r}; it must be "none", "mean" or "sum"')


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """torch's old spelling of a reduction, where one is given."""
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def _reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    _check_reduction(name, reduction)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _check_same(name: str, input: Tensor, other: Tensor, what: str = "target") -> None:
    if input.shape != other.shape:
        raise ShapeError(f"{name}: input is {input.shape}, {what} {other.shape}; reshape one")


def _beside(name: str, input: Tensor, target: Tensor, weight: Tensor | None = None) -> None:
    """Warn where a target will be broadcast, as torch does; a weight has the input's shape."""
    if weight is not None:
        _check_same(name, input, weight, "weight")
    if input.shape != target.shape:
        broadcast_shapes(name, input.shape, target.shape)
        warnings.warn(
            f"{name}: using a target of shape {target.shape} that differs from the input's "
            f"{input.shape}: they are broadcast, which is likely to give wrong results; give both "
            "one shape", stacklevel=5,
        )  # fmt: skip


def _weighted(name: str, loss: Tensor, reduction: str, weight: Tensor | None) -> Tensor:
    """The loss with a weight for each element, by whose sum the mean divides."""
    if weight is None:
        return _reduced(name, loss, reduction)
    if reduction == "mean":
        return (loss * weight).sum() / weight.sum()
    return _reduced(name, loss * weight, reduction)


@network
def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(input - target)^2; weight: one for each element of input.

    A target of another shape is broadcast, with a warning.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _beside("mse_loss", input, target, weight)
    return _weighted("mse_loss", (input - target).square(), reduction, weight)


@network
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """|input - target|; weight: one for each element of input.

    A target of another shape is broadcast, with a warning.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _beside("l1_loss", input, target, weight)
    return _weighted("l1_loss", (input - target).abs(), reduction, weight)


@network
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """-y log s(x) - (1 - y) log(1 - s(x)) with s the sigmoid, without overflow; one shape.

    weight multiplies each element's loss, pos_weight the first term; both broadcast.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    name = "binary_cross_entropy_with_logits"
    _check_same(name, input, target)
    # log(1 + exp(-x)). The gradient of maximum is half each at equality, which is right at x = 0.
    negative = maximum(-input, input.zeros_like()) + (-input.abs()).exp().log1p()
    if pos_weight is not None:
        negative = negative * (target * (pos_weight - 1) + 1)
    loss = (1 - target) * input + negative
    return _reduced(name, loss if weight is None else loss * weight, reduction)


def _class_dim(name: str, input: Tensor, target: Tensor) -> int:
    """The dim of the classes; checks that `target` has one integer per remaining position."""
    if input.ndim == 0:
        raise ShapeError(f"{name}: input is 0-d; it must be (classes,) or (n, classes, ...)")
    dim = 0 if input.ndim == 1 else 1
    want = input.shape[:dim] + input.shape[dim + 1 :]
    found = f"{name}: target is {target.dtype.name} {target.shape}; for input {input.shape} it "
    if target.shape != want:
        raise ShapeError(f"{found}must hold class indices of shape {want}")
    if target.dtype.kind not in "ui":
        raise TypeMismatch(f"{found}must hold class indices, which are integers: target.long()")
    return dim


def _check_weight(name: str, weight: Tensor | None, classes: int) -> None:
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"{name}: weight is {weight.shape}; there are {classes} classes")


@network
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-input[target] for log-probabilities (classes,) or (n, classes, ...), times the weight.

    target: class indices (n, ...); those equal to ignore_index are ignored. weight: (classes,).
    "mean" divides by the sum of the weights that were used; nan if none was. IndexError for an
    index that is not a class.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return _nll_loss("nll_loss", input, target, weight, ignore_index, reduction)


def _nll_loss(
    name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int,
    reduction: str,
) -> Tensor:  # fmt: skip
    dim = _class_dim(name, input, target)
    _check_weight(name, weight, input.shape[dim])
    _check_reduction(name, reduction)
    kept = target != ignore_index
    index = target.where(kept, 0)
    factor = kept.to(input.dtype)
    picked = -GATHER(input, index.unsqueeze(dim), dim=dim, blamed=f"{name}: target").squeeze(dim)
    if weight is not None:
        factor = factor * _of_class(weight, index).to(input.dtype)
    # With `where` an infinite log-probability at an ignored position adds no nan.
    loss = (picked * factor).where(kept, 0.0)
    if reduction == "mean":
        return loss.sum() / factor.sum()
    return _reduced(name, loss, reduction)


def _of_class(weight: Tensor, index: Tensor) -> Tensor:
    return weight.index_select(0, index.reshape(-1)).reshape(*index.shape)


@network
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log softmax(input)[target] for logits (classes,) or (n, classes, ...).

    target: class indices (n, ...), where those equal to ignore_index are ignored, or probabilities
    of the shape of `input`. label_smoothing: the share of the target that is spread over all
    classes (Szegedy et al., 2016). weight: (classes,). "mean" divides by the weights of the targets
    that were used, for probabilities by the number of positions.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing is {label_smoothing}; not in [0, 1]")
    _check_reduction("cross_entropy", reduction)
    dim = 0 if input.ndim == 1 else 1
    positions = input.shape[:dim] + input.shape[dim + 1 :]
    if target.dtype.is_floating_point and input.ndim and target.shape != positions:
        _check_same("cross_entropy", input, target)
        return _soft_cross_entropy(input, target, dim, weight, reduction, label_smoothing)
    dim = _class_dim("cross_entropy", input, target)
    logp = input.log_softmax(dim)
    loss = _nll_loss("cross_entropy", logp, target, weight, ignore_index, reduction)
    if label_smoothing == 0:
        return loss
    spread = -(logp if weight is None else logp * _along(weight, logp, dim)).sum(dim)
    kept = target != ignore_index
    spread = spread.where(kept, 0.0)
    if reduction == "mean":
        counted = kept.to(logp.dtype)
        if weight is not None:
            counted = counted * _of_class(weight, target.where(kept, 0)).to(logp.dtype)
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
    return _reduced("cross_entropy", loss, reduction)
