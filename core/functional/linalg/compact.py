"""Factors in LAPACK's compact forms, LDL and Householder's vectors, and ranks found by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rushlight.core.basis.dtype import int32, int64
from rushlight.core.basis.errors import RangeError, ShapeError
from rushlight.core.functional.diagonals import diagonal
from rushlight.core.functional.linalg.checks import failed, matrices, square, together
from rushlight.core.functional.linalg.factorizations import first_of, qr, svd
from rushlight.core.functional.reductions import mean
from rushlight.core.ops.declare import linalg, method, public
from rushlight.core.ops.linalg import GEQRF, LDL, LDL_SOLVE
from rushlight.core.ops.random import randn

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


Parts = tuple["Tensor", "Tensor", "Tensor"]


class LDLFactor(NamedTuple):
    """L below the diagonal and D on it, in one matrix, and the rows (from 1) that were swapped."""

    LD: Tensor
    pivots: Tensor


class LDLFactorEx(NamedTuple):
    """`LDLFactor`, and 0 or the place of the first zero on the diagonal of D."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class Reflections(NamedTuple):
    """R, below it the vectors of Householder's reflections; and their factors."""

    a: Tensor
    tau: Tensor


@linalg()
def ldl_factor_ex(a: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """L D L^T of symmetric matrices (..., n, n), L D L^H where `hermitian`; the lower one is read.

    By Bunch and Kaufman (1977): D has blocks of one row and of two, whose pivots (int32) are
    negative. Without gradients, as in torch.

    `a` is symmetric. `check_errors`: LinalgError where D has a zero. Only on cpu. Raises ShapeError
    for shapes that are no such matrices, TypeError for integers.
    """
    square("linalg.ldl_factor_ex", a)
    packed = LDL(a, hermitian=hermitian)
    both, pivots = packed[..., :-1], packed[..., -1].real.to(int32)
    info = first_of((diagonal(both, 0, -2, -1) == 0) & (pivots > 0))
    if check_errors:
        failed("ldl_factor_ex", info, "D has a zero on its diagonal")
    return LDLFactorEx(both, pivots, info)


@linalg()
def ldl_factor(a: Tensor, *, hermitian: bool = False) -> LDLFactor:
    """`ldl_factor_ex` without `info`; LinalgError for a zero on the diagonal of D."""
    return LDLFactor(*ldl_factor_ex(a, hermitian=hermitian, check_errors=True)[:2])


@linalg()
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:  # noqa: N803
    """X with a X = B (..., n, k), from what `ldl_factor(a)` gives. Without gradients.

    `LD` and `pivots` are those, `hermitian` as there. Only on cpu. Raises ShapeError for shapes
    that are no such matrices, TypeError for integers.
    """
    square("linalg.ldl_solve", LD)
    matrices("linalg.ldl_solve", LD, B)
    n = LD.shape[-1]
    if B.shape[-2] != n or pivots.shape != LD.shape[:-1]:
        raise ShapeError(
            f"linalg.ldl_solve: LD {LD.shape}, pivots {pivots.shape} and B {B.shape} do not fit"
        )
    if pivots.numel() and not bool(((pivots != 0) & (pivots.long().abs() <= n)).all()):
        raise ShapeError(f"linalg.ldl_solve: pivots must be from 1 to {n}, or negative")
    a, b = together("linalg.ldl_solve", LD, B)
    return LDL_SOLVE(a, pivots.to(int64).expand(*a.shape[:-1]), b, hermitian=hermitian)


@public
@method()
def geqrf(x: Tensor) -> Reflections:
    """The QR factors of (..., m, n) as `linalg.householder_product` and `ormqr` take them.

    tau has min(m, n) elements. Without gradients; `linalg.qr` has them.
    """
    matrices("geqrf", x)
    packed = GEQRF(x)
    return Reflections(packed[..., :-1, :].mT, packed[..., -1, : min(x.shape[-2:])])


_MOST_REPETITIONS = 1000


def _basis(a: Tensor, q: int, niter: int) -> Tensor:
    """q orthonormal columns that nearly span those of a (Halko et al., 2009, algorithm 4.4)."""
    result = qr(a @ randn((*a.shape[:-2], a.shape[-1], q), dtype=a.dtype, device=a.device)).Q
    if niter > _MOST_REPETITIONS:
        raise RangeError(f"svd_lowrank: niter is {niter}; at most {_MOST_REPETITIONS}")
    for _ in range(niter):
        result = qr(a @ qr(a.mH @ result).Q).Q
    return result


@public
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int = 2, M: Tensor | None = None) -> Parts:  # noqa: N803
    """U, S and V (as columns) of the q largest singular values of (..., m, n), nearly.

    M is taken from A first.
    By products with random vectors and `niter` repetitions (Halko et al., 2009): right where the
    matrix has about that rank.

    Only on cpu. Raises ShapeError for shapes that are no such matrices, TypeError for integers.
    """
    matrices("svd_lowrank", A)
    a = A if M is None else A - M.expand(*A.shape)
    q = 6 if q is None else q
    if a.shape[-2] < a.shape[-1]:
        u, s, v = svd_lowrank(a.mH, q, niter)
        return v, s, u
    basis = _basis(a, q, niter)
    u, s, vh = svd(basis.mH @ a, False)
    return basis @ u, s, vh.mH


@public
def pca_lowrank(
    A: Tensor,
    q: int | None = None,
    center: bool = True,
    niter: int = 2,  # noqa: N803
) -> Parts:
    """Principal components by `svd_lowrank` of (..., m, n), whose columns are centered first.

    `A` has the points as rows; `q` components, at most 6 unless set; without `center` columns stay;
    `niter` as there. Only on cpu. Raises ShapeError for shapes that are no such matrices, TypeError
    for integers. ValueError for another q.
    """
    matrices("pca_lowrank", A)
    least = min(A.shape[-2:])
    q = min(6, least) if q is None else q
    if not 0 <= q <= least or niter < 0:
        raise RangeError(
            f"pca_lowrank: q is {q}, niter {niter}; q must be from 0 to {least}, niter not negative"
        )
    return svd_lowrank(A - mean(A, -2, True) if center else A, q, niter)
