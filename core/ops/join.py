"""Joining tensors along a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import result_type
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.declare import public
from rushlight.core.ops.movement import narrow, shape_of
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_cat(*xs: Meta, dim: int) -> Meta:
    shape = list(xs[0].layout.shape)
    shape[dim] = sum([x.layout.shape[dim] for x in xs])
    return xs[0].fresh(shape)


def _cat_grad(c: Context, g: Tensor) -> tuple[Tensor | None, ...]:
    d, start, out = c.attrs["dim"], 0, []
    for i, needed in enumerate(c.needs):
        length = shape_of(c, i)[d]
        out.append(narrow(g, d, start, length) if needed else None)
        start += length
    return tuple(out)


CAT = Op("cat", infer=_infer_cat, joint=rule(_cat_grad), complex=True, batch="dim")


@public
@casts("widest")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along `dim`; the other sizes must agree; promoted dtype.

    As in torch, an empty 1-d tensor adds nothing but its dtype.
    """
    if isinstance(tensors, Meta) or not isinstance(dim, int):
        raise TypeError("cat: takes a list or tuple of tensors and a dim: cat([a, b], dim)")
    if not tensors:
        raise ShapeError("cat: no tensors to join")
    filled = [x for x in tensors if x.layout.shape != (0,)] or list(tensors[:1])
    shape, dtype = filled[0].layout.shape, filled[0].dtype
    d = normalize_dim("cat", dim, shape)
    if not shape:
        raise ShapeError("cat: 0-d tensors cannot be joined; use stack")
    alike = True
    for x in filled:
        have = x.layout.shape
        if have != shape and (
            len(have) != len(shape) or have[:d] + have[d + 1 :] != shape[:d] + shape[d + 1 :]
        ):
            raise ShapeError(f"cat: shapes {shape} and {have} differ in a dim other than {dim}")
        alike = alike and x.dtype is dtype
    if len(filled) < len(tensors):
        alike = alike and all(x.dtype is dtype for x in tensors)
    if alike:
        return CAT(*filled, dim=d)
    dtype = result_type(*((x.dtype, 2) for x in tensors))
    return CAT(*(x.to(dtype) for x in filled), dim=d)
