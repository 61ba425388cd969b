"""Elements selected, filled, written and combined by index or mask; copies of x, never x itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import bool_, int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes, normalize_dim
from rushlight.core.functional.comparison import sort
from rushlight.core.functional.creation import full_like
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import (
    Binary,
    div,
    floor_divide,
    maximum,
    minimum,
    mul,
    remainder,
    where,
)
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.creation import full, zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.indexing import nonzero, nonzero_async, scatter_add
from rushlight.core.ops.join import cat
from rushlight.core.ops.strided import as_strided, places
from rushlight.core.ops.subscript import getitem, setitem

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


_OPS: dict[str, Binary] = {"prod": mul, "amax": maximum, "amin": minimum}


def _combined(op: Binary, x: Tensor, d: int, index: Tensor, src: Tensor) -> Tensor:
    """In the shape of x, what `op` makes of all of src that goes to one place; 0 without any."""
    ordered = sort(index, d)
    keys, src = ordered.values, src.gather(d, ordered.indices)
    n, step = keys.shape[d], 1
    while step < n:  # each step doubles how many neighbours of one key a place covers
        same = keys.narrow(d, step, n - step) == keys.narrow(d, 0, n - step)
        late = src.narrow(d, step, n - step)
        joined = where(same, op(src.narrow(d, 0, n - step), late), late)
        src = cat([src.narrow(d, 0, step), joined], d)
        step *= 2
    last = keys.narrow(d, 0, n - 1) != keys.narrow(d, 1, n - 1)
    last = cat([last, keys.narrow(d, n - 1, 1).ones_like(dtype="bool")], d)
    return scatter_add(x.zeros_like(), d, keys, where(last, src, 0).to(x.dtype))


@public
@method()
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of x where src[i][j] is combined at out[index[i][j]][j] for dim 0, and so on.

    reduce: "sum", "prod", "mean", "amax" or "amin"; include_self: the old value counts too. Equal
    extremes share the gradient. TypeError if the dtypes differ.
    """
    if reduce not in ("sum", "mean", *_OPS):
        raise ValueError(
            f"scatter_reduce: reduce is {reduce!r}; supported: sum, prod, mean, amax, amin"
        )
    if src.dtype is not x.dtype:
        raise TypeMismatch(f"scatter_reduce: src is {src.dtype.name}, x {x.dtype.name}")
    d = normalize_dim("scatter_reduce", dim, x.shape)
    if x.ndim == 0:
        flat = scatter_reduce(
            x.reshape(1), 0, index.reshape(-1), src.reshape(-1), reduce, include_self=include_self
        )
        return flat.reshape()
    if not index.numel():
        return x.clone()
    index = index.to(int64)
    for k, n in enumerate(index.shape):
        src = src.narrow(k, 0, n)
    zeros, kind = x.zeros_like(), x.dtype
    if kind.name == "bool":
        return scatter_reduce(
            x.to("uint8"), d, index, src.to("uint8"), reduce, include_self=include_self
        ).to(kind)
    count = scatter_add(zeros.to(int64), d, index, index.ones_like())
    if reduce in ("sum", "mean"):
        base = x if include_self else where(count > 0, 0, x).to(kind)
        total = scatter_add(base, d, index, src)
        if reduce == "sum":
            return total
        count = (count + 1 if include_self else count.clamp(min=1)).to(kind)
        return div(total, count, rounding_mode=None if kind.is_floating_point else "floor")
    op = _OPS[reduce]
    if reduce == "prod":
        combined = _combined(op, x, d, index, src)
    else:
        combined = _combined(op, x.detach(), d, index, src.detach())
    both = op(x, combined) if include_self else combined
    out = where(count > 0, both if reduce == "prod" else both.detach(), x)
    if reduce == "prod" or not (x.requires_grad or src.requires_grad):
        return out
    # The extreme as the mean of what equals it, which gives each its share of the gradient.
    value = out.detach()
    mine = (x == value) & ((count == 0) | include_self)
    theirs = src == value.gather(d, index)
    total = scatter_add(where(mine, x, 0).to(kind), d, index, where(theirs, src, 0).to(kind))
    hits = scatter_add(mine.to(int64), d, index, theirs.to(int64))
    return total / hits.to(kind)


