"""as_strided: a view of a tensor's memory by sizes, steps and an offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import Layout, Shape, check_elements
from rushlight.core.ops.creation import arange, full
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.indexing import INDEX_ADD, INDEX_SELECT
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer(x: Meta, *, shape: Shape, strides: Shape, offset: int) -> Meta:
    return Meta(x.dtype, Layout(shape, strides, offset))


def places(like: Tensor, layout: Layout) -> Tensor:
    """The position in memory of each element of a layout, int64, flat."""
    result = full(
        (1,) * max(len(layout.shape), 1), layout.offset, dtype="int64", device=like.device
    )
    for d, (n, step) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        shape = [1] * len(layout.shape)
        shape[d] = n
        result = result + (arange(n, device=like.device) * step).reshape(*shape)
    return result.reshape(layout.numel)


def _grad(c: Context, g: Tensor) -> Tensor:
    x = c.inputs[0]
    assert x is not None
    span = max(x.layout.extent[1], c.out.layout.extent[1], 1)
    zeros = full((span,), 0, dtype=g.dtype, device=g.device)
    memory = INDEX_ADD(zeros, places(g, c.out.layout), g.reshape(g.numel()), dim=0)
    positions = places(g, x.layout)
    if x.layout.repeats:  # elements that share memory share its gradient
        ones = full(positions.shape, 1, dtype=g.dtype, device=g.device)
        memory = memory / INDEX_ADD(zeros, positions, ones, dim=0).clamp(min=1)
    return INDEX_SELECT(memory, positions, dim=0).reshape(*x.shape)


AS_STRIDED = Op("as_strided", infer=_infer, grads=(rule(_grad),), view=True, complex=True)


@public
@method()
def as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of x's memory: element (i, j) lies at storage_offset + i * stride[0] + j * stride[1].

    ValueError for a negative number, and for elements outside the memory.

    `size` and `stride` are of one length.
    """
    offset = x.layout.offset if storage_offset is None else storage_offset
    shape, steps = tuple(size), tuple(stride)
    if len(shape) != len(steps) or min((*shape, *steps, offset), default=0) < 0:
        raise ShapeError(
            f"as_strided: size {shape}, stride {steps}, storage_offset {offset}; "
            "they must be as many numbers each, none negative"
        )
    check_elements(shape)
    layout = Layout(shape, steps, offset)
    room = x.storage.nbytes // x.dtype.itemsize
    if layout.numel and layout.extent[1] > room:
        raise ShapeError(
            f"as_strided: size {shape}, stride {steps} and storage_offset {offset} reach element "
            f"{layout.extent[1] - 1} of memory of {room}"
        )
    return AS_STRIDED(x, shape=shape, strides=steps, offset=offset)
