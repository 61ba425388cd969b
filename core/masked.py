"""Functions of the elements that a mask selects, under the names of torch.masked.

mask: booleans that broadcast to the input, true for elements that count; all count without one. An
element that does not is replaced by one that changes nothing, so what has no element at all is that
(0 for a sum), or nan where there is none (of a mean). dtype: of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core import linalg as _linalg
from rushlight.core.basis.dtype import DType, as_dtype, bool_, float32, int64
from rushlight.core.basis.layout import normalize_dim, normalize_dims
from rushlight.core.basis.limits import iinfo
from rushlight.core.functional import declared as f
from rushlight.core.nn import functional as _nn
from rushlight.core.ops.reduce import Dims

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Dtype = DType | str | None
__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
           "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
           "sum", "var"]  # fmt: skip


def _mask_of(x: Tensor, mask: Tensor) -> Tensor:
    if mask.ndim > x.ndim:
        raise IndexError(f"masked: mask {mask.shape} has more dims than the input {x.shape}")
    return mask.to(bool_).expand(*x.shape)


def _filled(x: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """x with `value`, or the end of the dtype's range, where the mask is false."""
    if mask is None:
        return x
    if math.isinf(value) and x.dtype.kind in "bui":
        ends = (False, True) if x.dtype is bool_ else (iinfo(x.dtype).min, iinfo(x.dtype).max)
        value = ends[value > 0]
    return f.masked_fill(x, ~_mask_of(x, mask), value)


def _sum_dtype(x: Tensor, dtype: Dtype) -> DType:
    return (int64 if x.dtype.kind in "bui" else x.dtype) if dtype is None else as_dtype(dtype)


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the selected elements over `dim`; integers give int64.

    `mask` selects elements of `input`, `dtype` is that of the result, `keepdim` leaves dims with
    size 1. Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    dims = normalize_dims("masked.sum", dim, input.shape)
    total: Tensor = f.sum(_filled(input, mask, 0), dims, keepdim, dtype=_sum_dtype(input, dtype))
    return total


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the selected elements over `dim`; integers give int64.

    `mask` selects elements of `input`, `dtype` is that of the result, `keepdim` leaves dims with
    size 1. Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    product = _filled(input, mask, 1).to(_sum_dtype(input, dtype))
    for d in reversed(normalize_dims("masked.prod", dim, input.shape)):
        product = f.prod(product, d, keepdim)
    return product


def _running(name: str, one: float) -> Callable[..., Tensor]:
    run = getattr(f, name)

    def call(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
        kind = input.dtype if dtype is None else as_dtype(dtype)
        running: Tensor = run(_filled(input, mask, one), dim, dtype=kind)
        return running.to(kind)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"`{name}` of `input` along `dim`, over which elements that `mask` does not select do "
        "nothing, in the dtype `dtype`. Raises IndexError for a dim that there is not."
    )
    return call


cumsum, cumprod = _running("cumsum", 0), _running("cumprod", 1)


def _extreme(name: str, value: float) -> Callable[..., Tensor]:
    run = getattr(f, name)

    def call(
        input: Tensor,
        dim: Any = None,
        *,
        keepdim: bool = False,
        dtype: Dtype = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        extreme: Tensor = run(_filled(input, mask, value), dim, keepdim)
        return extreme.to(input.dtype if dtype is None else as_dtype(dtype))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"`{name}` of the elements of `input` that `mask` selects, over `dim`, which `keepdim` "
        "leaves with size 1; in the dtype `dtype` or the input's. Raises IndexError for a dim "
        "that there is not."
    )
    return call


amax, amin = _extreme("amax", -math.inf), _extreme("amin", math.inf)
argmax, argmin = _extreme("argmax", -math.inf), _extreme("argmin", math.inf)


