"""What functions of tensors give where an operand is sparse; others are refused by name.

Products gather rows of the dense operand and add them up by row: O(nnz * columns). Sources:
PyTorch's documentation of torch.sparse for what is sparse and what is dense in the result.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import rushlight.core.functional.declared as f
from rushlight.core.basis.errors import PlaceError, ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim, normalize_dims
from rushlight.core.sparse.coo import REFUSED, SparseTensor
from rushlight.core.tensor.tensor import Tensor

TABLE: dict[str, Callable[..., Any]] = {}


class SparseError(TypeError, NotImplementedError):
    """A function that sparse tensors do not have. A function that calls it asks for itself."""


def _for(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        TABLE.update(dict.fromkeys(names, fn))
        return fn

    return enter


def call(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What `rl.NAME` gives for sparse operands. SparseError for other functions.

    `name` is the function's, `args` and `options` its arguments.
    """
    if name not in TABLE:
        raise SparseError(f"{name} of a sparse tensor is not supported; {REFUSED}")
    return TABLE[name](*args, **options)


def _pair(name: str, a: Tensor, b: Tensor) -> None:
    if a.ndim != 2 or b.ndim not in (1, 2) or a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"{name}: {tuple(a.shape)} @ {tuple(b.shape)} is not supported for a "
            "sparse operand; supported: (n, k) @ (k, m), (n, k) @ (k,)"
        )


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """The product of two matrices; sparse where both are, else dense.

    `mat1` or `mat2` is sparse. Raises ShapeError for sizes that do not fit, NotImplementedError for
    another `reduce` than "sum", which torch has for the layout CSR.
    """
    if reduce != "sum":
        raise NotImplementedError(f"sparse.mm: reduce {reduce!r} is not supported; supported: sum")
    return matmul(mat1, mat2)


@_for("mm", "matmul", "spmm", "smm", "hspmm", "mv", "bmm")
def matmul(a: Any, b: Any) -> Any:
    """The product of two matrices, or of a matrix and a vector; sparse where both are, else dense.

    Raises ShapeError for sizes that do not fit.
    """
    if not isinstance(a, SparseTensor):
        return matmul(b.t(), a.transpose(0, -1)).transpose(0, -1)
    _pair("matmul", a, b)
    if isinstance(b, SparseTensor):
        return _both(a, b)
    rows, cols = a._indices()
    values = a._values()
    picked = b.index_select(0, cols)
    terms = values.unsqueeze(1) * picked if b.ndim == 2 else values * picked
    return terms.new_zeros((a.shape[0], *b.shape[1:])).index_add(0, rows, terms)


