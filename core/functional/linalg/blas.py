"""Products of vectors and matrices under torch's names, and sums with such products."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.linalg.checks import product_of
from rushlight.core.functional.linalg.einsum import tensordot
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _check(name: str, dims: int, **tensors: Tensor) -> None:
    for what, x in tensors.items():
        if x.ndim != dims:
            raise ShapeError(f"{name}: {what} is {x.shape}; it must have {dims} dims")


@public
@method()
@casts("low")
def mm(x: Tensor, mat2: Tensor) -> Tensor:
    """The product of matrices (n, k) and (k, m): (n, m)."""
    _check("mm", 2, x=x, mat2=mat2)
    return product_of("mm", x, mat2)


@public
@method()
@casts("low")
def bmm(x: Tensor, mat2: Tensor) -> Tensor:
    """Products of (b, n, k) and (b, k, m): (b, n, m)."""
    _check("bmm", 3, x=x, mat2=mat2)
    if x.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: {x.shape} and {mat2.shape} differ in the number of matrices")
    return product_of("bmm", x, mat2)


@public
@method()
@casts(accelerator="low")
def mv(x: Tensor, vec: Tensor) -> Tensor:
    """A matrix (n, k) times a vector (k,): (n,)."""
    _check("mv", 2, x=x)
    _check("mv", 1, vec=vec)
    return product_of("mv", x, vec)


@public
@method()
@casts(accelerator="widest")
def dot(x: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products of two vectors of one length, 0-d."""
    _check("dot", 1, x=x, tensor=tensor)
    if x.shape != tensor.shape:
        raise ShapeError(f"dot: lengths {x.shape[0]} and {tensor.shape[0]} differ")
    return product_of("dot", x, tensor)


@public
@method()
@casts(accelerator="widest")
def vdot(x: Tensor, other: Tensor) -> Tensor:
    """`dot` of the conjugates of x, and `other`."""
    return dot(turned(x), other)


@public
@method()
def outer(x: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors: (n, m)."""
    _check("outer", 1, x=x, vec2=vec2)
    return x.unsqueeze(1) * vec2


@public
@method()
def inner(x: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dims; plain products where one is 0-d."""
    if not x.ndim or not other.ndim:
        return x * other
    return tensordot(x, other, ([-1], [-1]))


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if product.dtype.category < 2 and x.dtype.category < 2:
        if product.dtype.name == "bool":  # sums of truths are truths
            beta, alpha = bool(beta), bool(alpha)
            return (x & bool(beta)) | (product & bool(alpha))
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # nan and inf in x do not count
        return product.expand(*product.shape)
    return (x if beta == 1 else x * beta) + product


@public
@method()
@casts("low")
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * mat1 @ mat2.

    `mat1` is (n, k), `mat2` (k, m). Raises ShapeError for sizes that do not fit.
    """
    return _added(x, mm(mat1, mat2), beta, alpha)


@public
@method()
@casts(accelerator="low")
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * mat @ vec.

    `mat` is (n, k), `vec` (k,). Raises ShapeError for sizes that do not fit.
    """
    return _added(x, mv(mat, vec), beta, alpha)


@public
@method()
@casts(accelerator="low")
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * x + alpha * outer(vec1, vec2).

    `vec1` is (n,), `vec2` (m,). Raises ShapeError for sizes that do not fit.
    """
    return _added(x, outer(vec1, vec2), beta, alpha)


@public
@method()
@casts("low")
def baddbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * x + alpha * bmm(batch1, batch2).

    `batch1` is (b, n, k), `batch2` (b, k, m). Raises ShapeError for sizes that do not fit.
    """
    return _added(x, bmm(batch1, batch2), beta, alpha)


@public
@method()
@casts("low")
def addbmm(
    x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * x + alpha * the sum of bmm(batch1, batch2) over the batch.

    `batch1` is (b, n, k), `batch2` (b, k, m). Raises ShapeError for sizes that do not fit.
    """
    return _added(x, bmm(batch1, batch2).sum(0, dtype=batch1.dtype), beta, alpha)


@public
@casts(cpu="inside", accelerator="low")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from the left."""
    return list(accumulate(matrices, mm))[-1]
