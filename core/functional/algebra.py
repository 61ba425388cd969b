"""Products of vectors and matrices, diagonals and distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.pieces import stack
from rushlight.core.functional.reductions import norm
from rushlight.core.ops.common import Scalar
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import method, network, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import matmul

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _ranks(name: str, a: Tensor, b: Tensor, ranks: tuple[int, int]) -> None:
    if (a.ndim, b.ndim) != ranks:
        raise ValueError(f"{name}: shapes {a.shape} and {b.shape}; it takes {ranks[0]}-d and "
                         f"{ranks[1]}-d tensors")  # fmt: skip


@public
@method()
def mm(x: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices: (n, k), (k, m) -> (n, m)."""
    _ranks("mm", x, mat2, (2, 2))
    return matmul(x, mat2)


@public
@method()
def bmm(x: Tensor, mat2: Tensor) -> Tensor:
    """Products of pairs of matrices: (b, n, k), (b, k, m) -> (b, n, m)."""
    _ranks("bmm", x, mat2, (3, 3))
    if x.shape[0] != mat2.shape[0]:
        raise ValueError(f"bmm: batches of {x.shape[0]} and {mat2.shape[0]} matrices")
    return matmul(x, mat2)


@public
@method()
def mv(x: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector: (n, k), (k,) -> (n,)."""
    _ranks("mv", x, vec, (2, 1))
    return matmul(x, vec)


@public
@method()
def dot(x: Tensor, tensor: Tensor) -> Tensor:
    """The product of two vectors of one length: a 0-d tensor."""
    _ranks("dot", x, tensor, (1, 1))
    return matmul(x, tensor)


@public
@method()
def vdot(x: Tensor, other: Tensor) -> Tensor:
    """`dot`, whose first vector torch conjugates where it is complex."""
    return dot(x, other)


@public
@method()
def outer(x: Tensor, vec2: Tensor) -> Tensor:
    """Every product of an element of one vector and one of the other: (n,), (m,) -> (n, m)."""
    _ranks("outer", x, vec2, (1, 1))
    return x.unsqueeze(1) * vec2


@public
@method()
def ger(x: Tensor, vec2: Tensor) -> Tensor:
    """`outer` under its name in BLAS."""
    return outer(x, vec2)


@public
@method()
def inner(x: Tensor, other: Tensor) -> Tensor:
    """Products over the last dims: (..., k), (*, k) -> (..., *)."""
    if not x.ndim or not other.ndim:
        return x * other
    return tensordot(x, other, ([-1], [-1]))


def _added(x: Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    if beta == 0:  # as in torch, nan in x does not count then
        return product * alpha
    return (x if beta == 1 else x * beta) + (product if alpha == 1 else product * alpha)


@public
@method()
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * mat1 @ mat2."""
    return _added(x, mm(mat1, mat2), beta, alpha)


@public
@method()
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * mat @ vec."""
    return _added(x, mv(mat, vec), beta, alpha)


@public
@method()
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * outer(vec1, vec2)."""
    return _added(x, outer(vec1, vec2), beta, alpha)


@public
@method()
def baddbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta * x + alpha * batch1 @ batch2."""
    return _added(x, bmm(batch1, batch2), beta, alpha)


@public
@method()
def addbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Tensor:
    """beta * x + alpha * the sum of the products of the pairs of matrices."""
    return _added(x, bmm(batch1, batch2).sum(0), beta, alpha)


@public
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Products summed over dims of both: the last `dims` of a and the first of b, or the lists."""
    if isinstance(dims, int):
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        first = [normalize_dim("tensordot", d, a.shape) for d in dims[0]]
        second = [normalize_dim("tensordot", d, b.shape) for d in dims[1]]
    if [a.shape[d] for d in first] != [b.shape[d] for d in second]:
        raise ValueError(f"tensordot: dims {first} of {a.shape} and {second} of {b.shape} differ")
    kept_a = [d for d in range(a.ndim) if d not in first]
    kept_b = [d for d in range(b.ndim) if d not in second]
    shape = [a.shape[d] for d in kept_a] + [b.shape[d] for d in kept_b]
    n = m = k = 1
    for d in kept_a:
        n *= a.shape[d]
    for d in first:
        k *= a.shape[d]
    for d in kept_b:
        m *= b.shape[d]
    left = a.permute(*kept_a, *first).reshape(n, k)
    return matmul(left, b.permute(*second, *kept_b).reshape(k, m)).reshape(*shape)


@public
@method()
def kron(x: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: blocks of `other`, each times an element of x."""
    dims = max(x.ndim, other.ndim)
    a = x.reshape(*[1] * (dims - x.ndim), *x.shape)
    b = other.reshape(*[1] * (dims - other.ndim), *other.shape)
    left = a.reshape(*[n for size in a.shape for n in (size, 1)])
    right = b.reshape(*[n for size in b.shape for n in (1, size)])
    return (left * right).reshape(*[n * m for n, m in zip(a.shape, b.shape, strict=True)])


@public
@method()
def cross(x: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    """The vector product along a dim of size three; the shapes broadcast."""
    if x.shape[dim] != 3 or other.shape[dim] != 3:
        raise ValueError(f"cross: dim {dim} of {x.shape} and {other.shape} must have size 3")
    a, b = x.unbind(dim), other.unbind(dim)
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return stack(parts, dim)


@public
@method()
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements where dim2's index is dim1's plus `offset`, as a new last dim; a copy."""
    d1, d2 = (normalize_dim("diagonal", d, x.shape) for d in (dim1, dim2))
    if d1 == d2:
        raise ValueError(f"diagonal: dim1 and dim2 are both {dim1}")
    rows, cols = x.shape[d1], x.shape[d2]
    count = max(0, min(rows + min(offset, 0), cols - max(offset, 0)))
    kept = [d for d in range(x.ndim) if d not in (d1, d2)]
    flat = x.permute(*kept, d1, d2).reshape(*[x.shape[d] for d in kept], rows * cols)
    start = max(offset, 0) - cols * min(offset, 0)
    places = arange(count, device=x.device) * (cols + 1) + start
    return flat.index_select(-1, places)


@public
@method()
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices of zeros over dim1 and dim2 with the last dim of x on a diagonal."""
    size, dims = x.shape[-1] + abs(offset), x.ndim + 1
    shape = (*x.shape[:-1], size, size)
    d1, d2 = (normalize_dim("diag_embed", d, shape) for d in (dim1, dim2))
    if d1 == d2:
        raise ValueError(f"diag_embed: dim1 and dim2 are both {dim1}")
    rows = arange(size, device=x.device).unsqueeze(1)
    cols = arange(size, device=x.device)
    along = -2 if offset >= 0 else -1  # offset above zero leaves rows without an element
    placed = x.unsqueeze(-3 - along)
    if offset:
        rest = [*placed.shape[:-2], 1, 1]
        rest[along] = abs(offset)
        placed = cat([placed, zeros(rest, dtype=x.dtype, device=x.device)], along)
    full = placed.expand(*shape).masked_fill(cols - rows != offset, 0)
    order = list(range(dims - 2))
    for d, source in sorted(((d1, dims - 2), (d2, dims - 1))):
        order.insert(d, source)
    return full.permute(*order)


@public
@method()
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with the vector x on a diagonal, or that diagonal of a matrix."""
    if x.ndim not in (1, 2):
        raise ValueError(f"diag: shape {x.shape}; it takes a vector or a matrix")
    return diag_embed(x, diagonal) if x.ndim == 1 else x.diagonal(diagonal)


@public
@method()
def trace(x: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if x.ndim != 2:
        raise ValueError(f"trace: shape {x.shape}; it takes a matrix")
    return diagonal(x).sum()


@public
@method()
def dist(x: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of x - other, over all elements."""
    return norm(x - other, p)


@public
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms between rows: (..., n, k), (..., m, k) -> (..., n, m)."""
    return norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@public
@network
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle along `dim`; norms below `eps` count as `eps`."""
    sizes = norm(x1, 2, dim).clamp(min=eps) * norm(x2, 2, dim).clamp(min=eps)
    return (x1 * x2).sum(dim) / sizes


@public
@network
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim."""
    return norm(x1 - x2 + eps, p, -1, keepdim)
