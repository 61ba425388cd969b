"""Joining, stacking, splitting, repeating and tiling along dims; grids and combinations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from itertools import combinations as _combinations
from itertools import combinations_with_replacement as _with_replacement
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.shape import broadcast_tensors
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.creation import arange, sizes, zeros
from rushlight.core.ops.declare import also, method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import dim_of, expand, narrow, owned, reshape, squeeze, unsqueeze

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


also("concat", "concatenate", methods=False)(cat)


def _each(tensors: Any, least: Any) -> Any:
    inputs = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    result = tuple(least(t) for t in inputs)
    return result[0] if len(result) == 1 and inputs is tensors else result


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
    rows, start = [], 0
    for x in parts:
        n, m = x.shape
        rest: dict[str, Any] = {"dtype": x.dtype, "device": x.device}
        rows.append(cat([zeros(n, start, **rest), x, zeros(n, width - start - m, **rest)], 1))
        start += m
    return cat(rows, 0)


@public
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of all points of a grid: a tensor per vector; "xy" exchanges the first two."""
    inputs = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing is {indexing!r}; it must be "ij" or "xy"')
    swap = indexing == "xy" and len(inputs) > 1
    order = [1, 0, *range(2, len(inputs))] if swap else list(range(len(inputs)))
    shaped = []
    for i, x in enumerate(inputs):
        axis = order[i]
        shaped.append(x.reshape(*[-1 if d == axis else 1 for d in range(len(inputs))]))
    return broadcast_tensors(*shaped)


@public
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([x.reshape(-1) for x in meshgrid(*tensors)], 1)


@public
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, as rows.

    `x` is (n,); `with_replacement`: an element may come again. Raises ValueError for a negative r.
    """
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
    """Views: so many parts, the first ones larger by one, or parts that end at indices.

    `x` is cut along `dim` at `indices_or_sections`, an int, a list or a tensor. Raises IndexError
    for a dim that there is not, ValueError for less than one part.
    """
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
    """`split` into parts of the sizes given.

    `x` is cut along `dim`; `split_sizes` add up to its size, or ShapeError is raised.
    """
    return split(x, list(split_sizes), dim)


@public
@method()
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of `split_size` elements each along `dim` (or of the sizes given).

    `x` keeps its memory. Raises IndexError for a dim that there is not, ShapeError for sizes that
    do not add up.
    """
    d = dim_of("split", dim, x)
    if isinstance(split_size, int):
        if split_size <= 0:
            raise ShapeError(f"split: split_size is {split_size}; it must be positive")
        full, rest = divmod(x.shape[d], split_size)
        check_count("split", full)
        lengths = [split_size] * full + [rest] * bool(rest or not full)
    else:
        lengths = list(split_size)
        if sum(lengths) != x.shape[d]:
            raise ShapeError(f"split: sizes {lengths} do not add up to {x.shape[d]}")
    starts = [0, *accumulate(lengths)][:-1]
    return _several(narrow(x, d, s, n) for s, n in zip(starts, lengths, strict=True))


_MOST_VIEWS = 1 << 24


def check_count(name: str, count: int) -> None:
    """Raise ShapeError for more views than a tuple should hold."""
    if count > _MOST_VIEWS:
        raise ShapeError(f"{name}: {count} views are too many; at most {_MOST_VIEWS} are made")


