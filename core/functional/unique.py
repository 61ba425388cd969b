"""The distinct elements of a tensor, or its distinct slices: where each is, how often it occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.creation import arange, full, zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.join import cat

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _grouped(rows: Tensor, dim: Tensor | None, inverse: bool, counts: bool, shape: Any) -> Any:
    """Rows (n, k), or elements (n,), that differ from the one before; `at`: where each was."""
    n = rows.shape[0]
    start = full((min(1, n),), True, dtype="bool", device=rows.device)
    differs = rows[1:] != rows[:-1]
    starts = cat([start, differs.any(1) if rows.ndim == 2 else differs])
    first = starts.nonzero().reshape(-1)
    result: list[Tensor] = [rows[first]]
    if inverse:
        group = starts.to(int64).cumsum(0) - 1
        count_of_each = (
            group
            if dim is None
            else zeros(n, dtype=int64, device=rows.device).scatter(0, dim, group)
        )
        result.append(count_of_each.reshape(*shape))
    if counts:
        ends = cat([first, full((1,), n, dtype=int64, device=rows.device)])
        result.append(ends[1:] - ends[:-1])
    return result


def _unique(x: Tensor, ordered: bool, inverse: bool, counts: bool, dim: int | None) -> Any:
    if dim is None:
        rows, shape = x.reshape(x.numel()), x.shape
    else:
        d = normalize_dim("unique", dim, x.shape)
        moved = x.transpose(0, d)
        shape = x.shape[d : d + 1]
        rows = moved.reshape(x.shape[d], x.numel() // max(x.shape[d], 1))
    axis = None
    if ordered:
        if dim is None:
            axis = rows.argsort(0)
        else:
            axis = arange(rows.shape[0], device=x.device)
            for column in reversed(rows.unbind(1)):  # stable, so the first column decides
                axis = axis[column[axis].argsort(0)]
        rows = rows[axis]
    groups = _grouped(rows.detach(), axis, inverse, counts, shape)
    if dim is not None:
        groups[0] = groups[0].reshape(-1, *moved.shape[1:]).transpose(0, d)
    return groups[0] if len(groups) == 1 else tuple(groups)


@public
@method()
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements of flat x, or slices of `dim`, without repetitions in a row; reads how many.

    `return_inverse`: also where each element went; `return_counts`: also how often it occurs.
    Raises IndexError for a dim that there is not.
    """
    return _unique(x, False, return_inverse, return_counts, dim)


@public
@method()
def unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements of x, or slices of `dim`, in order; reads how many there are.

    Optionally also where each went, and how often it occurs.

    `return_inverse`, `return_counts`: these two. `sorted` changes nothing: they always are. Raises
    IndexError for a dim that there is not.
    """
    return _unique(x, True, return_inverse, return_counts, dim)