@public
@method()
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of x where element k of `source` along `dim` is combined with element index[k].

    reduce: "prod", "mean", "amax" or "amin"; include_self: the old value counts too.

    `index` is 1-d, `source` has its length along `dim`. Raises ValueError for another reduce,
    ShapeError for another shape, IndexError for an index or a dim out of range.
    """
    if reduce not in ("mean", *_OPS):
        raise ValueError(f"index_reduce: reduce is {reduce!r}; supported: prod, mean, amax, amin")
    if x.ndim == 0:
        return index_reduce(
            x.reshape(1),
            0,
            index.reshape(-1),
            source.reshape(-1),
            reduce,
            include_self=include_self,
        ).reshape()
    d = normalize_dim("index_reduce", dim, x.shape)
    want = (*x.shape[:d], index.numel(), *x.shape[d + 1 :])
    if source.shape != want:
        raise ShapeError(f"index_reduce: source is {source.shape}; it must be {want}")
    broadcast = index.reshape(*[-1 if k == d else 1 for k in range(x.ndim)]).expand(*want)
    return scatter_reduce(x, d, broadcast, source, reduce, include_self=include_self)


@public
@method()
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """A view of element `index` along `dim`, without that dim.

    `x` keeps its memory. Raises IndexError for a dim or an index out of range.
    """
    d = normalize_dim("select", dim, x.shape)
    if x.ndim == 0 or not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select: index {index} is not in dim {dim} of {x.shape}")
    return x.narrow(d, index % x.shape[d], 1).squeeze(d)


@public
@method()
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of x with `src` as element `index` along `dim`.

    Raises IndexError for a dim or an index out of range, ShapeError where src does not fit.
    """
    d = normalize_dim("select_scatter", dim, x.shape)
    if not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select_scatter: index {index} is not in dim {dim} of {x.shape}")
    out = x.clone()
    setitem(out, (slice(None),) * d + (index,), src)
    return out