def _several(views: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views that were made together; as in torch, no recorded write goes through one."""
    result = tuple(views)
    for view in result:
        view.chain = None
    return result


@public
@method()
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along `dim`; the last may be smaller.

    `x` keeps its memory. Raises IndexError for a dim that there is not, ValueError for less than
    one chunk.
    """
    if chunks <= 0:
        raise ValueError(f"chunk: chunks is {chunks}; it must be positive")
    d = dim_of("chunk", dim, x)
    return split(x, max(1, -(-x.shape[d] // chunks)), d)


@public
@method()
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of each element along `dim`, without that dim."""
    d = dim_of("unbind", dim, x)
    check_count("unbind", x.shape[d])
    return _several(squeeze(narrow(x, d, i, 1), d) for i in range(x.shape[d]))


@public
@casts("widest")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dim at `dim`."""
    if not tensors:
        raise ShapeError("stack: no tensors to join")
    shape = tensors[0].layout.shape
    for x in tensors:
        if x.layout.shape != shape:
            raise ShapeError(f"stack: shapes {shape} and {x.shape} differ")
    d = normalize_dim("stack", dim, shape, extra=1)
    if d == len(shape) or 0 in shape:
        return cat([unsqueeze(x, d) for x in tensors], d)
    return owned(cat(tensors, d).reshape(*shape[:d], len(tensors), *shape[d:]))


@public
@method()
def repeat(x: Tensor, *repeats: Any) -> Tensor:
    """The tensor tiled: `repeats` times along each dim; more repeats than dims add leading dims."""
    times = sizes("repeat", repeats)
    if len(times) < x.ndim:
        raise ShapeError(f"repeat: {times} has fewer numbers than the tensor's shape {x.shape}")
    shape = (1,) * (len(times) - x.ndim) + x.shape
    paired = [n for pair in zip([1] * len(shape), shape, strict=True) for n in pair]
    tiled = [n for pair in zip(times, shape, strict=True) for n in pair]
    out = expand(reshape(x, *paired), *tiled)
    return _copied(x, reshape(out, *(r * n for r, n in zip(times, shape, strict=True))))


@public
@method()
def repeat_interleave(
    x: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Every element of `dim` (of flat x without it) repeated `repeats` times in place.

    repeats: a number, or a tensor of one for each element, which is read. Without it x holds the
    numbers, and the indices 0, 1, ... are repeated. ValueError for negative ones, and for an
    output_size other than the result's.
    """
    if repeats is None:
        return repeat_interleave(arange(len(x), device=x.device), x, 0, output_size=output_size)
    if dim is None:
        x, dim = x.reshape(x.numel()), 0
    if is_tensor(repeats):
        counts: Any = repeats
        times = counts.tolist()
        if isinstance(times, list) and len(times) != 1:
            d = dim_of("repeat_interleave", dim, x)
            if len(times) != x.shape[d]:
                raise ShapeError(
                    f"repeat_interleave: {len(times)} repeats of {x.shape[d]} elements"
                )
            if counts.dtype.kind not in "ui":
                kind = counts.dtype.name
                raise TypeError(f"repeat_interleave: repeats are {kind}; they must be integers")
            if min(times, default=0) < 0:
                raise ValueError(
                    f"repeat_interleave: repeats hold {min(times)}; they must not be negative"
                )
            _check_size(output_size, sum(times))
            sources = [i for i, n in enumerate(times) for _ in range(n)]
            return x.index_select(d, x.from_host(sources))
        repeats = times[0] if isinstance(times, list) else times
    if not isinstance(repeats, int):
        raise TypeError(
            f"repeat_interleave: repeats is {repeats!r}; it must be a whole number, or "
            "a tensor of them"
        )
    if x.ndim == 0:
        x = x.reshape(1)
    d = dim_of("repeat_interleave", dim, x)
    if repeats < 0:
        raise ValueError(f"repeat_interleave: repeats is {repeats}; it must not be negative")
    _check_size(output_size, x.shape[d] * repeats)
    shape = (*x.shape[: d + 1], repeats, *x.shape[d + 1 :])
    return _copied(
        x,
        reshape(
            expand(unsqueeze(x, d + 1), *shape),
            *x.shape[:d],
            x.shape[d] * repeats,
            *x.shape[d + 1 :],
        ),
    )


def _check_size(output_size: int | None, size: int) -> None:
    if output_size is not None and output_size != size:
        raise ShapeError(f"repeat_interleave: output_size is {output_size}; the result has {size}")


def _copied(x: Tensor, out: Tensor) -> Tensor:
    # Repeating once needs no copy, but the result must not share memory with x.
    return out.clone() if out.storage is x.storage else out
