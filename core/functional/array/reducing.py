"""scatter_reduce and index_reduce: values that meet at one place are combined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.picking import sort
from rushlight.core.ops.binary import Binary, div, maximum, minimum, mul, where
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.indexing import scatter_add
from rushlight.core.ops.join import cat

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

_OPS: dict[str, Binary] = {"prod": mul, "amax": maximum, "amin": minimum}


def _combined(op: Binary, x: Tensor, d: int, index: Tensor, src: Tensor) -> Tensor:
    """In the shape of x, what `op` makes of all of src that goes to one place; 0 without any."""
    found = sort(index, d)
    keys, src = found.values, src.gather(d, found.indices)
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
        raise ValueError(f"scatter_reduce: reduce is {reduce!r}; supported: sum, prod, mean, amax, "
                         "amin")  # fmt: skip
    if src.dtype is not x.dtype:
        raise TypeMismatch(f"scatter_reduce: src is {src.dtype.name}, x {x.dtype.name}")
    d = normalize_dim("scatter_reduce", dim, x.shape)
    if x.ndim == 0:
        flat = scatter_reduce(x.reshape(1), 0, index.reshape(-1), src.reshape(-1), reduce,
                              include_self=include_self)  # fmt: skip
        return flat.reshape()
    if not index.numel():
        return x.clone()
    index = index.to(int64)
    for k, n in enumerate(index.shape):
        src = src.narrow(k, 0, n)
    zeros, kind = x.zeros_like(), x.dtype
    if kind.name == "bool":
        return scatter_reduce(x.to("uint8"), d, index, src.to("uint8"), reduce,
                              include_self=include_self).to(kind)  # fmt: skip
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
        found = _combined(op, x, d, index, src)
    else:
        found = _combined(op, x.detach(), d, index, src.detach())
    both = op(x, found) if include_self else found
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
    """
    if reduce not in ("mean", *_OPS):
        raise ValueError(f"index_reduce: reduce is {reduce!r}; supported: prod, mean, amax, amin")
    if x.ndim == 0:
        return index_reduce(x.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce,
                            include_self=include_self).reshape()  # fmt: skip
    d = normalize_dim("index_reduce", dim, x.shape)
    want = (*x.shape[:d], index.numel(), *x.shape[d + 1 :])
    if source.shape != want:
        raise ShapeError(f"index_reduce: source is {source.shape}; it must be {want}")
    at = index.reshape(*[-1 if k == d else 1 for k in range(x.ndim)]).expand(*want)
    return scatter_reduce(x, d, at, source, reduce, include_self=include_self)
