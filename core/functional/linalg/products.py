"""Products, powers and the exponential of matrices, tensor equations, reflections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import PARTS
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional import diagonals
from rushlight.core.functional.creation import eye
from rushlight.core.functional.diagonals import tril
from rushlight.core.functional.joining import stack
from rushlight.core.functional.linalg.blas import mm
from rushlight.core.functional.linalg.checks import matrices, square
from rushlight.core.functional.linalg.solving import inv, solve
from rushlight.core.functional.shape import broadcast_tensors
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import linalg, method, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.join import CAT
from rushlight.core.ops.matmul import matmul
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def kron(x: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: blocks of `other` times each element of x."""
    rank = max(x.ndim, other.ndim)
    a = x.reshape(*[1] * (rank - x.ndim), *x.shape)
    b = other.reshape(*[1] * (rank - other.ndim), *other.shape)
    wide = a.reshape(*(n for s in a.shape for n in (s, 1)))
    product = wide * b.reshape(*(n for s in b.shape for n in (1, s)))
    return product.reshape(*(i * j for i, j in zip(a.shape, b.shape, strict=True)))


@linalg()
@public
@method()
def matrix_power(x: Tensor, n: int) -> Tensor:
    """Square matrices (..., n, n) to an integer power, by squaring; a negative one by `inv`."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: matrices of shape {x.shape} must be square")
    x, n = (inv(x), -n) if n < 0 else (x, n)
    result: Tensor | None = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    if result is None:
        # A copy that is written over keeps the graph, as in torch.
        return copy_(x.clone(), eye(x.shape[-1], dtype=x.dtype, device=x.device))
    return result.clone() if result is x else result


# The degree of the series, and the size of a matrix for which it is exact to the dtype.
_TAYLOR = {"float32": (18, 3.0), "float64": (18, 1.0)}


@linalg()
@public
@method()
def matrix_exp(x: Tensor) -> Tensor:
    """The exponential of (..., n, n), by scaling, a Taylor series and squaring.

    The number of squarings is read from the largest row sum of the batch.
    """
    square("matrix_exp", x)
    if not x.numel():
        return x.clone()
    degree, least = _TAYLOR[PARTS.get(x.dtype, x.dtype).name]
    size = x.detach().abs().sum(-1).amax(-1)
    most = float(size.max().item())
    count = max(0, math.ceil(math.log2(most / least))) if 0 < most < math.inf else 0
    # Each matrix is halved as often as it needs: the same result as by itself.
    steps = (size / least).log2().ceil().clamp(0, count).unsqueeze(-1).unsqueeze(-1)
    x = x * (-steps).exp2()
    out = identity = eye(x.shape[-1], dtype=x.dtype, device=x.device).expand(*x.shape)
    for k in range(degree, 0, -1):
        out = identity + (x @ out) * (1 / k)
    for k in range(count):
        out = where(steps > k, out @ out, out)
    return out


@linalg()
@casts(cpu="inside", accelerator="low")
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices in the order that takes the fewest multiplications.

    The first and the last may be vectors.
    """
    if len(tensors) < 2:
        raise ValueError(f"linalg.multi_dot: {len(tensors)} tensors; it takes two or more")
    factors = list(tensors)
    row, column = factors[0].ndim == 1, factors[-1].ndim == 1
    factors[0] = factors[0].unsqueeze(0) if row else factors[0]
    factors[-1] = factors[-1].unsqueeze(-1) if column else factors[-1]
    for x in factors:
        if x.ndim != 2:
            raise ShapeError(f"linalg.multi_dot: a tensor of shape {x.shape} must have two dims")
    result = _ordered(factors)
    result = result.squeeze(0) if row else result
    return result.squeeze(-1) if column else result


