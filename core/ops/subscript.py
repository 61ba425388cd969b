"""Indexing: `x[key]` and `x[key] = value` with torch's meaning of a key.

Ints, slices, None and Ellipsis give a view; integer tensors, boolean masks and lists give a copy.
Tensors and arrays of uint8 are masks, too.
Negative indices count from the end. An index out of range raises IndexError.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.dtype import bool_, int64, uint8
from rushlight.core.basis.errors import IndexTypeError, ShapeError
from rushlight.core.basis.layout import Shape, broadcast_shapes
from rushlight.core.jit import capture
from rushlight.core.ops.binary import masked_fill
from rushlight.core.ops.common import fitted, is_tensor, repeated
from rushlight.core.ops.creation import arange, full
from rushlight.core.ops.declare import method
from rushlight.core.ops.indexing import INDEX_SELECT, RAVEL_INDEX, nonzero, true_positions
from rushlight.core.ops.movement import INDEX, Key, Ranges, owned, slices
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Placed = list[tuple[int, "Tensor"]]  # integer tensors, each with the dim that it indexes


class _Lifted:
    """A 0-d mask: a new dim of size one that `index` selects once or not at all."""

    def __init__(self, mask: Tensor) -> None:
        self.index = nonzero(mask.reshape(1)).reshape(-1)


def _part(x: Tensor, item: Any) -> Any:
    """One part of a key as an int, a slice, None, Ellipsis or a tensor; bytes are a mask."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return full((), bool(item), dtype=bool_, device=x.device)
    if isinstance(item, np.ndarray) and item.dtype == np.uint8:
        item = item != 0
    if isinstance(item, (list, tuple, range, np.ndarray)):
        item = x.from_host(list(item) if isinstance(item, tuple) else item)
    if is_tensor(item):
        if item.dtype.kind not in "bui":
            raise TypeError(f"index: a {item.dtype.name} tensor is not an index; use .long()")
        return item.to(bool_) if item.dtype is uint8 else item
    if hasattr(item, "__index__"):
        return item.__index__()
    raise IndexTypeError(
        f"index: {item!r} is not an index; use ints, slices, None, ..., or tensors of integers or "
        "booleans"
    )


_MOST_PARTS = 31  # of a list that stands for a tuple, as in torch


def _parts(key: Any) -> tuple[Any, ...]:
    """The parts of a key. A short list that holds a sequence, slice or None is a tuple of parts."""
    if (
        isinstance(key, list)
        and len(key) <= _MOST_PARTS
        and any(
            p is None
            or p is Ellipsis
            or isinstance(p, (list, tuple, range, slice, np.ndarray))
            or is_tensor(p)
            for p in key
        )
    ):
        return tuple(key)
    return key if isinstance(key, tuple) else (key,)


