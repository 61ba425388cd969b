"""Norms of vectors, matrices and slices, and condition numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import RangeError, ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional import reductions
from rushlight.core.functional.linalg.checks import matrices, square
from rushlight.core.functional.linalg.factorizations import svdvals
from rushlight.core.functional.linalg.solving import inv_ex
from rushlight.core.functional.shape import movedim
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import linalg, method, public
from rushlight.core.ops.reduce import Dims, widened

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
@casts(accelerator="float32")
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """x with each slice of `dim` whose p-norm is above `maxnorm` scaled down to it.

    `p` is the order, `maxnorm` a number. Raises ShapeError for less than 2 dims, IndexError for a
    dim that there is not, ValueError for a p that is not positive and a negative maxnorm.
    """
    d = normalize_dim("renorm", dim, x.shape)
    if x.ndim < 2:
        raise ShapeError(f"renorm: x is {x.shape}; it must have at least 2 dims")
    if not (maxnorm >= 0 and p > 0):
        raise RangeError(f"renorm: p is {p}, maxnorm {maxnorm}; p is positive, maxnorm not below 0")
    size = widened(x).norm(p, [k for k in range(x.ndim) if k != d], True)
    scale = where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return (x * scale).to(x.dtype)


def _floating(name: str, x: Tensor, dtype: DType | str | None) -> Tensor:
    if x.dtype.kind not in "fc":
        raise TypeMismatch(f"{name}: {x.dtype.name} is not a floating dtype; use .float()")
    return x if dtype is None else x.to(dtype)


@linalg()
@casts(accelerator="float32")
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | str | None = None,
) -> Tensor:
    """(sum |x|^ord)^(1/ord) over `dim`, all elements by default; `ord` may be 0 or infinite.

    `keepdim` leaves the dims with size 1. `dtype`: x is converted to it first. Raises TypeError for
    integers without one, ShapeError for no elements where ord has no value for them.
    """
    if isinstance(ord, str):
        raise TypeError(f"linalg.vector_norm: ord is {ord!r}; it must be a number")
    x = _floating("linalg.vector_norm", x, dtype)
    dim = None if dim in ((), []) else dim
    if not x.numel() and (ord < 0 or math.isinf(ord)):
        dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
        if not all(x.shape[d] for d in dims):
            raise ShapeError(f"linalg.vector_norm: {x.shape} has no elements for ord={ord}")
    return reductions.norm(x, ord, dim, keepdim)


@linalg()
@casts(accelerator="float32")
def matrix_norm(
    a: Tensor,
    ord: float | str = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | str | None = None,
) -> Tensor:
    """The norm of the matrices of two dims.

    ord: "fro" (root of the squares' sum), "nuc" (sum of singular values), 2 and -2 (the largest and
    the smallest of them), 1 and -1 (of the columns' sums), inf and -inf (of the rows' sums).

    `a` has them at `dim`; `keepdim` leaves the dims with size 1. `dtype`: a is converted to it
    first. Raises ValueError for another ord, ShapeError for dims that are not two different ones.
    """
    name = "linalg.matrix_norm"
    a = _floating(name, a, dtype)
    if a.ndim < 2 or isinstance(dim, int) or len(dim) != 2:
        raise ShapeError(f"{name}: shape {a.shape}, dim {dim}; it takes two dims")
    rows, columns = (normalize_dim(name, d, a.shape) for d in dim)
    if rows == columns:
        raise ShapeError(f"{name}: dims {dim} are the same")
    if ord == "fro":
        return reductions.norm(a, 2, (rows, columns), keepdim)
    known = ("nuc", 1, -1, 2, -2, math.inf, -math.inf)
    if ord not in known:
        raise ValueError(f"{name}: ord is {ord!r}; supported: 'fro', {', '.join(map(repr, known))}")
    a = movedim(a, (rows, columns), (-2, -1))
    if ord == "nuc":
        result = svdvals(a).sum(-1)
    elif ord in (2, -2):
        result = _extreme(svdvals(a), -1, float(ord))
    else:
        across = -2 if ord in (1, -1) else -1
        result = _extreme(a.abs().sum(across), -1, float(ord))
    if keepdim:
        for d in sorted((rows, columns)):
            result = result.unsqueeze(d)
    return result


def _extreme(x: Tensor, dim: int, sign: float) -> Tensor:
    if not x.shape[dim] and sign > 0:
        return x.sum(dim)  # 0: there is nothing
    return x.amax(dim) if sign > 0 else x.amin(dim)


@linalg()
@casts(accelerator="float32")
def norm(
    a: Tensor,
    ord: float | str | None = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | str | None = None,
) -> Tensor:
    """`matrix_norm` where `dim` has two dims, or a has and `ord` is given; else `vector_norm`.

    `keepdim` leaves the dims with size 1. `dtype`: a is converted to it first. Raises ShapeError
    for dims that ord does not take, ValueError for another ord.
    """
    if ord is None:
        return vector_norm(a, 2, dim, keepdim, dtype=dtype)
    dims = dim if dim is not None else tuple(range(a.ndim))
    count = 1 if isinstance(dims, int) else len(dims)
    if dim is None and count not in (1, 2):
        raise ShapeError(f"linalg.norm: {a.shape} is no vector or matrix; give dim")
    if isinstance(ord, str) and count != 2:
        raise ShapeError(f"linalg.norm: ord {ord!r} takes two dims; dim is {dim}")
    if count == 2:
        return matrix_norm(a, ord, dims, keepdim, dtype=dtype)
    return vector_norm(a, ord, dim, keepdim, dtype=dtype)  # type: ignore[arg-type]


@linalg()
@casts(cpu="float32")
def cond(a: Tensor, p: float | str | None = None) -> Tensor:
    """The condition number: the norm of a times that of its inverse; infinite where singular.

    p: an `ord` of `matrix_norm`; by default the ratio of the largest and smallest singular value.
    """
    matrices("linalg.cond", a)
    if p in (None, 2, -2):
        s = svdvals(a)
        if not s.shape[-1]:
            return s.sum(-1)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    square("linalg.cond", a)
    assert p is not None
    inverse, info = inv_ex(a)
    ratio = matrix_norm(a, p) * matrix_norm(inverse, p)
    return where(info == 0, ratio, math.inf)
