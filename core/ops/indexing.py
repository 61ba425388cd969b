"""Gather, scatter and selection by index.

A negative or too large index raises IndexError with the op, the index and the size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import float32, int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import Shape, normalize_dim
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.creation import full
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.movement import shape_of, slices
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _zeros(g: Tensor, shape: Shape) -> Tensor:
    return full(shape, 0, dtype=g.dtype, device=g.device)


def _infer_gather(x: Meta, index: Meta, *, dim: int, blamed: str = "", refusal: str = "") -> Meta:
    return x.fresh(index.shape)


def _infer_first(x: Meta, *others: Meta, **attrs: Any) -> Meta:
    return x.fresh()


def _infer_select(x: Meta, index: Meta, *, dim: int) -> Meta:
    return x.fresh((*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]))


def _infer_embedding(weight: Meta, index: Meta) -> Meta:
    dtype = float32 if weight.dtype.kind == "q" else weight.dtype
    return weight.fresh((*index.shape, weight.shape[1]), dtype)


def _gather_grad(c: Context, g: Tensor, index: Tensor) -> Tensor:
    return SCATTER_ADD(_zeros(g, shape_of(c)), index, g, dim=c.attrs["dim"])


def _pick_grad(c: Context, g: Tensor, index: Tensor) -> Tensor:
    return GATHER(g, index, dim=c.attrs["dim"])


def _scatter_rest(c: Context, g: Tensor, index: Tensor) -> Tensor:
    return SCATTER(g, index, _zeros(g, index.shape), dim=c.attrs["dim"])


def _select_grad(c: Context, g: Tensor, index: Tensor) -> Tensor:
    return INDEX_ADD(_zeros(g, shape_of(c)), index, g, dim=c.attrs["dim"])


def _embedding_grad(c: Context, g: Tensor, index: Tensor) -> Tensor:
    rows, width = shape_of(c)
    flat = g.reshape(index.numel(), width)
    return INDEX_ADD(_zeros(g, (rows, width)), index.reshape(index.numel()), flat, dim=0)


GATHER = Op(
    "gather", infer=_infer_gather, grads=(rule(_gather_grad, 1),), complex=True, batch="dim"
)
SCATTER = Op(
    "scatter",
    infer=_infer_first,
    grads=(rule(_scatter_rest, 1), None, rule(_pick_grad, 1)),
    complex=True,
    batch="dim",
)
SCATTER_ADD = Op(
    "scatter_add",
    infer=_infer_first,
    grads=(rule(lambda c, g: g), None, rule(_pick_grad, 1)),
    complex=True,
    batch="dim",
)
INDEX_SELECT = Op("index_select", infer=_infer_select, grads=(rule(_select_grad, 1),), complex=True)
INDEX_ADD = Op(
    "index_add",
    infer=_infer_first,
    grads=(
        rule(lambda c, g: g),
        None,
        rule(lambda c, g, i: INDEX_SELECT(g, i, dim=c.attrs["dim"]), 1),
    ),
    complex=True,
)
EMBEDDING = Op("embedding", infer=_infer_embedding, grads=(rule(_embedding_grad, 1),), blocks=(0,))


def _infer_ravel(*index: Meta, sizes: Shape) -> Meta:
    return index[0].fresh(dtype=int64)


# Joins the indices of several dims into one index into the flattened dims; each is checked.
RAVEL_INDEX = Op("ravel_index", infer=_infer_ravel, differentiable=False, batch="same")


def _integers(name: str, index: Tensor) -> Tensor:
    if index.dtype.kind not in "ui":
        raise TypeMismatch(f"{name}: index is {index.dtype.name}; it must be an integer dtype")
    return index


def _fits(name: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None) -> int:
    d = normalize_dim(name, dim, x.shape)
    _integers(name, index)
    bad = (
        index.ndim != x.ndim
        or x.ndim == 0
        or any(i > n for k, (i, n) in enumerate(zip(index.shape, x.shape, strict=True)) if k != d)
    )
    if bad:
        raise ShapeError(f"{name}: index {index.shape} does not fit {x.shape} outside dim {dim}")
    if src is not None and src.dtype is not x.dtype:
        raise TypeMismatch(f"{name}: src is {src.dtype.name}, x {x.dtype.name}; convert one")
    if src is not None and (
        src.ndim != x.ndim or any(i > s for i, s in zip(index.shape, src.shape, strict=True))
    ):
        raise ShapeError(f"{name}: index {index.shape} is larger than the source {src.shape}")
    return d


def _front(x: Tensor, shape: Shape) -> Tensor:
    return slices(x, tuple((0, n, 1) for n in shape))


@public
@method()
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for dim 0, and so on; the shape of `index`.

    `index` is int64 or int32, with as many dims as x. Raises IndexError for an index or a dim out
    of range, ShapeError for sizes that do not fit.
    """
    if x.ndim == 0 and index.ndim < 2:
        row = gather(x.reshape(1), dim, index.reshape(index.numel()))
        return row.reshape(*index.shape)
    if not index.numel() and index.ndim != x.ndim:
        return x.reshape(-1)[:0].reshape(*index.shape)
    return GATHER(x, index, dim=_fits("gather", x, dim, index, None))


