"""Linear algebra: what the standard has in the namespace and in its extension `linalg`."""

from __future__ import annotations

from typing import Any

from rushlight.core.array_api.common import F, promoted
from rushlight.core.array_api.shapes import matrix_transpose
from rushlight.core.ops.declare import LINALG as _L
from rushlight.core.tensor.tensor import Tensor

_SAME = "det eigh eigvalsh inv slogdet svdvals"  # of one argument
__all__ = ["cholesky", "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
           "matrix_transpose", "outer", "pinv", "qr", "solve", "svd", "tensordot", "trace",
           "vecdot", "vector_norm", *_SAME.split()]  # fmt: skip
globals().update({name: _L[name] for name in _SAME.split()})


def matmul(x1: Tensor, x2: Tensor, /) -> Any:
    """The matrix product; the dims before the last two broadcast."""
    return F["matmul"](*promoted(x1, x2))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Any:
    """The sum of products over the last dims of x1 and the first of x2, or over pairs of dims."""
    return F["tensordot"](*promoted(x1, x2), axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Any:
    """The sum of conj(x1) * x2 over `axis`."""
    a, b = promoted(x1, x2)
    return _L["vecdot"](a, b, dim=axis).to(a.dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Any:
    """The triangular factor of Hermitian matrices."""
    return _L["cholesky"](x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements along `axis`."""
    return _L["cross"](*promoted(x1, x2), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices, as a view."""
    return _L["diagonal"](x, offset=offset)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices; None and "fro" for Frobenius's."""
    x = x.abs() if x.dtype.kind == "c" and ord not in ("nuc", 2, -2) else x
    return _L["matrix_norm"](x, "fro" if ord is None else ord, keepdim=keepdims)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of the elements over these dims, or of all."""
    return _L["vector_norm"](x.abs() if x.dtype.kind == "c" else x, ord, axis, keepdims)


def matrix_power(x: Tensor, n: int, /) -> Any:
    """Matrices multiplied by themselves; of their inverses where n is negative."""
    return _L["matrix_power"](x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Any:
    """How many singular values exceed rtol times the largest."""
    return _L["matrix_rank"](x, rtol=rtol)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Any:
    """The pseudoinverse, without singular values below rtol times the largest."""
    return _L["pinv"](x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Any:
    """The products of every element of one vector with every one of another."""
    return F["outer"](*promoted(x1, x2))


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Q and R of matrices."""
    return _L["qr"](x, mode)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """U, S and Vh of matrices."""
    return _L["svd"](x, full_matrices)


def solve(x1: Tensor, x2: Tensor, /) -> Any:
    """The x with x1 @ x = x2. Only a 1-D x2 is a vector; else it is a stack of matrices."""
    a, b = promoted(x1, x2)
    if b.ndim > 1:  # torch would take a stack of vectors for one where the shapes allow it
        b = b.reshape((1,) * (a.ndim - b.ndim) + tuple(b.shape))
    return _L["solve"](a, b)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices."""
    return diagonal(x, offset=offset).sum(-1, dtype=dtype)
