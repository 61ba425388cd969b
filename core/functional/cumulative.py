"""Running products, extremes and logarithms of sums."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import DType, as_dtype, int64
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.pointwise import logaddexp
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import maximum, where
from rushlight.core.ops.common import floating
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.reduce import ValuesIndices
from rushlight.core.ops.unary import abs, exp, isnan, log

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
@casts(accelerator="float32")
def cumprod(x: Tensor, dim: int, *, dtype: DType | str | None = None) -> Tensor:
    """Running products along `dim`; integers and booleans give int64.

    `x` is converted to `dtype` first. Raises IndexError for a dim that there is not.
    """
    if dtype is not None:
        x = x.to(as_dtype(dtype))
    elif x.dtype.kind in "bui":
        x = x.to(int64)
    d = normalize_dim("cumprod", dim, x.shape)
    if x.ndim == 0 or x.shape[d] == 0:
        return x.clone()
    # Each step doubles how many elements a place covers, exact where elements are zero.
    step = 1
    while step < x.shape[d]:
        n = x.shape[d]
        x = cat([x.narrow(d, 0, step), x.narrow(d, step, n - step) * x.narrow(d, 0, n - step)], d)
        step *= 2
    return x


def _extreme(name: str, x: Tensor, dim: int, larger: bool) -> ValuesIndices:
    d = normalize_dim(name, dim, x.shape)
    if x.ndim == 0:
        return ValuesIndices(x.clone(), x.zeros_like(dtype=int64))
    n, plain = x.shape[d], x.detach()
    shape = [-1 if i == d else 1 for i in range(x.ndim)]
    index = arange(n, device=x.device).reshape(*shape).expand(*x.shape)
    step = 1
    while step < n:
        early, late = plain.narrow(d, 0, n - step), plain.narrow(d, step, n - step)
        keeps = (early > late) if larger else (early < late)  # the later of equal ones
        if x.dtype.is_floating_point:
            keeps = (keeps | isnan(early)) & ~isnan(late)
        first = index.narrow(d, 0, step)
        moved = where(keeps, index.narrow(d, 0, n - step), index.narrow(d, step, n - step))
        best = where(keeps, early, late)
        index, plain = cat([first, moved], d), cat([plain.narrow(d, 0, step), best], d)
        step *= 2
    return ValuesIndices(x.gather(d, index), index)


@public
@method()
def cummax(x: Tensor, dim: int) -> ValuesIndices:
    """(values, indices) of the running largest along `dim`; the later of equal ones."""
    return _extreme("cummax", x, dim, True)


@public
@method()
def cummin(x: Tensor, dim: int) -> ValuesIndices:
    """(values, indices) of the running smallest along `dim`; the later of equal ones."""
    return _extreme("cummin", x, dim, False)


@public
@method()
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log of the running sums of exp(x) along `dim`, without overflow."""
    x = floating("logcumsumexp", x)
    d = normalize_dim("logcumsumexp", dim, x.shape)
    if x.ndim == 0 or x.shape[d] == 0:
        return x.clone()
    if x.dtype.is_complex:  # one by one: the branch of a logarithm depends on the order
        sums = accumulate(x.split(1, d), lambda total, element: logaddexp(element, total))
        return cat(list(sums), d)
    step, n = 1, x.shape[d]
    while step < n:
        early, late = x.narrow(d, 0, n - step), x.narrow(d, step, n - step)
        most = maximum(early, late).detach()
        base = where(abs(most) == math.inf, 0.0, most)
        joined = log(exp(early - base) + exp(late - base)) + base
        x = cat([x.narrow(d, 0, step), joined], d)
        step *= 2
    return x
