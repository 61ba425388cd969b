"""Systems of linear equations, inverses, determinants, least squares and ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.dtype import PARTS, int64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import eye
from rushlight.core.functional.diagonals import diagonal, tril
from rushlight.core.functional.linalg.checks import matrices, square, together
from rushlight.core.functional.linalg.factorizations import (
    eigh,
    factored,
    lu_factor_ex,
    order_of,
    svdvals,
)
from rushlight.core.functional.pointwise import sgn
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.declare import linalg, method, public
from rushlight.core.ops.linalg import DET, PINV, SOLVE, SOLVE_TRIANGULAR

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class Solved(NamedTuple):
    """The solution, and 0 or the place of the first zero pivot."""

    result: Tensor
    info: Tensor


class Inverted(NamedTuple):
    """The inverse, and 0 or the place of the first zero pivot."""

    inverse: Tensor
    info: Tensor


class Slogdet(NamedTuple):
    """The sign of a determinant, 0 for a singular matrix, and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class LeastSquares(NamedTuple):
    """Solutions, sums of squares that are left, ranks, singular values; empty where not given."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _is_vector(a: Tensor, b: Tensor) -> bool:
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solved(name: str, a: Tensor, b: Tensor, left: bool, check: bool) -> Tensor:
    square(name, a)
    if _is_vector(a, b):
        if not left:
            raise ShapeError(f"{name}: left=False takes matrices; b is {b.shape}")
        return _solved(name, a, b.unsqueeze(-1), left, check).squeeze(-1)
    matrices(name, a, b)
    if not left:
        return _solved(name, a.mT, b.mT, True, check).transpose(-1, -2)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"{name}: {a.shape} and {b.shape} do not fit each other")
    return SOLVE(*together(name, a, b), check=check)


@linalg()
@casts(cpu="float32")
def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """X with a X = b (X a = b where not `left`), for a (..., n, n), b (..., n, k) or vectors.

    b is a vector if it is 1-d or has the shape of a without its last dim. Raises LinalgError for a
    singular matrix.
    """
    return _solved("linalg.solve", a, b, left, True)


@linalg()
def solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Solved:
    """`solve` that does not raise for singular matrices, whose `info` is not 0 and result nan.

    `a` is (..., n, n), `b` (..., n, k) or (..., n); without `left` X a = b. `check_errors`:
    LinalgError for singular ones. Only on cpu. Raises ShapeError for shapes that are no such
    matrices, TypeError for integers.
    """
    solution = _solved("linalg.solve_ex", a, b, left, check_errors)
    return Solved(solution, lu_factor_ex(a.detach()).info)


def _one(a: Tensor) -> Tensor:
    return eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(*a.shape)


@linalg()
@casts(cpu="float32")
def inv(a: Tensor) -> Tensor:
    """The inverses of (..., n, n). Raises LinalgError for a singular matrix; prefer `solve`."""
    square("linalg.inv", a)
    return SOLVE(a, _one(a), check=True)


@linalg()
@casts(cpu="float32")
def inv_ex(a: Tensor, *, check_errors: bool = False) -> Inverted:
    """`inv` that does not raise for singular matrices, whose `info` is not 0 and inverse nan."""
    square("linalg.inv_ex", a)
    info = lu_factor_ex(a.detach()).info
    return Inverted(SOLVE(a, _one(a), check=check_errors), info)


@linalg()
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with a X = b (X a = b where not `left`) for triangular a; the other triangle is not read.

    unitriangular: the diagonal is not read either and counts as ones.

    `upper`: which triangle a is. Only on cpu. Raises ShapeError for shapes that are no such
    matrices, TypeError for integers.
    """
    square("linalg.solve_triangular", a)
    matrices("linalg.solve_triangular", a, b)
    if not left:
        flat = solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return flat.transpose(-1, -2)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"linalg.solve_triangular: {a.shape} and {b.shape} do not fit each other")
    return SOLVE_TRIANGULAR(
        *together("linalg.solve_triangular", a, b), upper=upper, unit=unitriangular, full=False
    )


@linalg()
@casts(cpu="float32")
def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,  # noqa: N803
) -> Tensor:
    """X with a X = B (X a = B where not `left`) from what `lu_factor(a)` gives.

    adjoint: with the adjoint of a. The pivots are read on the host.

    `LU` and `pivots` are those. Only on cpu. Raises ShapeError for shapes that are no such
    matrices, TypeError for integers.
    """
    square("linalg.lu_solve", LU)
    matrices("linalg.lu_solve", LU, B)
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).adjoint()
    both, b = together("linalg.lu_solve", LU, B)
    order = order_of(pivots, LU.shape[-1])
    if adjoint:  # U^H L^H P^T x = b
        b = SOLVE_TRIANGULAR(both.mH, b, upper=False, unit=False, full=False)
        b = SOLVE_TRIANGULAR(both.mH, b, upper=True, unit=True, full=False)
        return b.gather(-2, order.argsort(-1).unsqueeze(-1).expand(*b.shape))
    b = b.gather(-2, order.unsqueeze(-1).expand(*b.shape))
    b = SOLVE_TRIANGULAR(both, b, upper=False, unit=True, full=False)
    return SOLVE_TRIANGULAR(both, b, upper=True, unit=False, full=False)


@public
@method()
@casts(cpu="float32")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """X with a X = B, for the Cholesky factor L of a (its adjoint where `upper`).

    Only on cpu. Raises ShapeError for shapes that are no such matrices, TypeError for integers.
    """
    square("cholesky_solve", L)
    matrices("cholesky_solve", L, B)
    if L.shape[-1] != B.shape[-2]:
        raise ShapeError(f"cholesky_solve: {B.shape} and {L.shape} do not fit each other")
    low, right = together("cholesky_solve", L.mH if upper else L, B)
    half = SOLVE_TRIANGULAR(low, right, upper=False, unit=False, full=True)
    return SOLVE_TRIANGULAR(low.mH, half, upper=True, unit=False, full=True)


