"""Elements taken from places and put at places."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.onnx.operators.common import as_tensor, axis_of, moves_texts
from rushlight.core.onnx.registry import Call, operator


def _from_end(index: Any, size: int) -> Any:
    """Indices as int64; negative ones count from the end of a dim."""
    return rl.where(index < 0, index + size, index).to("int64")


@operator("Gather", known=(1,), stored=(0,))
@moves_texts
def gather(call: Call, x: Any, index: Any) -> Any:
    """Slices of a dim at indices of any shape."""
    axis = axis_of(call, call.int("axis", 0), x.ndim)
    size = x.shape[axis]
    if isinstance(index, np.ndarray):
        places = index.reshape(-1).astype(np.int64)
        if ((places < -size) | (places >= size)).any():
            raise call.fail(f"an index is out of range for dim {axis} of {tuple(x.shape)}")
        places = np.where(places < 0, places + size, places)
        steady = bool((np.diff(places) == 1).all())
        if places.size and steady:
            taken = x.narrow(axis, int(places[0]), places.size)
        else:
            taken = rl.index_select(x, axis, as_tensor(places, x.device))
    else:
        taken = rl.index_select(x, axis, _from_end(index, size).reshape(-1))
    return taken.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


@operator("GatherElements")
@moves_texts
def gather_elements(call: Call, x: Any, index: Any) -> Any:
    """For each index the element at that place of a dim."""
    axis = axis_of(call, call.int("axis", 0), x.ndim)
    return rl.gather(x, axis, _from_end(index, x.shape[axis]))


def _flat_places(index: Any, sizes: Any) -> Any:
    """The flat place that each row of indices, one for each of `sizes`, says."""
    flat = None
    for i, n in enumerate(sizes):
        place = _from_end(index[..., i], n)
        flat = place if flat is None else flat * n + place
    return rl.zeros(index.shape[:-1], dtype="int64", device=index.device) if flat is None else flat


@operator("GatherND")
@moves_texts
def gather_nd(call: Call, x: Any, index: Any) -> Any:
    """Slices at rows of indices into the first dims, or the first after `batch_dims`."""
    batch, count = call.int("batch_dims", 0), index.shape[-1]
    sizes, rest = x.shape[batch : batch + count], x.shape[batch + count :]
    outer, block = prod(x.shape[:batch]), prod(sizes)
    places = _flat_places(index, sizes).reshape(outer, prod(index.shape[batch:-1]))
    if batch:
        places = places + rl.arange(outer, device=x.device).reshape(-1, 1) * block
    taken = rl.index_select(x.reshape(outer * block, prod(rest)), 0, places.reshape(-1))
    return taken.reshape(*index.shape[:-1], *rest)


_WAYS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def scatter_elements(call: Call, x: Any, index: Any, updates: Any) -> Any:
    """A copy where updates stand at, or are combined with what is at, places of a dim."""
    axis = axis_of(call, call.int("axis", 0), x.ndim)
    way = call.choice("reduction", "none", "none", *_WAYS)
    places = _from_end(index, x.shape[axis])
    if not places.numel():
        return x
    if way == "none":
        return rl.scatter(x, axis, places, updates)
    return rl.scatter_reduce(x, axis, places, updates, _WAYS[way])


@operator("ScatterND")
def scatter_nd(call: Call, x: Any, index: Any, updates: Any) -> Any:
    """A copy where slices stand at, or are combined with, those at rows of indices."""
    way = call.choice("reduction", "none", "none", *_WAYS)
    count = index.shape[-1]
    sizes, rest = x.shape[:count], x.shape[count:]
    if not index.numel() and count or not updates.numel():
        return x
    places = _flat_places(index, sizes).reshape(-1)
    flat = x.reshape(prod(sizes), prod(rest))
    rows = updates.reshape(places.numel(), prod(rest))
    if way == "none":
        out = rl.index_copy(flat, 0, places, rows)
    elif way == "add":
        out = rl.index_add(flat, 0, places, rows)
    else:
        out = rl.index_reduce(flat, 0, places, rows, _WAYS[way])
    return out.reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(call: Call, cache: Any, update: Any, write: Any = None) -> Any:
    """A cache with new elements from each row's place on; `circular` goes on at the start."""
    axis = axis_of(call, call.int("axis", -2), cache.ndim)
    circular = call.choice("mode", "linear", "linear", "circular") == "circular"
    size, length = cache.shape[axis], update.shape[axis]
    place = rl.arange(length, device=cache.device)
    place = place.reshape([-1 if d == axis else 1 for d in range(cache.ndim)])
    if write is not None:
        place = place + write.to("int64").reshape(-1, *[1] * (cache.ndim - 1))
    if circular:
        place = rl.remainder(place, size)
    return rl.scatter(cache, axis, place.expand(*update.shape), update)