@public
@method()
def slice_scatter(
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of x with `src` as the slice start:end:step along `dim`.

    Raises IndexError for a dim that there is not, ShapeError where src does not fit.
    """
    d = normalize_dim("slice_scatter", dim, x.shape)
    out = x.clone()
    setitem(out, (slice(None),) * d + (slice(start, end, step),), src)
    return out


def _key(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[int, Any]:
    d = normalize_dim(name, dim, x.shape)
    if index.dtype.kind not in "ui" or index.ndim > 1:
        raise ShapeError(
            f"{name}: index is {index.dtype.name} {index.shape}; it must be 1-d integers"
        )
    return d, (slice(None),) * d + (index.reshape(-1),)


@public
@method()
def index_fill(x: Tensor, dim: int, index: Tensor, value: TensorLike) -> Tensor:
    """A copy of x with `value` at the positions `index` along `dim`.

    `index` is 1-d int64, `value` a number or a 0-d tensor. Raises IndexError for a dim or an index
    out of range.
    """
    if x.ndim == 0:
        return index_fill(x.reshape(1), 0, index, value).reshape()
    d, key = _key("index_fill", x, dim, index)
    if is_tensor(value) and value.requires_grad:  # type: ignore[union-attr]
        # A mask, so that a repeated index counts the value's gradient once.
        mask = zeros(x.shape[d], dtype="bool", device=x.device)
        setitem(mask, index.reshape(-1), True)
        shape = [-1 if k == d else 1 for k in range(x.ndim)]
        return where(mask.reshape(*shape), value, x).to(x.dtype)
    out = x.clone()
    setitem(out, key, value)
    return out


@public
@method()
@casts(cpu="widest")
def index_copy(x: Tensor, dim: int, index: Tensor, tensor: Tensor) -> Tensor:
    """A copy of x with element k of `tensor` along `dim` at position index[k].

    `index` is 1-d int64. Raises IndexError for a dim or an index out of range, ShapeError where
    tensor does not fit.
    """
    if x.ndim == 0:
        return tensor.reshape().clone()
    _, key = _key("index_copy", x, dim, index)
    out = x.clone()
    setitem(out, key, tensor)
    return out


@public
@method()
@casts(accelerator="widest")
def index_put(x: Tensor, indices: Any, values: TensorLike, accumulate: bool = False) -> Tensor:
    """A copy of x with x[indices] = values, or added where `accumulate`.

    `indices` are tensors, or None for whole dims. Raises IndexError for an index out of range,
    ShapeError for values that do not broadcast.
    """
    out = x.clone()
    key = tuple(slice(None) if i is None else i for i in indices)
    if not accumulate:
        setitem(out, key, values)
        return out
    order = x.zeros_like(dtype=int64).reshape(-1)
    places = (order.ones_like().cumsum(0) - 1).reshape(*x.shape)[key]
    added: Tensor
    if is_tensor(values):
        added = values.expand(*places.shape)  # type: ignore[union-attr]
    else:
        added = full_like(places, values, dtype=x.dtype)  # type: ignore[arg-type]
    flat = x.reshape(-1).index_add(0, places.reshape(-1), added.reshape(-1))
    return flat.reshape(*x.shape)


@public
@method()
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of x whose elements where `mask` holds are those of `source` in order.

    `mask` is bool and broadcasts. Raises ShapeError for shapes that do not broadcast.
    """
    shape = broadcast_shapes("masked_scatter", mask.shape, x.shape)
    mask, x = mask.expand(*shape), x.expand(*shape)
    place = mask.reshape(-1).to(int64).cumsum(0) - 1
    flat = source.reshape(-1)
    if flat.numel() == 0:
        return x.clone()
    picked = flat[place.clamp(0, flat.numel() - 1)].reshape(*x.shape)
    return where(mask, picked, x)


@public
@method()
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of flat x at `index`, in its shape."""
    n = x.numel()
    return x.reshape(-1)[where(index < 0, index + n, index)]


@public
@method()
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of x with `source` at positions `index` of flat x, or added there.

    `accumulate`: added. Raises IndexError for an index out of range, ShapeError for another count
    of elements.
    """
    flat_index = where(index < 0, index + x.numel(), index).reshape(-1)
    return index_put(x.reshape(-1), (flat_index,), source.reshape(-1), accumulate).reshape(*x.shape)


@public
@method()
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with shapes that broadcast; without `dim` in flat x.

    `indices` are int64 and may be negative. Raises IndexError for a dim or an index out of range,
    ShapeError for shapes that do not broadcast.
    """
    if dim is None:
        return x.reshape(-1).gather(0, indices.reshape(-1))
    d = normalize_dim("take_along_dim", dim, x.shape)
    a, b = [*x.shape], [*indices.shape]
    a[d] = b[d] = 1
    shape = list(broadcast_shapes("take_along_dim", tuple(a), tuple(b)))
    wide, index_shape = [*shape], [*shape]
    wide[d], index_shape[d] = x.shape[d], indices.shape[d]
    at_ = indices.expand(*index_shape)
    return x.expand(*wide).gather(d, where(at_ < 0, at_ + x.shape[d], at_))


@public
@method()
def argwhere(x: Tensor) -> Tensor:
    """`nonzero` under NumPy's name."""
    result: Tensor = nonzero(x)
    return result


@public
@method()
def fill(x: Tensor, value: TensorLike) -> Tensor:
    """A tensor of one value with the shape and dtype of x."""
    if is_tensor(value):
        return value.to(x.dtype).expand(*x.shape).clone()  # type: ignore[union-attr]
    return x.masked_fill(x.ones_like(dtype="bool"), value)


@public
@method()
def as_strided_scatter(
    x: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of x, made contiguous, with `src` at the elements of `as_strided`.

    `size`, `stride` and `storage_offset` are those of as_strided. Raises ShapeError where src does
    not fit or memory ends before.
    """
    offset = x.layout.offset if storage_offset is None else storage_offset
    target = as_strided(x.clone(), size, stride, offset)
    if src.shape != target.shape:
        raise ShapeError(f"as_strided_scatter: src is {src.shape}; it must be {target.shape}")
    flat, positions = x.reshape(-1), places(x, target.layout)
    return flat.index_copy(0, positions, src.to(x.dtype).reshape(-1)).reshape(*x.shape)


@public
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The index (int64) along each dim of `shape` of flat indices."""
    if indices.dtype.kind not in "ui":
        raise TypeMismatch(f"unravel_index: {indices.dtype.name} is not an integer dtype")
    coordinates, indices = [], indices.to(int64)
    for n in reversed([shape] if isinstance(shape, int) else list(shape)):
        coordinates.append(remainder(indices, n))
        indices = floor_divide(indices, n)
    return tuple(reversed(coordinates))


@public
@method()
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` cut or filled with rows of `fill_value` to `size` rows.

    `x` may have any dtype; the rows are int64. Raises ValueError for a negative size.
    """
    rows = nonzero(x)[:size]
    fill = full((size - len(rows), x.ndim), fill_value, dtype=int64, device=x.device)
    return cat([rows, fill], 0) if len(fill) else rows


@public
@method()
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of `x` where `mask` (bool, broadcast with x) holds: a 1-d tensor.

    The shape depends on the mask's values, so the mask is read; `masked_select_async` reads it
    without blocking.
    """
    return getitem(*_masked(x, mask))


@public
@method()
async def masked_select_async(x: Tensor, mask: Tensor) -> Tensor:
    """`masked_select` without blocking: it works in every browser."""
    x, mask = _masked(x, mask)
    return getitem(x, (await nonzero_async(mask)).unbind(1))


def _masked(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """`x` and `mask` in their common shape."""
    if mask.dtype is not bool_:
        raise TypeMismatch(f"masked_select: mask is {mask.dtype.name}; it must be bool")
    shape = broadcast_shapes("masked_select", x.shape, mask.shape) or (1,)
    return x.expand(*shape), mask.expand(*shape)
