"""Linear algebra under its older names, torch.NAME, where they differ from torch.linalg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.linalg import factorizations as parts
from rushlight.core.functional.linalg import solving
from rushlight.core.functional.linalg.products import crossed
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import also, method, public

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # noqa: N803
    """Powers of a vector as columns, the highest first unless `increasing`.

    `x` is (n,), the result (n, `N`), square unless set. Raises ValueError for a negative N.
    """
    count = x.numel() if N is None else N
    if count < 0:
        raise ValueError(f"vander: N is {N}; it must not be negative")
    powers = arange(count, device=x.device)
    powers = powers if increasing else powers.flip(0)
    return x.unsqueeze(-1) ** powers


@public
@method()
@casts(accelerator="widest")
def cross(x: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of three elements along `dim`.

    `x` and `other` are of one shape; dim: the first of size 3 unless set. Raises ShapeError for
    other sizes than 3, IndexError for a dim that there is not.
    """
    if dim is None:
        dim = next((d for d, n in enumerate(x.shape) if n == 3), -1)
    d = normalize_dim("cross", dim, x.shape)
    if x.shape[d] != 3 or other.shape[d] != 3:
        raise ShapeError(f"cross: dim {dim} of {x.shape} and {other.shape} must have 3 elements")
    return crossed(x, other, d)


also("inverse")(solving.inv)


class OldSVD(NamedTuple):
    """U, S and V (not transposed) with U diag(S) V^H = x."""

    U: Tensor
    S: Tensor
    V: Tensor


class Triangular(NamedTuple):
    """The solution, and the coefficients."""

    solution: Tensor
    cloned_coefficient: Tensor


@public
@method()
@casts(cpu="float32")
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`."""
    return parts.cholesky(x, upper=upper)


@public
@method()
@casts(cpu="float32")
def pinverse(x: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with rtol=rcond."""
    return solving.pinv(x, rtol=rcond)


@public
@method()
@casts(cpu="float32")
def qr(x: Tensor, some: bool = True) -> parts.QRParts:
    """`linalg.qr`: reduced, or complete where not `some`."""
    return parts.qr(x, "reduced" if some else "complete")


@public
@method()
@casts(cpu="float32")
def svd(x: Tensor, some: bool = True, compute_uv: bool = True) -> OldSVD:
    """`linalg.svd` with V in place of Vh; zeros for both without `compute_uv`.

    `x` is (..., m, n); `some`: k = min(m, n) columns. Only on cpu. Raises ShapeError for shapes
    that are no such matrices, TypeError for integers.
    """
    u, s, vh = parts.svd(x, not some)
    if compute_uv:
        return OldSVD(u, s, vh.mH)
    m, n = x.shape[-2:]
    return OldSVD(*(s if k is None else x.new_zeros((*x.shape[:-2], k, k)) for k in (m, None, n)))


@public
@method()
@casts(cpu="float32")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Triangular:
    """X with a X = b, a^T X = b where `transpose`; see `linalg.solve_triangular`.

    `upper`: which triangle a is; `unitriangular`: its diagonal counts as ones. Only on cpu. Raises
    ShapeError for shapes that are no such matrices, TypeError for integers.
    """
    way = upper is not transpose
    solution = solving.solve_triangular(
        a.mT if transpose else a, b, upper=way, unitriangular=unitriangular
    )
    return Triangular(solution, a.clone())


@public
@method()
@casts(cpu="float32")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """`linalg.lu_solve`, the right side first.

    `b` is that side, `LU_data` and `LU_pivots` what lu_factor gives. Only on cpu. Raises ShapeError
    for shapes that are no such matrices, TypeError for integers.
    """
    return solving.lu_solve(LU_data, LU_pivots, b)


@public
@method()
def lu(x: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """`linalg.lu_factor`, or with its info.

    `x` is (..., m, n); `pivot`: rows are exchanged; `get_infos`: with info. Only on cpu. Raises
    ShapeError for shapes that are no such matrices, TypeError for integers.
    """
    factors = parts.lu_factor_ex(x, pivot=pivot)
    return tuple(factors) if get_infos else tuple(factors[:2])