def _both(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Each element of `a` meets the row of `b` that its column names."""
    b = b.coalesce()
    first, second = b._indices()
    count = f.bincount(first, minlength=b.shape[0])
    start = count.cumsum(0) - count
    rows, cols = a._indices()
    times = count.index_select(0, cols)
    which = f.arange(rows.shape[0], device=rows.device).repeat_interleave(times)
    begins = (times.cumsum(0) - times).index_select(0, which)
    step = f.arange(which.shape[0], device=rows.device) - begins
    partner = start.index_select(0, cols.index_select(0, which)) + step
    values = a._values().index_select(0, which) * b._values().index_select(0, partner)
    indices = f.stack([rows.index_select(0, which), second.index_select(0, partner)])
    return SparseTensor(indices, values, (a.shape[0], b.shape[1])).coalesce()


@_for("addmm", "sspaddmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2).

    `input` is a matrix or a number, `mat1` or `mat2` sparse; `beta` and `alpha` are numbers. Raises
    ShapeError for sizes that do not fit.
    """
    return beta * input + alpha * matmul(mat1, mat2)


@_for("addmv")
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta * input + alpha * (mat @ vec).

    Raises ShapeError for sizes that do not fit.
    """
    return beta * input + alpha * matmul(mat, vec)


@_for("add", "add_", "__add__", "__radd__")
def add(a: Any, b: Any, *, alpha: float = 1) -> Any:
    """Sparse with sparse is sparse, sparse with dense is dense.

    `a` + `alpha` * `b`. Raises ShapeError for different shapes, NotImplementedError for a number.
    """
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
            raise ShapeError(f"add: sparse tensors of {a.shape} and {b.shape}")
        other = b._values() if alpha == 1 else b._values() * alpha
        indices, values = f.cat([a._indices(), b._indices()], 1), f.cat([a._values(), other])
        return SparseTensor(indices, values, a.shape)
    dense, sparse = (b, a) if isinstance(a, SparseTensor) else (a, b)
    if not isinstance(dense, Tensor):
        raise NotImplementedError(f"add: a number and a sparse tensor; {REFUSED}")
    left, right = a.to_dense() if sparse is a else a, b.to_dense() if sparse is b else b
    return left + (right if alpha == 1 else right * alpha)


@_for("sub", "sub_")
def sub(a: Any, b: Any, *, alpha: float = 1) -> Any:
    """a - alpha * b.

    Raises ShapeError for different shapes, NotImplementedError for a number.
    """
    return add(a, b, alpha=-alpha)


@_for("mul", "mul_")
def mul(a: Any, b: Any) -> Any:
    """By a number, or element by element: sparse, at the indices of the sparse operand."""
    if not isinstance(a, SparseTensor):
        return mul(b, a)
    if isinstance(b, SparseTensor):
        if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
            raise ShapeError(f"mul: sparse tensors of {a.shape} and {b.shape}")
        a, b = a.coalesce(), b.coalesce()
        both = f.isin(a.flat(), b.flat())
        other = f.searchsorted(b.flat(), a.flat()[both])
        values = a._values()[both] * b._values()[other]
        return SparseTensor(a._indices()[:, both], values, a.shape, True)
    if not isinstance(b, Tensor) or not b.ndim:
        return a.with_values(a._values() * b)
    wide = b.expand(tuple(a.shape))
    return a.with_values(a._values() * wide[tuple(a._indices())])


@_for("div", "div_", "true_divide")
def div(a: Any, b: Any, *, rounding_mode: Any = None) -> Any:
    """A sparse tensor by a number, or by a dense tensor at its indices.

    `a` by `b`; `rounding_mode` as in `rl.div`. Raises NotImplementedError for a sparse divisor.
    """
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        raise NotImplementedError(f"div by a sparse tensor is not supported; {REFUSED}")
    if not isinstance(b, Tensor) or not b.ndim:
        return a.with_values(f.div(a._values(), b, rounding_mode=rounding_mode))
    return a.with_values(a._values() / b.expand(tuple(a.shape))[tuple(a._indices())])


# Functions that give 0 for 0; those that are not linear need the sums first.
_LINEAR = ("neg", "clone", "real", "imag", "conj")
_ZERO = ("abs", "sign", "sqrt", "square", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh",
         "atanh", "expm1", "log1p", "relu", "ceil", "floor", "trunc", "round", "erf", "erfinv",
         "isnan", "isinf", "rad2deg", "deg2rad", "nan_to_num", "sgn", "signbit",
         "positive")  # fmt: skip


def _each(name: str) -> None:
    dense = getattr(f, name)

    def apply(x: SparseTensor, *args: Any, **options: Any) -> SparseTensor:
        coalesced = x if name in _LINEAR else x.coalesce()
        return coalesced.with_values(dense(coalesced._values(), *args, **options))

    apply.__doc__ = f"{name} of the values."
    TABLE[name] = apply


for _name in (*_LINEAR, *_ZERO):
    _each(_name)


@_for("pow")
def pow(x: SparseTensor, exponent: Any) -> SparseTensor:
    """Values to a positive power."""
    if isinstance(exponent, Tensor) or exponent <= 0:
        raise NotImplementedError(f"pow({exponent}) of a sparse tensor is not supported; {REFUSED}")
    coalesced = x.coalesce()
    return coalesced.with_values(coalesced._values() ** exponent)


@_for("t")
def t(x: SparseTensor) -> Any:
    """A matrix with rows and columns exchanged. ShapeError for more dims."""
    if x.ndim > 2:
        raise ShapeError(f"t: shape {x.shape} has more than 2 dims; use transpose")
    return x if x.ndim < 2 else transpose(x, 0, 1)


@_for("transpose", "swapaxes", "swapdims")
def transpose(x: SparseTensor, dim0: int, dim1: int) -> Any:
    """Two sparse dims exchanged.

    `x` is sparse, `dim0` and `dim1` are the two. Raises IndexError for a dim that there is not.
    """
    dims = list(range(x.ndim))
    dim0, dim1 = (normalize_dim("transpose", dim, x.shape) for dim in (dim0, dim1))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return permute(x, *dims)


@_for("permute")
def permute(x: SparseTensor, *dims: Any) -> SparseTensor:
    """The sparse dims in another order."""
    given = dims[0] if isinstance(dims[0], list | tuple) else dims
    order = [normalize_dim("permute", d, x.shape) for d in given]
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"permute: dims {given} do not name every dim of {x.shape} once")
    if any(d != i for i, d in enumerate(order) if i >= x.sparse_dim()):
        raise NotImplementedError("permute: the dims of values stay where they are")
    rows = order[: x.sparse_dim()]
    coalesced = x.is_coalesced() and rows == sorted(rows)
    indices = f.stack([x._indices()[d] for d in rows])
    return SparseTensor(indices, x._values(), [x.shape[d] for d in order], coalesced)


@_for("sum")
def sum(x: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of all elements, a number; of some dims, sparse while a sparse dim is left.

    `x` is sparse; `dtype` is that of the sum. Raises NotImplementedError for `keepdim`.
    """
    values = x._values() if dtype is None else x._values().to(dtype)
    if dim is None:
        return values.sum()
    if keepdim:
        raise NotImplementedError("sum of a sparse tensor with keepdim is not supported")
    gone = normalize_dims("sum", dim, x.shape)
    sparse = x.sparse_dim()
    inner = tuple(d - sparse + 1 for d in gone if d >= sparse)
    values = values.sum(inner) if inner else values
    kept_dims = [d for d in range(sparse) if d not in gone]
    if not kept_dims:
        return values.sum(0)
    size = [n for d, n in enumerate(x.shape) if d not in gone]
    indices = f.stack([x._indices()[d] for d in kept_dims])
    coalesced = len(kept_dims) == sparse and x.is_coalesced()
    return SparseTensor(indices, values, size, coalesced).coalesce()


def _softmax(x: SparseTensor, dim: int, dtype: Any, log: bool) -> SparseTensor:
    """Over the elements that are stored; the others count as -inf."""
    name = "log_softmax" if log else "softmax"
    dim, x = normalize_dim(name, dim, x.shape), x.coalesce()
    values = x._values() if dtype is None else x._values().to(dtype)
    if not values.dtype.is_floating_point:
        raise TypeMismatch(f"{name}: {values.dtype.name} is not a floating dtype")
    if dim >= x.sparse_dim():
        inner = dim - x.sparse_dim() + 1
        return x.with_values(values.log_softmax(inner) if log else values.softmax(inner))
    others = [d for d in range(x.sparse_dim()) if d != dim]
    place = x._indices()[0] * 0
    for d in others:
        place = place * x.shape[d] + x._indices()[d]
    groups, where = place.unique(return_inverse=True)
    shape = (groups.shape[0], *values.shape[1:])
    index = where.reshape(-1, *[1] * (values.ndim - 1)).expand(tuple(values.shape))
    top = values.new_full(shape, -float("inf"))
    top = top.scatter_reduce(0, index, values.detach(), "amax")
    shifted = values - top.index_select(0, where)
    total = values.new_zeros(shape).index_add(0, where, shifted.exp())
    log_shares = shifted - total.log().index_select(0, where)
    return x.with_values(log_shares if log else log_shares.exp())


@_for("softmax")
def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """softmax along a dim over the stored elements; the others count as -inf.

    `input` is sparse; `dtype` is that of the result. Raises IndexError for a `dim` that there is
    not, TypeError for a dtype that is not floating.
    """
    return _softmax(input, dim, dtype, False)


@_for("log_softmax")
def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """log of `softmax`.

    `input` is sparse, `dtype` that of the result. Raises IndexError for a `dim` that there is not,
    TypeError for a dtype that is not floating.
    """
    return _softmax(input, dim, dtype, True)


@_for("index_select")
def index_select(x: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The slices of these numbers, in their order.

    `x` is sparse, `dim` the dim, `index` (n,) the numbers; along a sparse dim negative ones count
    from its end. Raises IndexError for a dim or a number that there is not, and for an index that
    is not 1-d integers.
    """
    dim = normalize_dim("index_select", dim, x.shape)
    if index.ndim != 1 or index.dtype.kind not in "ui":
        raise PlaceError(
            f"index_select: index is {index.dtype.name} {index.shape}; it must be 1-d integers"
        )
    if dim >= x.sparse_dim():
        return x.with_values(x._values().index_select(dim - x.sparse_dim() + 1, index))
    count = x.shape[dim]
    if index.numel() and index.device.type != "meta":
        low, high = int(index.amin().item()), int(index.amax().item())
        wrong = low if low < -count else high
        if low < -count or high >= count:
            raise PlaceError(
                f"index_select: index {wrong} is out of range for dim {dim} of {x.shape}"
            )
        index = f.where(index < 0, index + count, index)
    hits = (x._indices()[dim].unsqueeze(1) == index.unsqueeze(0)).nonzero()
    which, place = hits[:, 0], hits[:, 1]
    indices = x._indices().index_select(1, which)
    rows = [place if d == dim else indices[d] for d in range(x.sparse_dim())]
    size = [index.shape[0] if d == dim else n for d, n in enumerate(x.shape)]
    return SparseTensor(f.stack(rows), x._values().index_select(0, which), size)


@_for("select")
def select(x: SparseTensor, dim: int, index: int) -> Any:
    """One slice, without its dim; dense where no sparse dim is left.

    `x` is sparse, `index` the number. Raises IndexError for one that there is not.
    """
    dim = normalize_dim("select", dim, x.shape)
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select: index {index} is out of range for dim {dim} of {x.shape}")
    index = index % x.shape[dim]
    if dim >= x.sparse_dim():
        return x.with_values(x._values().select(dim - x.sparse_dim() + 1, index))
    hits = (x._indices()[dim] == index).nonzero()[:, 0]
    values = x._values().index_select(0, hits)
    if x.sparse_dim() == 1:
        return values.sum(0)
    kept_dims = [d for d in range(x.sparse_dim()) if d != dim]
    indices = f.stack([x._indices()[d].index_select(0, hits) for d in kept_dims])
    size = [n for d, n in enumerate(x.shape) if d != dim]
    return SparseTensor(indices, values, size, x.is_coalesced())


@_for("cat", "concat")
def cat(tensors: Any, dim: int = 0) -> SparseTensor:
    """Sparse tensors joined along a dim. ShapeError where others of their dims differ."""
    first = tensors[0]
    dim = normalize_dim("cat", dim, first.shape)
    kinds = {
        (x.sparse_dim(), *x.shape[:dim], *x.shape[dim + 1 :])
        if isinstance(x, SparseTensor)
        else None
        for x in tensors
    }
    if len(kinds) > 1:
        shapes = ", ".join(str(x.shape) for x in tensors)
        raise ShapeError(
            f"cat: tensors of {shapes}; their sparse dims must be the same, and all but dim {dim}"
        )
    if dim >= first.sparse_dim():
        return _cat_values(tensors, dim)
    ats, values, start = [], [], 0
    for x in tensors:
        indices = x._indices()
        rows = [indices[d] + start if d == dim else indices[d] for d in range(x.sparse_dim())]
        ats.append(f.stack(rows))
        values.append(x._values())
        start += x.shape[dim]
    size = [start if d == dim else n for d, n in enumerate(first.shape)]
    return SparseTensor(f.cat(ats, 1), f.cat(values), size)


def _cat_values(tensors: Any, dim: int) -> SparseTensor:
    """Joined along a dim of the values, which are zero where another tensor's are."""
    first, inner = tensors[0], dim - tensors[0].sparse_dim() + 1
    total, start, values = builtins.sum(x.shape[dim] for x in tensors), 0, []
    for x in tensors:
        own = x._values()
        sides = (
            own.new_zeros((*own.shape[:inner], n, *own.shape[inner + 1 :]))
            for n in (start, total - start - x.shape[dim])
        )
        values.append(f.cat([next(sides), own, next(sides)], inner))
        start += x.shape[dim]
    at = f.cat([x._indices() for x in tensors], 1)
    return SparseTensor(at, f.cat(values), (*first.shape[:dim], total, *first.shape[dim + 1 :]))


@_for("norm")
def norm(x: SparseTensor, p: Any = "fro", dim: Any = None, **options: Any) -> Any:
    """The norm of all elements.

    `x` is sparse, `p` the order. Raises NotImplementedError for a `dim` and other `options`.
    """
    if dim is not None or any(options.values()):
        wants = [name for name in options if options[name]] if dim is None else ["dim"]
        raise NotImplementedError(f"norm of a sparse tensor with {', '.join(wants)}; {REFUSED}")
    return f.norm(x.coalesce()._values(), p)


@_for("zeros_like")
def zeros_like(x: SparseTensor, **options: Any) -> SparseTensor:
    """A sparse tensor of that shape that holds nothing."""
    return SparseTensor(x._indices()[:, :0], x._values()[:0], x.shape, True)


@_for("is_floating_point", "is_complex")
def is_floating_point(x: SparseTensor) -> bool:
    """Whether its values are."""
    return bool(x.dtype.is_floating_point)
