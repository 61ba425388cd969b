"""Gather, scatter, selection by index, and `x[...]` with its assignment.

An index out of range raises IndexError that names the op, the index and the size. Negative
indices count from the end where torch allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.dtype import bool_, int64
from rushlight.core.layout import Shape, broadcast_shapes, normalize_dim
from rushlight.core.op import Context, Meta, Op, rule
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.creation import arange, full
from rushlight.core.ops.movement import Ranges, shape_of, slices

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def _zeros(g: Tensor, shape: Shape) -> Tensor:
    return full(shape, 0, dtype=g.dtype, device=g.device)


def _infer_gather(x: Meta, index: Meta, *, dim: int) -> Meta:
    return x.fresh(index.shape)


def _infer_first(x: Meta, *others: Meta, **attrs: Any) -> Meta:
    return x.fresh()


def _infer_select(x: Meta, index: Meta, *, dim: int) -> Meta:
    return x.fresh((*x.shape[:dim], index.shape[0], *x.shape[dim + 1 :]))


def _infer_embedding(weight: Meta, index: Meta) -> Meta:
    return weight.fresh((*index.shape, weight.shape[1]))


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


GATHER = Op("gather", infer=_infer_gather, grads=(rule(_gather_grad, 1),))
SCATTER = Op("scatter", infer=_infer_first,
             grads=(rule(_scatter_rest, 1), None, rule(_pick_grad, 1)))  # fmt: skip
SCATTER_ADD = Op("scatter_add", infer=_infer_first,
                 grads=(rule(lambda c, g: g), None, rule(_pick_grad, 1)))  # fmt: skip
INDEX_SELECT = Op("index_select", infer=_infer_select, grads=(rule(_select_grad, 1),))
INDEX_ADD = Op(
    "index_add", infer=_infer_first,
    grads=(rule(lambda c, g: g), None,
           rule(lambda c, g, i: INDEX_SELECT(g, i, dim=c.attrs["dim"]), 1)),
)  # fmt: skip
EMBEDDING = Op("embedding", infer=_infer_embedding, grads=(rule(_embedding_grad, 1),))


def _infer_ravel(*index: Meta, sizes: Shape) -> Meta:
    return index[0].fresh(dtype=int64)


# Indices of several dims made one index into those dims laid flat, each checked on its own.
RAVEL_INDEX = Op("ravel_index", infer=_infer_ravel, differentiable=False)


def _integers(name: str, index: Tensor) -> Tensor:
    if index.dtype.kind not in "ui":
        raise TypeError(f"{name}: index is {index.dtype.name}; it must be an integer dtype")
    return index


def _fits(name: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None) -> int:
    d = normalize_dim(name, dim, x.shape)
    _integers(name, index)
    bad = index.ndim != x.ndim or any(
        i > n for k, (i, n) in enumerate(zip(index.shape, x.shape, strict=True)) if k != d
    )
    if bad:
        raise ValueError(f"{name}: index {index.shape} does not fit {x.shape} outside dim {dim}")
    if src is not None and (
        src.ndim != x.ndim or any(i > s for i, s in zip(index.shape, src.shape, strict=True))
    ):
        raise ValueError(f"{name}: index {index.shape} is larger than the source {src.shape}")
    return d


def _front(x: Tensor, shape: Shape) -> Tensor:
    return slices(x, tuple((0, n, 1) for n in shape))


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for dim 0, and so on; the shape of `index`."""
    return GATHER(x, index, dim=_fits("gather", x, dim, index, None))


