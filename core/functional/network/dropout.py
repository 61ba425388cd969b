"""Dropout of elements and of whole channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.ops.declare import network, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.random import rand

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@network
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability `p` and scale the others by 1 / (1 - p), in training.

    inplace: the result is written over the input.

    Raises ValueError for a p outside 0 to 1 (Srivastava et al., 2014).
    """
    out = _dropped(input, p, training)
    return copy_(input, out) if inplace and out is not input else out


def _dropped(x: Tensor, p: float, training: bool) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}; it must be from 0 to 1")
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    keep = rand(x.shape, device=x.device) >= p
    return x * (keep.to(x.dtype) * (1 / (1 - p)))


_ALPHA = -1.7580993408473766  # what SELU gives for -infinity


def _by_channel(name: str, x: Tensor, p: float, training: bool, least: int) -> Tensor:
    """Whole channels set to zero."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is {p}; it must be between 0 and 1")
    if not training or p == 0:
        return x
    batched = x.ndim > least
    shape = x.shape[: 2 if batched else 1]
    ones = x.detach().new_ones(*shape)
    scales: Tensor = dropout(ones, p).reshape(*shape, *[1] * (x.ndim - len(shape)))
    return x * scales


@network
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, length) set to zero, the others divided by 1 - p.

    `input` may lack n. `training`: only then is anything dropped; `inplace` writes the result over
    `input`. Raises ValueError for a p outside 0 to 1.
    """
    out = _by_channel("dropout1d", input, p, training, 2)
    return copy_(input, out) if inplace and out is not input else out


@network
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, h, w) set to zero, the others divided by 1 - p.

    `input` may lack n. `training`: only then is anything dropped; `inplace` writes the result over
    `input`. Raises ValueError for a p outside 0 to 1.
    """
    out = _by_channel("dropout2d", input, p, training, 3)
    return copy_(input, out) if inplace and out is not input else out


@network
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, d, h, w) set to zero, the others divided by 1 - p.

    `input` may lack n. `training`: only then is anything dropped; `inplace` writes the result over
    `input`. Raises ValueError for a p outside 0 to 1.
    """
    out = _by_channel("dropout3d", input, p, training, 4)
    return copy_(input, out) if inplace and out is not input else out


@network
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Elements set to SELU's lower end, scaled so that mean and variance keep.

    `input` has each element dropped with probability `p` (Klambauer et al., 2017). `training`: only
    then is anything dropped; `inplace` writes the result over `input`. Raises ValueError for a p
    outside 0 to 1.
    """
    return _alpha("alpha_dropout", input, input.shape, p, training, inplace)


def _alpha(
    name: str, x: Tensor, shape: Sequence[int], p: float, training: bool, inplace: bool
) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is {p}; it must be between 0 and 1")
    if not training or p == 0:
        return x
    if p == 1:
        return copy_(x, x * 0) if inplace else x * 0
    stays = (rand(*shape, dtype=x.dtype, device=x.device) >= p).to(x.dtype)
    a = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    out: Tensor = (x * stays + _ALPHA * (1 - stays)) * a - a * _ALPHA * p
    return copy_(x, out) if inplace else out


@network
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels: (n, c, ...).

    `input` has each channel dropped with probability `p`. `training`: only then is anything
    dropped; `inplace` writes the result over `input`. Raises ValueError for a p outside 0 to 1.
    """
    shape = (*input.shape[:2], *[1] * (input.ndim - 2))
    return _alpha("feature_alpha_dropout", input, shape, p, training, inplace)
