"""What an op does to a batch: its operands and attributes with samples along a new dim 0.

A rule of PREPARED gives the same op's operands and attributes; one of REWRITTEN other ops' result.
`Op.batch` names the usual ones. Both get the number of samples, the operands, and which of these
hold samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.basis.layout import Layout
from rushlight.core.func.rules_products import REWRITTEN as _PRODUCTS
from rushlight.core.func.rules_products import shape_like, wide
from rushlight.core.ops.creation import arange
from rushlight.core.ops.indexing import EMBEDDING, GATHER, INDEX_ADD, INDEX_SELECT, SCATTER_ADD
from rushlight.core.ops.movement import VIEW
from rushlight.core.ops.norm import LAYER_NORM, RMS_NORM
from rushlight.core.tensor.op import Op
from rushlight.core.tensor.tensor import Tensor

__all__ = ["REWRITTEN", "prepared", "wide"]

Values = Sequence[Any]
Flags = Sequence[bool]
Attrs = dict[str, Any]
Prepared = tuple[list[Any], Attrs]


def _wide(size: int, values: Values, per_sample: Flags) -> list[Any]:
    return [
        None if v is None else wide(v, w, size) for v, w in zip(values, per_sample, strict=True)
    ]


def _same(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
    return _wide(size, values, per_sample), attrs


def _after(dims: Any) -> Any:
    """A dim or dims with one more in front."""
    if isinstance(dims, int):
        return dims + 1 if dims >= 0 else dims
    return tuple(map(_after, dims))


def _along(name: str) -> Callable[..., Prepared]:
    """The rule of an op whose attribute `name` says dims."""

    def rule(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
        return _wide(size, values, per_sample), attrs | {name: _after(attrs[name])}

    return rule


def _first(name: str, lead: Callable[[int], Any]) -> Callable[..., Prepared]:
    """The rule of an op whose attribute `name` has an entry for every dim."""

    def rule(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
        return _wide(size, values, per_sample), attrs | {name: (lead(size), *attrs[name])}

    return rule


def _permute(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
    return list(values), {"dims": (0, *_after(attrs["dims"]))}


def _expand(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
    (x,), shape = values, attrs["shape"]
    lead = len(shape) - (x.ndim - 1)
    if lead:
        x = VIEW(x, shape=(size, *[1] * lead, *x.shape[1:]))
    return [x], {"shape": (size, *shape)}


def _regions(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
    changed = {"ranges": ((0, size, 1), *attrs["ranges"]), "shape": (size, *attrs["shape"])}
    return _wide(size, values, per_sample), changed


def _put(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
    x, index, value = _wide(size, values, per_sample)
    lead = (arange(size, device=x.device) * (x.numel() // max(size, 1))).reshape(
        size, *[1] * (index.ndim - 1)
    )
    return [x, index + lead, value], attrs


def _as_strided(size: int, values: Values, per_sample: Flags, attrs: Attrs) -> Prepared:
    (x,) = values
    layout = x.layout
    low, high = Layout(layout.shape[1:], layout.strides[1:], layout.offset).extent
    first, last = Layout(attrs["shape"], attrs["strides"], attrs["offset"]).extent
    if first < low or last > high:
        raise RuntimeError("vmap: as_strided reaches beyond the memory of one sample")
    return list(values), {"shape": (size, *attrs["shape"]), "offset": attrs["offset"],
                          "strides": (layout.strides[0], *attrs["strides"])}  # fmt: skip


_WAYS = {"same": _same, "dim": _along("dim"), "dims": _along("dims")}  # see `Op`

PREPARED: dict[str, Callable[..., Prepared]] = {
    "permute": _permute,
    "expand": _expand,
    "view": _first("shape", lambda size: size),
    "slice": _first("ranges", lambda size: (0, size, 1)),
    "index": _first("key", lambda size: (0, size, 1)),
    "pad": _first("pads", lambda size: (0, 0)),
    "slice_backward": _regions,
    "assign": _regions,
    "put": _put,
    "as_strided": _as_strided,
}


def prepared(op: Op) -> Callable[..., Prepared] | None:
    """The rule that gives the same op's operands and attributes, if there is one."""
    return _WAYS.get(op.batch) or PREPARED.get(op.name)


def _norm(op: Any) -> Callable[..., Tensor]:
    """Layer norms: parameters that differ by sample are applied after the op."""

    def rule(size: int, values: Values, per_sample: Flags, *, eps: float) -> Tensor:
        x, *parts = values
        x = wide(x, per_sample[0], size)
        if not any(per_sample[1:]):
            return op(x, *parts, eps=eps)  # type: ignore[no-any-return]
        out = op(x, *[None] * len(parts), eps=eps)
        for factor, w, join in zip(parts, per_sample[1:], ("__mul__", "__add__"), strict=False):
            if factor is not None:
                out = getattr(out, join)(shape_like(factor, w, out.ndim))
        return out  # type: ignore[no-any-return]

    return rule


def _index_select(size: int, values: Values, per_sample: Flags, *, dim: int) -> Tensor:
    x, index = values
    if not per_sample[1]:
        return INDEX_SELECT(x, index, dim=dim + 1)
    x = wide(x, per_sample[0], size)
    return GATHER(x, _spread(index, x.shape, dim + 1), dim=dim + 1)


def _spread(index: Tensor, shape: Sequence[int], dim: int) -> Tensor:
    """Indices (size, n) along `dim` of `shape`, repeated along its other dims but the first."""
    n = index.shape[1]
    ones = [index.shape[0], *[1] * (len(shape) - 1)]
    ones[dim] = n
    full = list(shape)
    full[dim] = n
    return index.reshape(*ones).expand(*full)


def _index_add(size: int, values: Values, per_sample: Flags, *, dim: int) -> Tensor:
    x, index, source = values
    x, source = wide(x, per_sample[0], size), wide(source, per_sample[2], size)
    if not per_sample[1]:
        return INDEX_ADD(x, index, source, dim=dim + 1)
    return SCATTER_ADD(x, _spread(index, x.shape, dim + 1), source, dim=dim + 1)


def _embedding(size: int, values: Values, per_sample: Flags) -> Tensor:
    weight, index = values
    if not per_sample[0]:
        return EMBEDDING(weight, index)
    index = wide(index, per_sample[1], size)
    rows, width = weight.shape[1:]
    # Every sample has rows of its own.
    lead = (arange(size, device=index.device) * rows).reshape(size, *[1] * (index.ndim - 1))
    return EMBEDDING(weight.reshape(size * rows, width), index + lead)


REWRITTEN: dict[str, Callable[..., Tensor]] = {
    **_PRODUCTS,
    "layer_norm": _norm(LAYER_NORM),
    "rms_norm": _norm(RMS_NORM),
    "index_select": _index_select,
    "index_add": _index_add,
    "embedding": _embedding,
}
