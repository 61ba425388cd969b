"""Operators that move elements or tell of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.interpreter import Value
from rushlight.core.onnx.operators.common import (
    as_matrix,
    axes_of,
    axis_of,
    host_array,
    is_text,
    moves_texts,
)
from rushlight.core.onnx.registry import Call, as_ints, operator
from rushlight.core.ops.movement import slices


@operator("Identity", raw=True)
def identity(call: Call, x: Value) -> Any:
    """The input, of whatever kind it is."""
    return x


@operator("Shape", stored=(0,))
def shape(call: Call, x: Any) -> Any:
    """The sizes from `start` to `end`."""
    sizes = list(x.shape)[slice(call.int("start", 0), call.int("end", None))]
    return np.array(sizes, np.int64)


@operator("Size", stored=(0,))
def size(call: Call, x: Any) -> Any:
    """The number of elements."""
    return np.array(prod(x.shape), np.int64)


@operator("Reshape", host=(1,), stored=(0,))
@moves_texts
def reshape(call: Call, x: Any, sizes: Any = None) -> Any:
    """The elements in another shape; 0 keeps a size unless `allowzero`, -1 is what remains."""
    wanted: Any = call.ints("shape") if sizes is None else as_ints(sizes)
    if not call.flag("allowzero"):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    if -1 in wanted and 0 in wanted:
        rest = prod(n for n in wanted if n != -1)
        wanted = [0 if n == -1 and rest == 0 else n for n in wanted]
    return x.reshape(tuple(wanted))


@operator("Transpose", stored=(0,))
@moves_texts
def transpose(call: Call, x: Any) -> Any:
    """Dims in the order of `perm`, else reversed."""
    perm = call.ints("perm", None)
    return x.permute(*(perm if perm is not None else range(x.ndim)[::-1])) if x.ndim else x


@operator("Flatten", stored=(0,))
@moves_texts
def flatten(call: Call, x: Any) -> Any:
    """A matrix: the dims before `axis`, and those from it on."""
    axis = call.int("axis", 1)
    return as_matrix(x, axis + x.ndim if axis < 0 else axis)


@operator("Squeeze", host=(1,), stored=(0,))
@moves_texts
def squeeze(call: Call, x: Any, dim: Any = None) -> Any:
    """The dims of size one that the second input names, or all of them, taken away."""
    chosen = as_ints(dim) if dim is not None else call.ints("axes", None)
    if chosen is None:
        gone = [d for d, n in enumerate(x.shape) if n == 1]
    else:
        gone = axes_of(call, chosen, x.ndim)
    for d in gone:
        if x.shape[d] != 1:
            raise call.fail(f"dim {d} of {tuple(x.shape)} is not of size 1")
    return x.reshape([n for d, n in enumerate(x.shape) if d not in gone])


@operator("Unsqueeze", host=(1,), stored=(0,))
@moves_texts
def unsqueeze(call: Call, x: Any, dim: Any = None) -> Any:
    """New dims of size one at `axes` of the result."""
    chosen: Any = as_ints(dim) if dim is not None else call.ints("axes")
    rank = x.ndim + len(chosen)
    new = axes_of(call, chosen, rank)
    if len(set(new)) < len(new):
        raise call.fail(f"the axes {chosen} repeat")
    sizes = iter(x.shape)
    return x.reshape([1 if d in new else next(sizes) for d in range(rank)])


@operator("Expand", host=(1,))
@moves_texts
def expand(call: Call, x: Any, sizes: Any) -> Any:
    """The elements repeated to a shape; both are broadcast."""
    wanted = as_ints(sizes) or []
    return x.expand(*broadcast_shapes("Expand", tuple(x.shape), tuple(wanted)))


@operator("Tile", host=(1,))
@moves_texts
def tile(call: Call, x: Any, repeats: Any) -> Any:
    """The elements repeated along every dim."""
    return x.repeat(*(as_ints(repeats) or []))


@operator("Concat")
def concat(call: Call, *inputs: Any) -> Any:
    """The inputs one after another along a dim."""
    axis = axis_of(call, call.int("axis"), len(inputs[0].shape))
    if any(is_text(x) for x in inputs):
        return np.concatenate([host_array(call, x) for x in inputs], axis)
    return rl.cat(list(inputs), axis) if len(inputs) > 1 else inputs[0]


@operator("Split", host=(1,))
@moves_texts
def split(call: Call, x: Any, sizes: Any = None) -> Any:
    """Pieces along a dim: of the sizes that are said, or as equal as they can be."""
    axis = axis_of(call, call.int("axis", 0), x.ndim)
    lengths = as_ints(sizes) if sizes is not None else call.ints("split", None)
    count = call.int("num_outputs", len(call.wanted))
    if lengths is None:
        if not 0 < count <= 1 << 16:
            raise call.fail(f"num_outputs={count}; it must be 1 to {1 << 16}")
        each = -(-x.shape[axis] // count)
        starts = [min(i * each, x.shape[axis]) for i in range(count + 1)]
        lengths = [b - a for a, b in zip(starts, starts[1:], strict=False)]
    if sum(lengths) != x.shape[axis]:
        raise call.fail(f"the sizes {lengths} are not those of dim {axis} of {tuple(x.shape)}")
    pieces, start = [], 0
    for length in lengths:
        pieces.append(x.narrow(axis, start, length))
        start += length
    return pieces


@operator("Slice", host=(1, 2, 3, 4), stored=(0,))
@moves_texts
def take_slice(
    call: Call, x: Any, starts: Any = None, ends: Any = None, dim: Any = None, steps: Any = None
) -> Any:
    """The elements from starts to ends in steps, backwards where a step is negative."""
    if starts is None:
        first, last = call.ints("starts"), call.ints("ends")
        chosen = call.ints("axes", None)
    else:
        first, last, chosen = as_ints(starts), as_ints(ends), as_ints(dim)
    strides = as_ints(steps) or [1] * len(first)
    dims = axes_of(call, chosen if chosen is not None else range(len(first)), x.ndim)
    ranges: list[tuple[int, int, int]] = [(0, n, 1) for n in x.shape]
    backwards = []
    for d, a, b, step in zip(dims, first, last, strides, strict=True):
        if step == 0:
            raise call.fail("a step is 0")
        covered = range(*slice(a, b, step).indices(x.shape[d]))
        if step < 0:
            backwards.append(d)
            covered = covered[::-1]
        if len(covered) > 0:
            ranges[d] = covered[0], covered[-1] + 1, covered.step
        else:
            ranges[d] = 0, 0, 1
    if any(r != (0, n, 1) for r, n in zip(ranges, x.shape, strict=True)):
        x = slices(x, tuple(ranges))
    return rl.flip(x, *backwards) if backwards else x


@operator("Pad", host=(1, 2, 3))
@moves_texts
def pad(call: Call, x: Any, pads: Any = None, value: Any = None, dim: Any = None) -> Any:
    """Elements added around the edges: a constant, mirrored, the last, or those across."""
    mode = call.choice("mode", "constant", "constant", "reflect", "edge", "wrap")
    widths: Any = as_ints(pads) if pads is not None else call.ints("pads")
    if pads is None:
        filling = call.float("value", 0.0)
    else:
        filling = 0 if value is None else np.asarray(value).reshape(-1)[0].item()
    rank = x.ndim
    chosen = as_ints(dim)
    dims = axes_of(call, chosen if chosen is not None else range(rank), rank)
    if len(widths) != 2 * len(dims):
        raise call.fail(f"there are {len(widths)} pads for {len(dims)} dims")
    before, after = [0] * rank, [0] * rank
    for i, d in enumerate(dims):
        before[d], after[d] = widths[i], widths[len(dims) + i]
    if mode == "constant":
        pairs = [w for d in reversed(range(rank)) for w in (before[d], after[d])]
        return rl.pad(x, pairs, value=filling) if any(pairs) else x
    for d in range(rank):
        x = _padded(call, x, d, before[d], after[d], mode)
    return x


def _padded(call: Call, x: Any, d: int, before: int, after: int, mode: str) -> Any:
    """One dim padded with elements of its own."""
    if before < 0 or after < 0:
        cut = max(-before, 0), max(-after, 0)
        x = x.narrow(d, cut[0], x.shape[d] - cut[0] - cut[1])
        before, after = max(before, 0), max(after, 0)
    if not before and not after:
        return x
    n = x.shape[d]
    if not n:
        raise call.fail(f"dim {d} has no element to pad with")
    place = rl.arange(-before, n + after, device=x.device)
    if mode == "edge" or n == 1:
        place = rl.clamp(place, 0, n - 1)
    elif mode == "wrap":
        place = rl.remainder(place, n)
    else:
        there = rl.remainder(place, 2 * n - 2)
        place = rl.minimum(there, 2 * n - 2 - there)
    return rl.index_select(x, d, place)


@operator("DepthToSpace")
@moves_texts
def depth_to_space(call: Call, x: Any) -> Any:
    """Blocks of channels laid out as squares of pixels."""
    block, mode = call.int("blocksize"), call.choice("mode", "DCR", "DCR", "CRD")
    n, c, h, w = x.shape
    rest = c // (block * block)
    if mode == "DCR":
        split = x.reshape(n, block, block, rest, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        split = x.reshape(n, rest, block, block, h, w).permute(0, 1, 4, 2, 5, 3)
    return split.reshape(n, rest, h * block, w * block)


@operator("SpaceToDepth")
@moves_texts
def space_to_depth(call: Call, x: Any) -> Any:
    """Squares of pixels laid out as blocks of channels."""
    block, mode = call.int("blocksize"), call.choice("mode", "DCR", "DCR", "CRD")
    n, c, h, w = x.shape
    split = x.reshape(n, c, h // block, block, w // block, block)
    order: Sequence[int] = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return split.permute(*order).reshape(n, c * block * block, h // block, w // block)


@operator("ReverseSequence")
@moves_texts
def reverse_sequence(call: Call, x: Any, lengths: Any) -> Any:
    """The first elements along `time_axis` in reverse, as many as each row of the batch says."""
    time = axis_of(call, call.int("time_axis", 0), x.ndim)
    batch = axis_of(call, call.int("batch_axis", 1), x.ndim)
    rows = lengths.to("int64").reshape([-1 if d == batch else 1 for d in range(x.ndim)])
    place = rl.arange(x.shape[time], device=x.device)
    place = place.reshape([-1 if d == time else 1 for d in range(x.ndim)])
    index = rl.where(place < rows, rows - 1 - place, place)
    return rl.gather(x, time, index.expand(*x.shape))