def _mean(
    x: Tensor, dim: Dims, keepdim: bool, dtype: DType, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The mean, and how many elements it is of."""
    chosen = x.ones_like(dtype=bool_) if mask is None else _mask_of(x, mask)
    count = sum(chosen, dim, keepdim=keepdim)
    return sum(x, dim, keepdim=keepdim, dtype=dtype, mask=chosen) / count, count


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the selected elements over `dim`; ValueError for integers without a `dtype`.

    `mask` selects elements of `input`, `dtype` is that of the result, `keepdim` leaves dims with
    size 1. Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    kind = input.dtype if dtype is None else as_dtype(dtype)
    if kind.kind not in "fc":
        raise ValueError(f"masked.mean: {kind.name} is not a floating or complex dtype")
    return _mean(input, dim, keepdim, kind, mask)[0]


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median, the lower of two, of the selected elements along `dim`.

    ValueError for integers of which a row has no element, which would be nan.

    `mask` selects elements of `input`, `dtype` is that of the result, `keepdim` leaves dims with
    size 1. Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    kind = input.dtype if dtype is None else as_dtype(dtype)
    floats = input.dtype.is_floating_point
    wide = input if floats else input.to(float32)
    medians: Tensor = f.nanmedian(_filled(wide, mask, math.nan), dim, keepdim).values
    if floats:
        return medians
    if f.isnan(medians).any().item():
        raise ValueError("masked.median: a row of integers has no element")
    return medians.to(kind)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log(sum(exp(x))) of the selected elements over `dim`.

    `mask` selects elements of `input`, `dtype` is that of the result, `keepdim` leaves dims with
    size 1. Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    dims = normalize_dims("masked.logsumexp", dim, input.shape)
    logs = f.logsumexp(_filled(input, mask, -math.inf), dims, keepdim)
    return logs.to(input.dtype if dtype is None else as_dtype(dtype))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Dtype = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(x) + exp(y)), each of them only where its mask selects it.

    `input_mask` selects elements of `input`, `other_mask` of `other`; `dtype` is that of the
    result. Raises IndexError for a mask of more dims than its tensor.
    """
    a, b = _filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf)
    return f.logaddexp(a, b).to(input.dtype if dtype is None else as_dtype(dtype))


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of order `ord` of the selected elements over `dim`.

    `mask` selects elements of `input`, `dtype` is that of the result, `keepdim` leaves dims with
    size 1. Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    kind = input.dtype if dtype is None else as_dtype(dtype)
    x = _filled(input, mask, math.inf if ord == -math.inf else 0)
    dims = normalize_dims("masked.norm", dim, input.shape)
    norms: Tensor = _linalg.vector_norm(x, 2 if ord is None else ord, dims, keepdim, dtype=kind)
    return norms


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the selected elements over `dim`, by their number less `correction`, 1.

    `unbiased` is torch's older way to say a correction of 1. `mask` selects elements of `input`,
    `dtype` is that of the result, `keepdim` leaves dims with size 1. Raises IndexError for a mask
    of more dims, or a dim that there is not. ValueError for both of the two.
    """
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var: give one of unbiased and correction")
    less = float(unbiased is not False) if correction is None else float(correction)
    kind = input.dtype if dtype is None else as_dtype(dtype)
    kind = float32 if dtype is None and kind.kind not in "fc" else kind
    middle, count = _mean(input, dim, True, kind, mask)
    apart = input - middle
    square = apart * apart.conj() if apart.dtype.is_complex else apart.square()
    total = sum(
        square, dim, keepdim=keepdim, dtype=kind if kind.kind in "fc" else float32, mask=mask
    )
    left = count.reshape(*total.shape).to(total.real.dtype if less else count.dtype)
    return (total / (left - less).clamp(min=0) if less else total / left).to(kind)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of `var`.

    `dim`, `unbiased` and `correction` as there. `mask` selects elements of `input`, `dtype` is that
    of the result, `keepdim` leaves dims with size 1. Raises IndexError for a mask of more dims, or
    a dim that there is not.
    """
    variance = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return f.sqrt(variance)


def _normal(name: str, value: float) -> Callable[..., Tensor]:
    run = getattr(_nn, name)

    def call(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
        kind = input.dtype if dtype is None else as_dtype(dtype)
        d = normalize_dim(name, dim, input.shape)
        normalized: Tensor = run(_filled(input, mask, value), d, dtype=kind)
        return normalized

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"`{name}` of the elements of `input` that `mask` selects, along `dim`; nan where there is "
        "none; in the dtype `dtype`. Raises IndexError for a dim that there is not."
    )
    return call


softmax, log_softmax = _normal("softmax", -math.inf), _normal("log_softmax", -math.inf)
softmin = _normal("softmin", math.inf)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The selected elements over their norm along `dim`, at least `eps`; 0 for the others.

    `ord` is the norm's order. `mask` selects elements of `input`, `dtype` is that of the result.
    Raises IndexError for a mask of more dims, or a dim that there is not.
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / size.clamp(min=eps)
