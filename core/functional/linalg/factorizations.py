"""Cholesky, LU, QR, singular values, eigenvalues."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rushlight.core.basis.dtype import int32, int64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import eye, of_data
from rushlight.core.functional.diagonals import diagonal, tril, triu
from rushlight.core.functional.linalg.checks import failed, matrices, square
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.complex import view_as_complex
from rushlight.core.ops.declare import linalg, public
from rushlight.core.ops.join import CAT
from rushlight.core.ops.linalg import CHOLESKY, EIG, EIGH, LU, QR, SOLVE_TRIANGULAR, SVD

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class Cholesky(NamedTuple):
    """The factor, and 0 or the order of the leading block that is not positive definite."""

    L: Tensor
    info: Tensor


class QRParts(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class SVDParts(NamedTuple):
    """Left singular vectors, singular values from the largest, right ones as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigen(NamedTuple):
    """Eigenvalues, and their vectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LUParts(NamedTuple):
    """A permutation, a lower triangle of ones, an upper triangle."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """Both triangles in one matrix, and the row (from 1) that each row is swapped with."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """`LUFactor`, and 0 or the place of the first zero on the diagonal of U."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


def first_of(bad: Tensor) -> Tensor:
    """The place (from 1, int32) of the first truth of the last dim, 0 where there is none."""
    if not bad.shape[-1]:
        return bad.new_zeros(bad.shape[:-1], dtype=int32)
    return (bad.any(-1) * (bad.to(int64).argmax(-1) + 1)).to(int32)


@linalg()
@casts(cpu="float32")
def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    """L with L L^H = x, for positive definite matrices (..., n, n); its adjoint where `upper`.

    Raises LinalgError where a matrix is not positive definite. One triangle of x is read.
    """
    square("linalg.cholesky", x)
    return CHOLESKY(x, check=True, upper=upper)


@linalg()
@casts(cpu="float32")
def cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> Cholesky:
    """`cholesky` that does not raise but says in `info` where it ended; nan from there on.

    `x` is (..., n, n), of which one triangle is read; `upper`: the factor is its adjoint.
    `check_errors`: LinalgError where it ended. Only on cpu. Raises ShapeError for shapes that are
    no such matrices, TypeError for integers.
    """
    square("linalg.cholesky_ex", x)
    packed = CHOLESKY(x, check=check_errors, upper=upper)
    return Cholesky(packed, first_of(diagonal(packed.detach(), 0, -2, -1).isnan()))


@linalg()
@casts(cpu="float32")
def qr(a: Tensor, mode: str = "reduced") -> QRParts:
    """Q R = a of (..., m, n). mode: "reduced" (k = min(m, n) columns), "complete" (m), "r" (no Q).

    No gradient where Q has columns beyond those of a: "complete" with m > n.
    """
    matrices("linalg.qr", a)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f'linalg.qr: mode is {mode!r}; supported: "reduced", "complete", "r"')
    m, n = a.shape[-2:]
    left = a[..., :m] if n > m else a  # the rest of R is Q^H times the rest of a
    packed = QR(left, complete=mode == "complete")
    q, r = packed[..., :m].mT, packed[..., m:]
    if n > m:
        r = CAT(r, q.mH @ a[..., m:], dim=a.ndim - 1)
    return QRParts(a.new_empty(0) if mode == "r" else q, r)