def scatter(x: Tensor, dim: int, index: Tensor, src: TensorLike) -> Tensor:
    """A copy of `x` with out[index[i][j]][j] = src[i][j] for dim 0, and so on.

    Where an index stands twice, the last one wins on cpu. `src` may be a number.
    """
    if not is_tensor(src):
        src = full(index.shape, src, dtype=x.dtype, device=x.device)  # type: ignore[arg-type]
    source: Tensor = src  # type: ignore[assignment]
    d = _fits("scatter", x, dim, index, source)
    return SCATTER(x, index, _front(source, index.shape).to(x.dtype), dim=d)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of `x` with src[i][j] added at out[index[i][j]][j] for dim 0, and so on."""
    d = _fits("scatter_add", x, dim, index, src)
    return SCATTER_ADD(x, index, _front(src, index.shape).to(x.dtype), dim=d)


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements of `dim` that `index` (1-d integers) names, in its order."""
    d = normalize_dim("index_select", dim, x.shape)
    if _integers("index_select", index).ndim != 1 or x.ndim == 0:
        raise ValueError(f"index_select: index {index.shape} must be 1-d, x {x.shape} not 0-d")
    return INDEX_SELECT(x, index, dim=d)


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of `x` with element k of `source` along `dim` added to element index[k]."""
    d = normalize_dim("index_add", dim, x.shape)
    want = (*x.shape[:d], index.numel(), *x.shape[d + 1 :])
    if _integers("index_add", index).ndim != 1 or source.shape != want:
        raise ValueError(f"index_add: source is {source.shape}; it must be {want}")
    return INDEX_ADD(x, index, source.to(x.dtype), dim=d)


def embedding(weight: Tensor, index: Tensor) -> Tensor:
    """Rows of `weight` (rows, width) that `index` (integers, any shape) names: (*index, width)."""
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight is {weight.shape}; it must be (rows, width)")
    return EMBEDDING(weight, _integers("embedding", index))


def nonzero(x: Tensor) -> Tensor:
    """Indices (count, ndim), int64, of the elements that are not zero, in row-major order.

    The shape depends on the values, so this reads them.
    """
    return x.from_host(np.argwhere(x.detach().host_values()))


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of `x` where `mask` (bool, broadcast with x) holds: a 1-d tensor."""
    shape = broadcast_shapes("masked_select", x.shape, mask.shape)
    return getitem(x.expand(*shape), mask.expand(*shape))


def _basic(x: Tensor, items: list[Any]) -> tuple[Ranges, list[int], list[tuple[int, Tensor]]]:
    """Ranges of every dim, the shape after them, and the tensors with the dim each stands at."""
    ranges: list[tuple[int, int, int]] = []
    shape: list[int] = []
    tensors: list[tuple[int, Tensor]] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        d = len(ranges)
        size = x.shape[d]
        if isinstance(item, slice):
            step = 1 if item.step is None else item.step
            if step <= 0:
                raise ValueError(f"index: step {step} is not positive; use flip to go backwards")
            start, stop, step = item.indices(size)
            ranges.append((start, max(start, stop), step))
            shape.append(len(range(start, stop, step)))
        elif is_tensor(item):
            tensors.append((len(shape), item))
            ranges.append((0, size, 1))
            shape.append(size)
        else:
            if not -size <= item < size:
                raise IndexError(f"index {item} is out of range for dim {d} of shape {x.shape}")
            ranges.append((item % size, item % size + 1, 1))
    return tuple(ranges), shape, tensors


def _items(x: Tensor, key: Any) -> list[Any]:
    """The parts of an index: masks as integer tensors, lists as tensors, Ellipsis filled in."""
    items: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, bool):
            raise TypeError("index: a bool indexes nothing; use a bool tensor, or None")
        if isinstance(part, list):
            part = x.from_host(part)
        if is_tensor(part) and part.dtype is bool_:
            found = nonzero(part)
            start = sum(_dims_of(i) for i in items)
            if Ellipsis not in [i for i in items if not is_tensor(i)]:
                have = x.shape[start : start + part.ndim]
                if part.shape != have:
                    raise IndexError(f"index: mask is {part.shape}, the dims it meets are {have}")
            items.extend(found.unbind(1))
        elif is_tensor(part) and part.dtype.kind in "ui" and part.ndim == 0:
            items.append(part)
        elif part is None or part is Ellipsis or isinstance(part, (int, slice)):
            items.append(part)
        elif is_tensor(part) and part.dtype.kind in "ui":
            items.append(part)
        elif hasattr(part, "__index__"):
            items.append(part.__index__())
        else:
            raise TypeError(
                f"index: {part!r} is no index; use ints, slices, None, ..., or tensors of "
                "integers or booleans"
            )
    dots = [k for k, i in enumerate(items) if i is Ellipsis]
    used = sum(_dims_of(i) for i in items)
    if len(dots) > 1 or used > x.ndim:
        raise IndexError(f"index: {key!r} names more dims than shape {x.shape} has")
    at = dots[0] if dots else len(items)
    return items[:at] + [slice(None)] * (x.ndim - used) + items[at + len(dots) :]


def _dims_of(item: Any) -> int:
    return 0 if item is None or item is Ellipsis else 1