def _ordered(factors: list[Tensor]) -> Tensor:
    """The product in the best order, found by dynamic programming."""
    n, sizes = len(factors), [factors[0].shape[0], *(x.shape[1] for x in factors)]
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            cost[i][j], cut[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return factors[i]
        return mm(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    return product(0, n - 1)


@linalg()
@casts(accelerator="widest")
def cross(x: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along `dim`; other dims broadcast.

    `x` and `other` have as many dims. Raises ShapeError for other sizes than 3, IndexError for a
    dim that there is not.
    """
    a, b = broadcast_tensors(x, other)
    if x.ndim != other.ndim:
        raise ShapeError(f"linalg.cross: {x.shape} and {other.shape} differ in the number of dims")
    d = normalize_dim("linalg.cross", dim, x.shape)
    if x.shape[d] != 3 or other.shape[d] != 3:
        raise ShapeError(
            f"linalg.cross: dim {dim} of {x.shape}, {other.shape} must have 3 elements"
        )
    return crossed(a, b, d)


def crossed(x: Tensor, other: Tensor, d: int) -> Tensor:
    """The cross product along `d`, a dim of three elements of both."""
    a, b = x.unbind(d), other.unbind(d)
    return stack([a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))], d)


@linalg()
def diagonal(a: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of two dims as the last dim.

    `a` keeps its memory; `offset` > 0 is above the main one, `dim1` and `dim2` are the two. Raises
    IndexError for a dim that there is not, ShapeError for one dim twice.
    """
    return diagonals.diagonal(a, offset, dim1, dim2)


@linalg()
@casts("low")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of conj(x) * y along `dim`; the others broadcast.

    `x` and `y` are vectors. Raises ShapeError for shapes that do not broadcast.
    """
    return (turned(x) * y).sum(dim)


@linalg()
def vander(x: Tensor, *, N: int | None = None) -> Tensor:  # noqa: N803
    """Powers 0 to N - 1 of (..., n) as a last dim; N is n by default."""
    x = x.reshape(1) if x.ndim == 0 else x
    count = x.shape[-1] if N is None else N
    if count < 2:
        raise ShapeError(f"linalg.vander: x is {x.shape}, N is {count}; N must be above 1")
    if x.dtype.name == "bool":
        x = x.long()
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)
    ones = x.new_ones((*x.shape, 1), dtype=powers.dtype)
    return CAT(ones, powers, dim=x.ndim)


@linalg()
@casts(cpu="float32")
def tensorinv(a: Tensor, ind: int = 2) -> Tensor:
    """The inverse for `tensordot` over `ind` dims: of a as a matrix from the first `ind` dims."""
    if ind < 1:
        raise ValueError(f"linalg.tensorinv: ind is {ind}; it must be positive")
    first, rest = a.shape[:ind], a.shape[ind:]
    rows = math.prod(first)
    if rows != math.prod(rest):
        raise ShapeError(f"linalg.tensorinv: dims {first} and {rest} of {a.shape} are not as many")
    return inv(a.reshape(rows, rows)).reshape(*rest, *first)


@linalg()
@casts(cpu="float32")
def tensorsolve(a: Tensor, b: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(a, X, X.ndim) = b; `dims` of a are moved to its end first.

    Raises ShapeError for shapes that do not fit, LinalgError for a singular a. Only on cpu.
    """
    if dims is not None:
        moved = [normalize_dim("linalg.tensorsolve", d, a.shape) for d in dims]
        a = a.permute(*(d for d in range(a.ndim) if d not in moved), *moved)
    shape = a.shape[b.ndim :]
    if math.prod(shape) != b.numel():
        raise ShapeError(f"linalg.tensorsolve: {a.shape} and {b.shape} do not fit each other")
    rows = b.numel()
    return solve(a.reshape(rows, rows), b.reshape(rows)).reshape(*shape)


def _reflections(a: Tensor, tau: Tensor) -> list[Tensor]:
    """The vectors (..., m, 1) of Householder's reflections, and beside them their factors."""
    m, n = a.shape[-2:]
    identity = eye(m, n, dtype=a.dtype, device=a.device)
    below = tril(a, -1) + identity
    return [below[..., i : i + 1] for i in range(tau.shape[-1])]


@linalg()
@public
def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of H_1 ... H_k with H_i = I - tau_i v_i v_i^H; v_i below a's diagonal."""
    matrices("linalg.householder_product", a)
    m, n = a.shape[-2:]
    if m < n or tau.shape[-1] > n or tau.shape[:-1] != a.shape[:-2]:
        raise ShapeError(f"linalg.householder_product: {a.shape} and tau {tau.shape} do not fit")
    out = copy_(a.clone(), eye(m, n, dtype=a.dtype, device=a.device))
    for i, v in reversed(list(enumerate(_reflections(a, tau)))):
        out = out - v @ (v.mH @ out) * tau[..., i : i + 1, None]
    return out


@public
@method()
def ormqr(
    x: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q other, or other Q where not `left`, of all m columns of Q; transpose: Q^H.

    `x` and `tau` are what geqrf gives. Only on cpu. Raises ShapeError for shapes that are no such
    matrices, TypeError for integers.
    """
    matrices("ormqr", x, other)
    if not left:
        return ormqr(x, tau, other.mH, True, not transpose).adjoint()
    every = list(enumerate(_reflections(x, tau)))
    tau = turned(tau) if transpose else tau
    for i, v in every if transpose else reversed(every):
        other = other - v @ (v.mH @ other) * tau[..., i : i + 1, None]
    return other