def _dims_of(item: Any) -> int:
    """The number of dims that a part of a key indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if is_tensor(item) and item.dtype is bool_ else 1


def _items(x: Tensor, key: Any) -> list[Any]:
    """The parts of a key for every dim of `x`: Ellipsis expanded, masks as integer tensors."""
    parts_of_key = [_part(x, p) for p in _parts(key)]
    # A second Ellipsis stands for no dims.
    parts = [
        p
        for k, p in enumerate(parts_of_key)
        if p is not Ellipsis or Ellipsis not in parts_of_key[:k]
    ]
    dots = [k for k, p in enumerate(parts) if p is Ellipsis]
    used = sum(map(_dims_of, parts))
    if used > x.ndim:
        raise IndexError(f"index: {key!r} names more dims than shape {x.shape} has")
    place = dots[0] if dots else len(parts)
    items: list[Any] = []
    d = 0
    for p in parts[:place] + [slice(None)] * (x.ndim - used) + parts[place + len(dots) :]:
        n = _dims_of(p)
        if not (is_tensor(p) and p.dtype is bool_):
            items.append(p)
        elif p.ndim == 0:
            items.append(_Lifted(p))
        else:
            have = x.shape[d : d + n]
            if p.shape != have:
                raise IndexError(
                    f"index: mask is {p.shape}, but the dims that it indexes are {have}"
                )
            items.extend(nonzero(p).unbind(1))
        d += n
    return items


def _basic(x: Tensor, items: list[Any]) -> tuple[Ranges, list[int], Placed]:
    """Ranges of every dim, the shape after them, and the tensors with the dims they index."""
    ranges: list[tuple[int, int, int]] = []
    shape: list[int] = []
    tensors: Placed = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        if isinstance(item, _Lifted):
            tensors.append((len(shape), item.index))
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


def _taken(x: Tensor, tensors: Placed) -> Tensor:
    """The elements of `x` at the indices in integer tensors for some dims: always a copy.

    As in torch, a 0-d tensor among other tensors acts as an int: it is applied first and moves no
    dim.
    """
    single = [(d, t) for d, t in tensors if t.ndim == 0]
    if single and len(single) < len(tensors):
        x = _taken(x, single)
        gone = [d for d, _ in single]
        tensors = [(d - sum(g < d for g in gone), t) for d, t in tensors if t.ndim]
    dims = [d for d, _ in tensors]
    rest = [d for d in range(x.ndim) if d not in dims]
    shape = broadcast_shapes("index", *(t.shape for _, t in tensors))
    index = [t.to(int64).expand(*shape) for _, t in tensors]
    flat = RAVEL_INDEX(*index, sizes=tuple(x.shape[d] for d in dims))
    moved = x.permute(*dims, *rest)
    count, others = 1, moved.shape[len(dims) :]
    for d in dims:
        count *= x.shape[d]
    rows = INDEX_SELECT(moved.reshape(count, *others), flat.reshape(flat.numel()), dim=0)
    out = rows.reshape(*shape, *others)
    # The result's dims replace the tensors' dims if those are adjacent, else they come first.
    n, k = len(shape), dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    return owned(out.permute(*range(n, n + k), *range(n), *range(n + k, out.ndim)))


def _plain(shape: Shape, key: Any) -> Key | None:
    """A key of ints and slices in bounds, for every dim; None for any other."""
    items = key if type(key) is tuple else (key,)
    if len(items) > len(shape):
        return None
    plain: list[int | tuple[int, int, int]] = []
    for size, item in zip(shape, items, strict=False):
        if type(item) is int and -size <= item < size:
            plain.append(item % size)
        elif type(item) is slice and item.step is None:
            start, stop, _ = item.indices(size)
            plain.append((start, max(start, stop), 1))
        else:
            return None
    plain += [(0, n, 1) for n in shape[len(plain) :]]
    return tuple(plain)


def _masked(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of the leading dims of `x` where `mask` holds, along one dim."""
    n = mask.ndim
    have = x.shape[:n]
    if mask.shape != have:
        raise IndexError(f"index: mask is {mask.shape}, but the dims that it indexes are {have}")
    flat = x if n == 1 else x.reshape(mask.numel(), *x.shape[n:])
    return INDEX_SELECT(flat, true_positions(mask), dim=0)


@method("__getitem__")
def getitem(x: Tensor, key: Any) -> Tensor:
    """`x[key]` as in torch: a view for ints, slices, None and Ellipsis; else a copy."""
    if x.dtype.kind != "q":  # the common keys, without the work for the general one
        if is_tensor(key):
            if key.dtype is bool_ and 0 < key.ndim <= x.ndim:
                return _masked(x, key)
        elif (plain := _plain(x.layout.shape, key)) is not None:
            everything = all(k == (0, n, 1) for k, n in zip(plain, x.layout.shape, strict=True))
            if everything and not capture.follows_sizes():
                return x
            return INDEX(x, key=plain)
    ranges, shape, tensors = _basic(x, _items(x, key))
    out = slices(x, ranges).reshape(*shape)
    return _taken(out, tensors) if tensors else out


