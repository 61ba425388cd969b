"""Splitting, stacking, rolling and repeating tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import as_shape, normalize_dim
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.creation import arange, sizes
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import dim_of, expand, narrow, owned, reshape, squeeze, unsqueeze

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of `split_size` elements each along `dim` (or of the sizes given)."""
    d = dim_of("split", dim, x)
    if isinstance(split_size, int):
        if split_size <= 0:
            raise ShapeError(f"split: split_size is {split_size}; it must be positive")
        whole, rest = divmod(x.shape[d], split_size)
        check_count("split", whole)
        lengths = [split_size] * whole + [rest] * bool(rest or not whole)
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
    found = tuple(views)
    for view in found:
        view.chain = None
    return found


@public
@method()
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along `dim`; the last may be smaller."""
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
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """A copy with the elements moved by `shifts` along `dims`; the last wrap to the front.

    One shift for each dim; without `dims` the tensor is rolled as if it were flat.
    """
    if dims is None:
        return roll(x.reshape(-1), shifts, 0).reshape(*x.shape)
    moves, along = as_shape("roll", (shifts,)), as_shape("roll", (dims,))
    if len(moves) != len(along):
        raise ShapeError(f"roll: shifts {moves} and dims {along} differ in number")
    for shift, dim in zip(moves, along, strict=True):
        d = normalize_dim("roll", dim, x.shape)
        n = x.shape[d]
        k = shift % n if n else 0
        x = cat([narrow(x, d, n - k, k), narrow(x, d, 0, n - k)], d)
    return x


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
    x: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *,
    output_size: int | None = None,
) -> Tensor:  # fmt: skip
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
                raise ValueError(f"repeat_interleave: repeats hold {min(times)}; they must not be "
                                 "negative")  # fmt: skip
            _check_size(output_size, sum(times))
            at = [i for i, n in enumerate(times) for _ in range(n)]
            return x.index_select(d, x.from_host(at))
        repeats = times[0] if isinstance(times, list) else times
    if not isinstance(repeats, int):
        raise TypeError(f"repeat_interleave: repeats is {repeats!r}; it must be a whole number, or "
                        "a tensor of them")  # fmt: skip
    if x.ndim == 0:
        x = x.reshape(1)
    d = dim_of("repeat_interleave", dim, x)
    if repeats < 0:
        raise ValueError(f"repeat_interleave: repeats is {repeats}; it must not be negative")
    _check_size(output_size, x.shape[d] * repeats)
    shape = (*x.shape[: d + 1], repeats, *x.shape[d + 1 :])
    return _copied(x, reshape(expand(unsqueeze(x, d + 1), *shape),
                              *x.shape[:d], x.shape[d] * repeats, *x.shape[d + 1 :]))  # fmt: skip


def _check_size(output_size: int | None, size: int) -> None:
    if output_size is not None and output_size != size:
        raise ShapeError(f"repeat_interleave: output_size is {output_size}; the result has {size}")


def _copied(x: Tensor, out: Tensor) -> Tensor:
    # Repeating once needs no copy, but the result must not share memory with x.
    return out.clone() if out.storage is x.storage else out
