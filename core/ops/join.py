"""Joining tensors along a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import result_type
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.declare import public
from rushlight.core.ops.movement import narrow, shape_of
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_cat(*xs: Meta, dim: int) -> Meta:
    shape = list(xs[0].shape)
    shape[dim] = sum(x.shape[dim] for x in xs)
    return xs[0].fresh(shape)


def _cat_grad(c: Context, g: Tensor) -> tuple[Tensor | None, ...]:
    d, start, out = c.attrs["dim"], 0, []
    for i, needed in enumerate(c.needs):
        length = shape_of(c, i)[d]
        out.append(narrow(g, d, start, length) if needed else None)
        start += length
    return tuple(out)


CAT = Op("cat", infer=_infer_cat, joint=rule(_cat_grad))


@public
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along `dim`; the other sizes must agree; promoted dtype."""
    if isinstance(tensors, Meta) or not isinstance(dim, int):
        raise TypeError("cat: takes a list or tuple of tensors and a dim: cat([a, b], dim)")
    if not tensors:
        raise ShapeError("cat: no tensors to join")
    # As in torch, an empty 1-d tensor is ignored.
    kept = [x for x in tensors if x.shape != (0,)] or list(tensors[:1])
    d = normalize_dim("cat", dim, kept[0].shape)
    for x in kept[1:]:
        same = [n for i, n in enumerate(x.shape) if i != d]
        if x.ndim != kept[0].ndim or same != [n for i, n in enumerate(kept[0].shape) if i != d]:
            raise ShapeError(
                f"cat: shapes {kept[0].shape} and {x.shape} differ in a dim other than {dim}"
            )
    if kept[0].ndim == 0:
        raise ShapeError("cat: 0-d tensors cannot be joined; use stack")
    dtype = result_type(*((x.dtype, 2) for x in kept))
    return CAT(*(x.to(dtype) for x in kept), dim=d)
