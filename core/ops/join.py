"""Ops that join tensors: cat, stack, and roll, which joins two parts of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.dtype import result_type
from rushlight.core.layout import as_shape, normalize_dim
from rushlight.core.op import Context, Meta, Op, rule
from rushlight.core.ops.movement import narrow, shape_of, unsqueeze

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


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


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along `dim`; the other sizes must agree; promoted dtype."""
    if not tensors:
        raise ValueError("cat: no tensors to join")
    # torch lets an empty 1-d tensor stand for nothing at all.
    kept = [x for x in tensors if x.shape != (0,)] or list(tensors[:1])
    d = normalize_dim("cat", dim, kept[0].shape)
    for x in kept[1:]:
        same = [n for i, n in enumerate(x.shape) if i != d]
        if x.ndim != kept[0].ndim or same != [n for i, n in enumerate(kept[0].shape) if i != d]:
            raise ValueError(
                f"cat: shapes {kept[0].shape} and {x.shape} differ in a dim other than {dim}"
            )
    if kept[0].ndim == 0:
        raise ValueError("cat: 0-d tensors cannot be joined; use stack")
    dtype = result_type(*((x.dtype, 2) for x in kept))
    return CAT(*(x.to(dtype) for x in kept), dim=d)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dim at `dim`."""
    if not tensors:
        raise ValueError("stack: no tensors to join")
    for x in tensors[1:]:
        if x.shape != tensors[0].shape:
            raise ValueError(f"stack: shapes {tensors[0].shape} and {x.shape} differ")
    d = normalize_dim("stack", dim, tensors[0].shape, extra=1)
    return cat([unsqueeze(x, d) for x in tensors], d)


def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """A copy with the elements moved `shifts` places along `dims`, the last coming round again.

    One shift for each dim; without `dims` the tensor is rolled as if it were flat.
    """
    if dims is None:
        return roll(x.reshape(-1), shifts, 0).reshape(*x.shape)
    moves, along = as_shape("roll", (shifts,)), as_shape("roll", (dims,))
    if len(moves) != len(along):
        raise ValueError(f"roll: shifts {moves} and dims {along} are not as many")
    for shift, dim in zip(moves, along, strict=True):
        d = normalize_dim("roll", dim, x.shape)
        n = x.shape[d]
        k = shift % n if n else 0
        x = cat([narrow(x, d, n - k, k), narrow(x, d, 0, n - k)], d)
    return x