@public
@method()
def scatter(
    x: Tensor, dim: int, index: Tensor, src: TensorLike, *, reduce: str | None = None
) -> Tensor:
    """A copy of `x` with out[index[i][j]][j] = src[i][j] for dim 0, and so on.

    For a repeated index the last value wins on cpu. `src` may be a number. reduce: "add" or
    "multiply" combines the values instead.

    `index` has as many dims as x and src. Raises IndexError for an index or a dim out of range,
    ShapeError for sizes that do not fit, ValueError for another reduce.
    """
    if not is_tensor(src):
        src = full(index.shape, src, dtype=x.dtype, device=x.device)  # type: ignore[arg-type]
    source: Tensor = src  # type: ignore[assignment]
    if x.ndim == 0 and index.ndim == source.ndim == 0:
        operands = x.reshape(1), dim, index.reshape(1), source.reshape(1)
        return scatter(*operands, reduce=reduce).reshape()
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise ValueError(f"scatter: reduce is {reduce!r}; supported: add, multiply")
        return x.scatter_reduce(dim, index, source, "sum" if reduce == "add" else "prod")
    d = _fits("scatter", x, dim, index, source)
    return SCATTER(x, index, _front(source, index.shape), dim=d)


@public
@method()
@casts(accelerator="widest")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of `x` with src[i][j] added at out[index[i][j]][j] for dim 0, and so on.

    `index` has as many dims as x and src. Raises IndexError for an index or a dim out of range,
    ShapeError for sizes that do not fit.
    """
    if x.ndim == 0 and index.ndim == src.ndim == 0:
        return scatter_add(x.reshape(1), dim, index.reshape(1), src.reshape(1)).reshape()
    d = _fits("scatter_add", x, dim, index, src)
    return SCATTER_ADD(x, index, _front(src, index.shape), dim=d)


@public
@method()
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements of `dim` at the positions `index` (1-d integers), in its order.

    `x` has dims. Raises IndexError for an index or a dim out of range, ShapeError for another
    index.
    """
    d = normalize_dim("index_select", dim, x.shape)
    if x.ndim == 0 and index.numel() == 1:
        return index_select(x.reshape(1), 0, index.reshape(1)).reshape()
    index = index.reshape(1) if index.ndim == 0 else index
    if _integers("index_select", index).ndim != 1 or x.ndim == 0:
        raise ShapeError(f"index_select: index {index.shape} must be 1-d, x {x.shape} not 0-d")
    return INDEX_SELECT(x, index, dim=d)


@public
@method()
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """A copy of `x` with alpha times element k of `source` in `dim` added to element index[k].

    `index` is 1-d, `source` has its length in dim. Raises IndexError for an index or a dim out of
    range, ShapeError for sizes that do not fit.
    """
    d = normalize_dim("index_add", dim, x.shape)
    source = source if alpha == 1 else source * alpha
    if x.ndim == 0:
        result_row = index_add(x.reshape(1), 0, index.reshape(-1), source.reshape(-1))
        return result_row.reshape()
    index = index.reshape(1) if index.ndim == 0 else index
    want = (*x.shape[:d], index.numel(), *x.shape[d + 1 :])
    if _integers("index_add", index).ndim != 1 or source.shape != want:
        raise ShapeError(f"index_add: source is {source.shape}; it must be {want}")
    return INDEX_ADD(x, index, source.to(x.dtype), dim=d)


@public
def embedding(weight: Tensor, index: Tensor) -> Tensor:
    """Rows of `weight` (rows, width) at `index` (integers, any shape): (*index, width)."""
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight is {weight.shape}; it must be (rows, width)")
    return EMBEDDING(weight, _integers("embedding", index))


@public
@method()
def nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    """Indices (count, ndim), int64, of the elements that are not zero, in row-major order.

    as_tuple: a 1-d tensor for each dim instead; a 0-d x counts as 1-d.
    The shape depends on the values, so they are read; `nonzero_async` reads them without blocking.
    """
    if as_tuple:
        return nonzero(x.reshape(1) if x.ndim == 0 else x).unbind(1)
    return x.from_host(_where(x.detach().host_values()))


def true_positions(mask: Tensor) -> Tensor:
    """The flat positions (count,), int64, of the elements of a bool tensor that are true."""
    return mask.from_host(np.flatnonzero(mask.host_values()))


@public
@method()
async def nonzero_async(x: Tensor) -> Tensor:
    """`nonzero` without blocking: it works in every browser."""
    return x.from_host(_where(await x.detach().host_values_async()))


def _where(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """`np.argwhere`, twice as fast."""
    flat = np.flatnonzero(values)
    result = np.empty((flat.size, values.ndim), np.int64)
    for d in reversed(range(1, values.ndim)):
        flat, result[:, d] = np.divmod(flat, values.shape[d])
    if values.ndim:
        result[:, 0] = flat
    return result