@linalg()
@casts(cpu="float32")
def svd(a: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVDParts:
    """U diag(S) Vh = a of (..., m, n); U (m, m) and Vh (n, n), or k = min(m, n) wide or high.

    driver: LAPACK's methods are the same here. The gradient is finite where the singular values
    are not zero; it takes part only in what does not depend on the choice of vectors.

    `full_matrices`: U and V are square. Only on cpu. Raises ShapeError for shapes that are no such
    matrices, TypeError for integers.
    """
    matrices("linalg.svd", a)
    m, n = a.shape[-2:]
    k = min(m, n)
    packed = SVD(a, full=full_matrices)
    rows, high = (m, n) if full_matrices else (k, k)
    return SVDParts(packed[..., :rows, :m].mT, packed[..., :k, m].real, packed[..., :high, m + 1 :])


@linalg()
@casts(cpu="float32")
def svdvals(a: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values (..., min(m, n)), from the largest."""
    return svd(a, False).S


def _upper(name: str, side: str) -> bool:
    if side not in ("L", "U", "l", "u"):
        raise ValueError(f'{name}: UPLO is {side!r}; supported: "L" and "U"')
    return side in "Uu"


@linalg()
@casts(cpu="float32")
def eigh(a: Tensor, UPLO: str = "L") -> Eigen:  # noqa: N803
    """Real eigenvalues and vectors of symmetric or Hermitian matrices; `UPLO` is the part read."""
    square("linalg.eigh", a)
    packed = EIGH(a, upper=_upper("linalg.eigh", UPLO))
    return Eigen(packed[..., -1].real, packed[..., :-1])


@linalg()
def eig(a: Tensor) -> Eigen:
    """Eigenvalues and vectors (as columns, of length one) of square matrices, both complex.

    The order is LAPACK's. Equal eigenvalues give no gradient, and what depends on the phase of a
    vector has none that means anything.
    """
    square("linalg.eig", a)
    packed = view_as_complex(EIG(a))
    return Eigen(packed[..., -1], packed[..., :-1])


@linalg()
def eigvals(a: Tensor) -> Tensor:
    """The eigenvalues of square matrices, complex; see `eig`."""
    return eig(a).eigenvalues


@linalg()
@casts(cpu="float32")
def eigvalsh(a: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803
    """The eigenvalues of symmetric matrices, from the smallest."""
    return eigh(a, UPLO).eigenvalues


def factored(name: str, a: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Both triangles in one matrix, the swaps and the order of the rows, from 0."""
    matrices(name, a)
    m, n = a.shape[-2:]
    packed = LU(a.detach(), pivot=pivot)
    swaps, order = (packed[..., i].to(int64) for i in (n, n + 1))
    if not a.requires_grad:
        return packed[..., :n], swaps[..., : min(m, n)], order
    k = min(m, n)
    if pivot:
        a = a.gather(-2, order.unsqueeze(-1).expand(*a.shape))
    both = LU(a[..., :k, :k], pivot=False)[..., :k]
    if m > k:
        low = SOLVE_TRIANGULAR(both.mT, a[..., k:, :].mT, upper=False, unit=False, full=False).mT
        both = CAT(both, low, dim=a.ndim - 2)
    elif n > k:
        right = SOLVE_TRIANGULAR(both, a[..., k:], upper=False, unit=True, full=False)
        both = CAT(both, right, dim=a.ndim - 1)
    return both, swaps[..., :k], order


def triangles(both: Tensor) -> tuple[Tensor, Tensor]:
    """L (..., m, k) with ones on its diagonal and U (..., k, n)."""
    m, n = both.shape[-2:]
    k = min(m, n)
    identity = eye(m, k, dtype=both.dtype, device=both.device)
    return tril(both[..., :k], -1) + identity, triu(both[..., :k, :])


def _permutation(like: Tensor, order: Tensor) -> Tensor:
    """P with P (L U) = a: column i has its one in row order[i]."""
    m = order.shape[-1]
    rows = order.new_tensor(list(range(m))).unsqueeze(-1)
    return (rows == order.unsqueeze(-2)).to(like.dtype)


@linalg()
def lu(a: Tensor, *, pivot: bool = True) -> LUParts:
    """P L U = a of (..., m, n); without `pivot` P is empty and no rows are swapped."""
    both, _, order = factored("linalg.lu", a, pivot)
    p = _permutation(a, order) if pivot else a.new_empty(0)
    return LUParts(p, *triangles(both))


@linalg()
def lu_factor(a: Tensor, *, pivot: bool = True) -> LUFactor:
    """What `lu_solve` takes: both triangles in one matrix, and pivots (int32, from 1)."""
    both, swaps, _ = factored("linalg.lu_factor", a, pivot)
    return LUFactor(both, (swaps + 1).to(int32))


@linalg()
def lu_factor_ex(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """`lu_factor` with `info`; it raises for a zero on the diagonal where `check_errors`.

    `pivot`: rows are exchanged. Only on cpu. Raises ShapeError for shapes that are no such
    matrices, TypeError for integers. LinalgError for such a zero.
    """
    both, pivots = lu_factor(a, pivot=pivot)
    info = first_of(diagonal(both.detach(), 0, -2, -1) == 0)
    if check_errors:
        failed("lu_factor_ex", info, "U has a zero on its diagonal")
    return LUFactorEx(both, pivots, info)


def order_of(pivots: Tensor, rows: int) -> Tensor:
    """The order of the rows that swaps by `pivots` (from 1) lead to; reads them."""
    *batch, swapped = pivots.shape
    values = pivots.detach().cpu().numpy().reshape(math.prod(batch), swapped).tolist()
    orders = []
    for swaps in values:
        order = list(range(rows))
        for i, p in enumerate(swaps):
            if not 1 <= p <= rows:
                raise ShapeError(f"lu: a pivot is {p}; it must be from 1 to {rows}")
            order[i], order[p - 1] = order[p - 1], order[i]
        orders.append(order)
    return of_data(np.array(orders, np.int64), dtype=int64, device=pivots.device).reshape(
        *pivots.shape[:-1], rows
    )


@public
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,  # noqa: N803
) -> LUParts:
    """P, L and U of what `lu_factor` gives; empty where not wanted.

    `LU_data` and `LU_pivots` are those; `unpack_data`: L and U are wanted, `unpack_pivots`: P.
    Raises IndexError for pivots that do not fit.
    """
    none = LU_data.new_empty(0)
    order = order_of(LU_pivots, LU_data.shape[-2]) if unpack_pivots else none
    p = _permutation(LU_data, order) if unpack_pivots else none
    return LUParts(p, *(triangles(LU_data) if unpack_data else (none, none)))