@public
@method()
@casts(cpu="float32")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """The inverse of the matrix whose Cholesky factor is L (its adjoint where `upper`)."""
    square("cholesky_inverse", L)
    return cholesky_solve(_one(L), L, upper)


@linalg()
@public
@method()
def det(a: Tensor) -> Tensor:
    """The determinants (...,) of (..., n, n). Singular matrices have a gradient too."""
    square("linalg.det", a)
    return DET(a)


@linalg()
@public
@method()
def slogdet(a: Tensor) -> Slogdet:
    """The sign of the determinant and the logarithm of its absolute value, without overflow."""
    square("linalg.slogdet", a)
    both, _, order = factored("linalg.slogdet", a)
    u = diagonal(both, 0, -2, -1)
    # A permutation is odd where an odd number of pairs stand in the wrong order.
    wrong = tril((order.unsqueeze(-1) < order.unsqueeze(-2)).to(int64), -1).sum((-2, -1)) % 2
    sign = sgn(u).prod(-1) * (1 - 2 * wrong).to(a.dtype)
    return Slogdet(sign, u.abs().log().sum(-1))


@public
@method()
def logdet(a: Tensor) -> Tensor:
    """The logarithm of the determinant; nan where it is negative, -inf where it is 0."""
    sign, size = slogdet(a)
    if a.dtype.is_complex:
        return sign.log() + size
    return size.masked_fill(sign < 0, float("nan"))


def _tolerances(a: Tensor, atol: Any, rtol: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of the batch's shape; rtol is eps * max(m, n) unless atol is positive."""
    from rushlight.core.basis.limits import finfo

    real = PARTS.get(a.dtype, a.dtype)

    def tensor(value: Any) -> Tensor:
        tolerance = value.to(real) if is_tensor(value) else a.new_full((), float(value), dtype=real)
        return tolerance.detach().expand(*a.shape[:-2])

    least = tensor(0 if atol is None else atol)
    if rtol is None:
        usual = float(finfo(real).eps) * max(a.shape[-2:])
        return least, tensor(usual).masked_fill(least > 0, 0)
    return least, tensor(rtol)


@linalg()
def pinv(
    a: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False, rcond: Any = None
) -> Tensor:
    """The pseudoinverse (..., n, m) of (..., m, n), by singular values.

    Those up to max(atol, rtol * the largest) count as zero; both may be tensors of the batch's
    shape. hermitian: a is symmetric or Hermitian. The gradient holds while the rank stays.

    `rcond` is torch's older name of rtol. Only on cpu. Raises ShapeError for shapes that are no
    such matrices, TypeError for integers.
    """
    (square if hermitian else matrices)("linalg.pinv", a)
    rtol = rcond if rtol is None else rtol
    return PINV(a, *_tolerances(a, atol, rtol), hermitian=hermitian)


@linalg()
@casts(cpu="float32")
def matrix_rank(
    a: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False, tol: Any = None
) -> Tensor:
    """How many singular values (int64) exceed max(atol, rtol * the largest).

    `a` is (..., m, n); `hermitian`: symmetric or Hermitian; `tol` is an absolute tolerance, torch's
    older name. Only on cpu. Raises ShapeError for shapes that are no such matrices, TypeError for
    integers.
    """
    (square if hermitian else matrices)("linalg.matrix_rank", a)
    a = a.detach()
    s = eigh(a).eigenvalues.abs() if hermitian else svdvals(a)
    if not s.shape[-1]:
        return s.new_zeros(s.shape[:-1], dtype=int64)
    least, share = _tolerances(a, tol if atol is None else atol, 0 if tol is not None else rtol)
    bound = least.maximum(share * s.amax(-1))
    return (s > bound.unsqueeze(-1)).sum(-1)


@linalg()
@casts(cpu="float32")
def lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> LeastSquares:
    """The least X of those that make |a X - b| least; a (..., m, n), b (..., m, k) or (..., m).

    driver: "gelsy" (default), "gels", "gelsd", "gelss": the solution is the same here, by the
    pseudoinverse. Singular values come with the last two, ranks with all but "gels".

    `rcond`: singular values up to it times the largest count as zero. Only on cpu. Raises
    ShapeError for shapes that do not fit, ValueError for another driver.
    """
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(
            f"linalg.lstsq: driver is {driver!r}; supported: gels, gelsy, gelsd, gelss"
        )
    matrices("linalg.lstsq", a)
    vector = a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape
    rhs = b.unsqueeze(-1) if vector else b
    matrices("linalg.lstsq", a, rhs)
    if a.shape[-2] != rhs.shape[-2]:
        raise ShapeError(f"linalg.lstsq: {a.shape} and {b.shape} differ in the number of rows")
    a, rhs = together("linalg.lstsq", a, rhs)
    (m, n), none = a.shape[-2:], a.reshape(-1)[:0]
    solution = pinv(a, rtol=rcond) @ rhs
    rank = matrix_rank(a, rtol=rcond) if driver != "gels" else none.detach().to(int64)
    values = svdvals(a.detach()) if driver in ("gelsd", "gelss") else none.detach().real
    left = none.real
    if m > n and driver != "gelsy" and (driver == "gels" or bool((rank == n).all())):
        left = (a @ solution - rhs).abs().square().sum(-2)
    return LeastSquares(solution.squeeze(-1) if vector else solution, left, rank, values)
