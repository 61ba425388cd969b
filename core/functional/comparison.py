"""Comparisons of tensors, sorting, and the k-th smallest element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import float32, int64
from rushlight.core.basis.errors import RangeError, ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.binary import maximum, minimum, where
from rushlight.core.ops.common import TensorLike, is_tensor, operands
from rushlight.core.ops.creation import full
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.reduce import ValuesIndices
from rushlight.core.ops.sort import argsort
from rushlight.core.ops.unary import abs, isfinite, isnan

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def msort(x: Tensor) -> Tensor:
    """x sorted along dim 0."""
    return sort(x, 0).values


def values_at(ordered: ValuesIndices, d: int, place: Tensor, keepdim: bool) -> ValuesIndices:
    """Values and indices at places (1 along d)."""
    values, indices = ordered.values.gather(d, place), ordered.indices.gather(d, place)
    if keepdim:
        return ValuesIndices(values, indices)
    return ValuesIndices(values.squeeze(d), indices.squeeze(d))


def nth_value(ordered: ValuesIndices, d: int, k: int, keepdim: bool) -> ValuesIndices:
    """The k-th of sorted values along `d`, counted from 0, and its index."""
    place = ordered.indices.narrow(d, 0, 1).zeros_like() + k
    return values_at(ordered, d, place, keepdim)


@public
@method()
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest along `dim`, counted from 1, and its index.

    `x` may not be complex; `keepdim` leaves the dim with size 1. Raises ValueError for a k that
    there is not, IndexError for a dim that there is not.
    """
    if x.ndim == 0:
        x, dim, keepdim = x.reshape(1), 0, False
    d = normalize_dim("kthvalue", dim, x.shape)
    if not 1 <= k <= x.shape[d]:
        raise ShapeError(f"kthvalue: k is {k}; dim {dim} has {x.shape[d]} elements")
    return nth_value(sort(x, d), d, k - 1, keepdim)


def tensor_beside(value: Any, like: Tensor) -> Tensor:
    """`value`, a number as a 0-d tensor with the dtype and device of `like`."""
    if is_tensor(value):
        return value  # type: ignore[no-any-return]
    return full((), value, dtype=like.dtype, device=like.device)


@public
def isin(
    elements: TensorLike,
    test_elements: TensorLike,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """Whether each element is among `test_elements`; bool.

    `elements` are looked for; `invert`: whether each is not; `assume_unique` changes nothing.
    Raises TypeError for no tensor.
    """
    tensor: Any = elements if is_tensor(elements) else test_elements
    x, among = (tensor_beside(v, tensor) for v in (elements, test_elements))
    result = (x.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return ~result if invert else result


@public
@method()
def fmax(x: TensorLike, other: TensorLike) -> Tensor:
    """The larger of both; the other one where one is nan."""
    a, b = operands("fmax", x, other)
    return where(isnan(b), a, where(isnan(a), b, maximum(a, b)))


@public
@method()
def fmin(x: TensorLike, other: TensorLike) -> Tensor:
    """The smaller of both; the other one where one is nan."""
    a, b = operands("fmin", x, other)
    return where(isnan(b), a, where(isnan(a), b, minimum(a, b)))


@public
@method()
def isposinf(x: Tensor) -> Tensor:
    """Whether x is inf; bool."""
    return x == math.inf if x.dtype.is_floating_point else x.zeros_like(dtype="bool")


@public
@method()
def isneginf(x: Tensor) -> Tensor:
    """Whether x is -inf; bool."""
    return x == -math.inf if x.dtype.is_floating_point else x.zeros_like(dtype="bool")


@public
@method()
def isreal(x: Tensor) -> Tensor:
    """Whether x has no imaginary part."""
    return x.imag == 0 if x.dtype.is_complex else x.ones_like(dtype="bool")


@public
@method()
def isclose(
    x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |x - other| <= atol + rtol |other|; bool.

    `equal_nan`: nan is close to nan. Raises ValueError for a negative rtol or atol, ShapeError for
    shapes that do not broadcast.
    """
    if not (rtol >= 0 and atol >= 0):
        raise RangeError(f"isclose: rtol is {rtol} and atol {atol}; neither may be negative")
    a, b = operands("isclose", x, other)
    near = a == b
    if a.dtype.kind in "fc":
        finite = isfinite(a) & isfinite(b)
        near = near | (finite & (abs(a - b) <= atol + rtol * abs(b)))
        return near | (isnan(a) & isnan(b)) if equal_nan else near
    wide = (a.to(int64) - b.to(int64)).abs().to(float32)
    return near | (wide <= atol + rtol * abs(b.to(float32)))


@public
@method()
def allclose(
    x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (`isclose`); reads the result.

    `x`, `other`, `rtol`, `atol` and `equal_nan` as there, and so is what it raises.
    """
    return bool(isclose(x, other, rtol, atol, equal_nan).all().item())


@public
@method()
def equal(x: Tensor, other: Tensor) -> bool:
    """Whether both have one shape and equal elements; reads the result."""
    return x.shape == other.shape and bool((x == other).all().item())


@public
@method()
def sort(x: Tensor, dim: int = -1, descending: bool = False, **kw: Any) -> ValuesIndices:
    """(values, indices) of `x` sorted along `dim`. Always stable; nan counts as the largest.

    `descending`: the largest first; `kw`: stable, which changes nothing. Raises IndexError for a
    dim that there is not.
    """
    index = argsort(x, dim, descending, **kw)
    return ValuesIndices(x.gather(dim, index) if x.ndim else x.clone(), index)