class _Advanced:
    """Integer tensors at some dims of a tensor: as one flat index over those dims."""

    def __init__(self, x: Tensor, tensors: list[tuple[int, Tensor]]) -> None:
        self.dims = [d for d, _ in tensors]
        self.shape = broadcast_shapes("index", *(t.shape for _, t in tensors))
        sizes = tuple(x.shape[d] for d in self.dims)
        index = [t.to(int64).expand(*self.shape) for _, t in tensors]
        self.flat = RAVEL_INDEX(*index, sizes=sizes)
        adjacent = self.dims == list(range(self.dims[0], self.dims[0] + len(self.dims)))
        self.place = self.dims[0] if adjacent else 0
        self.rest = [d for d in range(x.ndim) if d not in self.dims]

    def take(self, x: Tensor) -> Tensor:
        moved = x.permute(*self.dims, *self.rest)
        others = moved.shape[len(self.dims) :]
        count = 1
        for d in self.dims:
            count *= x.shape[d]
        rows = INDEX_SELECT(
            moved.reshape(count, *others), self.flat.reshape(self.flat.numel()), dim=0
        )
        out = rows.reshape(*self.shape, *others)
        n, k = len(self.shape), self.place
        order = [*range(n, n + k), *range(n), *range(n + k, out.ndim)]
        return out.permute(*order)


def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]` as in torch: a view for ints, slices, None and Ellipsis; else a copy."""
    ranges, shape, tensors = _basic(x, _items(x, key))
    out = slices(x, ranges).reshape(*shape)
    return _Advanced(out, tensors).take(out) if tensors else out


def _infer_assign(x: Meta, value: Meta, *, ranges: Ranges, shape: Shape) -> Meta:
    return x.fresh()


def _assign_rest(c: Context, g: Tensor) -> Tensor:
    value = c.inputs[1]
    assert value is not None
    zero = full(value.shape, 0, dtype=g.dtype, device=g.device)
    return ASSIGN(g, zero, ranges=c.attrs["ranges"], shape=c.attrs["shape"])


def _assign_value(c: Context, g: Tensor) -> Tensor:
    return slices(g, c.attrs["ranges"]).reshape(*c.attrs["shape"])


def _infer_put(x: Meta, index: Meta, value: Meta) -> Meta:
    return x.fresh()


def _put_rest(c: Context, g: Tensor, index: Tensor) -> Tensor:
    return PUT(g, index, _zeros(g, index.shape))


def _put_value(c: Context, g: Tensor, index: Tensor) -> Tensor:
    flat = INDEX_SELECT(g.reshape(g.numel()), index.reshape(index.numel()), dim=0)
    return flat.reshape(*index.shape)


# x with a region, or with elements at flat positions, replaced; both are used in place.
ASSIGN = Op("assign", infer=_infer_assign, grads=(rule(_assign_rest), rule(_assign_value)))
PUT = Op("put", infer=_infer_put, grads=(rule(_put_rest, 1), None, rule(_put_value, 1)))


def setitem(x: Tensor, key: Any, value: TensorLike) -> None:
    """`x[key] = value`, in place; `value` is a number or a tensor that broadcasts."""
    if is_tensor(key) and key.dtype is bool_ and not is_tensor(value) and key.shape == x.shape:
        # No need to know where the mask is true, so nothing is read back.
        ASSIGN.inplace(x, where(key, value, x).to(x.dtype), **whole(x.shape))
        return
    ranges, shape, tensors = _basic(x, _items(x, key))
    if is_tensor(value):
        source: Tensor = value.to(x.dtype)  # type: ignore[union-attr]
    else:
        source = full((), value, dtype=x.dtype, device=x.device)  # type: ignore[arg-type]
    if tensors:
        # Positions are taken of the whole tensor, then narrowed as the basic part says.
        every = arange(x.numel(), device=x.device).reshape(*x.shape)
        view = slices(every, ranges).reshape(*shape)
        at = _Advanced(view, tensors).take(view)
        PUT.inplace(x, at.contiguous(), _expanded(source, at.shape))
    else:
        ASSIGN.inplace(x, _expanded(source, tuple(shape)), ranges=ranges, shape=tuple(shape))


def whole(shape: Shape) -> dict[str, Any]:
    """The attributes of an assignment to all of a tensor."""
    return {"ranges": tuple((0, n, 1) for n in shape), "shape": shape}


def _expanded(source: Tensor, shape: Shape) -> Tensor:
    lead = source.ndim - len(shape)
    if lead > 0 and all(n == 1 for n in source.shape[:lead]):
        source = source.reshape(*source.shape[lead:])
    try:
        return source.expand(*shape)
    except ValueError:
        raise ValueError(f"assignment: {source.shape} does not expand to {shape}") from None
