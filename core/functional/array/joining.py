"""Joining and splitting along dims, under NumPy's and torch's names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as _combinations
from itertools import combinations_with_replacement as _with_replacement
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.pieces import check_count, repeat, split, stack
from rushlight.core.functional.shapes import broadcast_tensors
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import also, method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import dim_of, narrow

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


also("concat", "concatenate", methods=False)(cat)


def _each(tensors: Any, least: Any) -> Any:
    one = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    made = tuple(least(t) for t in one)
    return made[0] if len(made) == 1 and one is tensors else made


@public
def atleast_1d(*tensors: Any) -> Any:
    """Views with at least one dim; several tensors give a tuple."""
    return _each(tensors, lambda x: x.reshape(1) if x.ndim == 0 else x)


@public
def atleast_2d(*tensors: Any) -> Any:
    """Views with at least two dims, new ones in front; several tensors give a tuple."""
    return _each(tensors, lambda x: x if x.ndim > 1 else x.reshape(1, x.numel()))


@public
def atleast_3d(*tensors: Any) -> Any:
    """Views with at least three dims: (n,) as (1, n, 1) and (n, m) as (n, m, 1)."""

    def least(x: Tensor) -> Tensor:
        if x.ndim < 2:
            return x.reshape(1, x.numel(), 1)
        return x.unsqueeze(2) if x.ndim == 2 else x

    return _each(tensors, least)


@public
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 1, along dim 0 if they are 1-d."""
    parts = atleast_1d(list(tensors))
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


@public
@also("row_stack", methods=False)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 0, with at least two dims."""
    return cat(atleast_2d(list(tensors)), 0)


@public
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors joined along dim 2, with at least three dims."""
    return cat(atleast_3d(list(tensors)), 2)


@public
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """1-d tensors as columns, joined with others along dim 1."""
    return cat([x.reshape(-1, 1) if x.ndim < 2 else x for x in tensors], 1)


@public
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the tensors, as matrices, along its diagonal."""
    parts = [x if x.ndim > 1 else x.reshape(1, x.numel()) for x in tensors]
    width = sum(x.shape[1] for x in parts)
    rows, at = [], 0
    for x in parts:
        n, m = x.shape
        rest: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
        rows.append(cat([zeros(n, at, **rest), x, zeros(n, width - at - m, **rest)], 1))
        at += m
    return cat(rows, 0)


@public
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of all points of a grid: a tensor per vector; "xy" exchanges the first two."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing is {indexing!r}; it must be "ij" or "xy"')
    swap = indexing == "xy" and len(given) > 1
    order = [1, 0, *range(2, len(given))] if swap else list(range(len(given)))
    shaped = []
    for i, x in enumerate(given):
        at = order[i]
        shaped.append(x.reshape(*[-1 if d == at else 1 for d in range(len(given))]))
    return broadcast_tensors(*shaped)


@public
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([x.reshape(-1) for x in meshgrid(*tensors)], 1)


@public
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, as rows."""
    ways = (_with_replacement if with_replacement else _combinations)(range(x.numel()), r)
    index = [list(way) for way in ways]
    if not index or not r:
        return x[:0].unsqueeze(1).expand(0, r) if r else x[:0]
    return x[of_data(index, dtype=int64, device=x.device)]


@public
@method()
def tile(x: Tensor, *dims: Any) -> Tensor:
    """`repeat` with leading ones added to `dims` where there are too few."""
    times = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return repeat(x, *[1] * (x.ndim - len(times)), *times)


@public
@method()
def tensor_split(x: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views: so many parts, the first ones larger by one, or parts that end at indices."""
    d = dim_of("tensor_split", dim, x)
    n = x.shape[d]
    if hasattr(indices_or_sections, "tolist"):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise ValueError(f"tensor_split: sections are {count}; there must be one at least")
        check_count("tensor_split", count)
        size, more = divmod(n, count)
        return split(x, [size + (i < more) for i in range(count)], d)
    ends = [*indices_or_sections, n]
    parts, start = [], 0
    for end in ends:
        low, high = (slice(start, end).indices(n))[:2]
        parts.append(narrow(x, d, low, max(0, high - low)))
        start = end
    return tuple(parts)


def _split(name: str, x: Tensor, sections: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    if x.ndim < least:
        raise ShapeError(f"{name}: x is {x.shape}; it must have at least {least} dims")
    if isinstance(sections, int) and (sections < 1 or x.shape[dim] % sections):
        raise ShapeError(f"{name}: {sections} parts do not divide {x.shape[dim]}")
    return tensor_split(x, sections, dim)


@public
@method()
def hsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 1, along dim 0 if x is 1-d."""
    return _split("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1, 1)


@public
@method()
def vsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 0."""
    return _split("vsplit", x, indices_or_sections, 0, 2)


@public
@method()
def dsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along dim 2."""
    return _split("dsplit", x, indices_or_sections, 2, 3)


@public
@method("split_with_sizes")
def split_with_sizes(x: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split` into parts of the sizes given."""
    return split(x, list(split_sizes), dim)