def _infer_assign(x: Meta, value: Meta, *, ranges: Ranges, shape: Shape) -> Meta:
    region = tuple(len(range(*r)) for r in ranges)
    if value.layout.shape != shape or math.prod(region) != math.prod(shape):
        raise ShapeError(f"assignment: {value.layout.shape} does not fit a region of {region}")
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
    return PUT(g, index, full(index.shape, 0, dtype=g.dtype, device=g.device))


def _put_value(c: Context, g: Tensor, index: Tensor) -> Tensor:
    flat = INDEX_SELECT(g.reshape(g.numel()), index.reshape(index.numel()), dim=0)
    return flat.reshape(*index.shape)


# x with a region replaced, and x with elements at flat positions replaced; both run in place.
ASSIGN = Op(
    "assign", infer=_infer_assign, grads=(rule(_assign_rest), rule(_assign_value)), complex=True
)
PUT = Op(
    "put", infer=_infer_put, grads=(rule(_put_rest, 1), None, rule(_put_value, 1)), complex=True
)


@method("__setitem__")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`, in place; `value` is a number or a tensor that broadcasts.

    If a key selects an element several times, the last value wins, and the gradients of the other
    values are not zeroed (as in torch).
    """
    plain = None if is_tensor(key) else _plain(x.layout.shape, key)
    if is_tensor(value):
        source: Tensor = value if value.dtype is x.dtype else value.to(x.dtype)
    elif plain is not None and x.dtype.kind == "f" and type(value) in (int, float):
        region = tuple([k[1] - k[0] for k in plain if not isinstance(k, int)])
        source = repeated(fitted("full", value, x.dtype), x.dtype, x.storage.device, region)
    elif isinstance(value, (bool, int, float, np.generic)) or (
        isinstance(value, complex) and x.dtype.kind == "c"
    ):
        source = full((), value, dtype=x.dtype, device=x.device)  # type: ignore[arg-type]
    else:
        raise TypeError(f"assignment: a {type(value).__name__}; use a number or rl.tensor(...)")
    if is_tensor(key) and key.dtype is bool_ and key.shape == x.shape and source.ndim == 0:
        # `where` needs no positions of the mask, so nothing is read back.
        ASSIGN.inplace(x, masked_fill(x, key, source), **whole(x.shape))
        return
    tensors: Placed = []
    if plain is None:
        ranges, shape, tensors = _basic(x, _items(x, key))
    else:
        ranges = tuple([(k, k + 1, 1) if isinstance(k, int) else k for k in plain])
        shape = [k[1] - k[0] for k in plain if not isinstance(k, int)]
    if source.storage is x.storage and not tensors and _is_part(source, x, ranges, tuple(shape)):
        return  # `x[key] *= 2` has written to that part already
    if tensors:
        # The positions of the whole tensor are indexed in the same way as x.
        every = arange(x.numel(), device=x.device).reshape(*x.shape)
        places = _taken(slices(every, ranges).reshape(*shape), tensors)
        PUT.inplace(x, places.contiguous(), _expanded(source, places.shape))
    else:
        ASSIGN.inplace(x, _expanded(source, tuple(shape)), ranges=ranges, shape=tuple(shape))


def _is_part(source: Tensor, x: Tensor, ranges: Ranges, shape: Shape) -> bool:
    """Whether `source` is that part of x, as `getitem` gives it."""
    if source.root is None or source.root is not x.root:
        return False
    with no_grad():
        return source.layout == slices(x, ranges).reshape(*shape).layout


@lru_cache(256)
def whole(shape: Shape) -> dict[str, Any]:
    """The attributes of an assignment to a whole tensor."""
    return {"ranges": tuple((0, n, 1) for n in shape), "shape": shape}


def _expanded(source: Tensor, shape: Shape) -> Tensor:
    if source.layout.shape == shape:
        return source
    lead = source.ndim - len(shape)
    if lead > 0 and all(n == 1 for n in source.shape[:lead]):
        source = source.reshape(*source.shape[lead:])
    try:
        return source.expand(*shape)
    except ValueError:
        raise ShapeError(f"assignment: {source.shape} does not expand to {shape}") from None
