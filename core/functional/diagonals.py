"""Diagonals and triangles, and their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.basis.dtype import DType, as_dtype, int64
from rushlight.core.basis.errors import RangeError, ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.creation import of_data
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.strided import AS_STRIDED

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.tensor.tensor import Tensor


def _length(n: int, m: int, offset: int) -> int:
    return max(0, min(n + min(offset, 0), m - max(offset, 0)))


@public
@method()
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of the diagonals of two dims as the last dim; `offset` > 0 is above the main one.

    `x` keeps its memory; `dim1` and `dim2` are the two. Raises IndexError for a dim that there is
    not, ShapeError for one dim twice.
    """
    a, b = (normalize_dim("diagonal", d, x.shape) for d in (dim1, dim2))
    if a == b or x.ndim < 2:
        raise ShapeError(f"diagonal: dims {dim1} and {dim2} of {x.shape} must be two")
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    count, steps = _length(x.shape[a], x.shape[b], offset), x.layout.strides
    first = max(offset, 0) * steps[b] + max(-offset, 0) * steps[a] if count else 0
    return AS_STRIDED(
        x,
        shape=(*(x.shape[d] for d in rest), count),
        strides=(*(steps[d] for d in rest), steps[a] + steps[b]),
        offset=x.layout.offset + first,
    )


@public
@method()
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dim of x as the diagonals of two new dims.

    `x` is (..., n), `offset` > 0 above the main diagonal, `dim1` and `dim2` the new dims' places.
    Raises IndexError for a dim that there is not, ShapeError for one dim twice.
    """
    rank = x.ndim + 1
    a, b = (normalize_dim("diag_embed", d, x.shape, extra=1) for d in (dim1, dim2))
    if a == b:
        raise ShapeError(f"diag_embed: dims {dim1} and {dim2} are not two of {rank}")
    if a > b:
        a, b, offset = b, a, -offset
    n = x.shape[-1] + abs(offset)
    rows = arange(n, device=x.device)
    on = (rows.unsqueeze(1) + offset) == rows
    wide = x if not offset else _padded(x, offset)
    square = where(on, wide.unsqueeze(-1), 0).to(x.dtype)
    rest = iter(range(x.ndim - 1))
    return square.permute(*(-2 if d == a else -1 if d == b else next(rest) for d in range(rank)))


def _padded(x: Tensor, offset: int) -> Tensor:
    """A row of the matrix for each element: those without one are zeros."""
    from rushlight.core.ops.movement import pad

    return pad(x, (0, offset) if offset > 0 else (-offset, 0))


@public
@method()
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector as its diagonal."""
    if x.ndim not in (1, 2):
        raise ShapeError(f"diag: x is {x.shape}; it must have 1 or 2 dims")
    return diag_embed(x, diagonal) if x.ndim == 1 else _diagonal(x, diagonal)


_diagonal = diagonal


@public
@method()
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the elements of x as its diagonal."""
    return diag_embed(x.reshape(x.numel()), offset)


@public
@method()
@casts(cpu="float32")
def trace(x: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if x.ndim != 2:
        raise ShapeError(f"trace: x is {x.shape}; it must have 2 dims")
    return diagonal(x).sum()


@public
@method()
def diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of x with `src` as its diagonals.

    `src` has the shape of `diagonal(x, offset, dim1, dim2)`. Raises ShapeError for another,
    IndexError for a dim that there is not.
    """
    a, b = (normalize_dim("diagonal_scatter", d, x.shape) for d in (dim1, dim2))
    n, m = x.shape[a], x.shape[b]
    count = _length(n, m, offset)
    if src.shape[-1:] != (count,):
        raise ShapeError(f"diagonal_scatter: src is {src.shape}; the diagonal has {count}")
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    shape = [x.shape[d] for d in rest]
    flat = x.permute(*rest, a, b).reshape(*shape, n * m)
    first = max(offset, 0) + max(-offset, 0) * m
    places = (arange(count, device=x.device) * (m + 1) + first).expand(*shape, count)
    result = flat.scatter(-1, places, src).reshape(*shape, n, m)
    order = [*rest, a, b]
    return result.permute(*(order.index(d) for d in range(x.ndim)))


def _triangle(
    row: int,
    col: int,
    offset: int,
    upper: bool,
    dtype: DType | str | None,
    device: Device | str | None,
) -> Tensor:
    if row < 0 or col < 0:
        name = "triu_indices" if upper else "tril_indices"
        raise RangeError(f"{name}: the sizes are {row} and {col}; they must not be negative")
    indices = (np.triu_indices if upper else np.tril_indices)(row, offset, col)
    if not indices[0].size:
        return zeros(2, 0, dtype=as_dtype(dtype), device=device)
    return of_data(np.stack(indices), dtype=as_dtype(dtype), device=device)


@public
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | str = int64,
    device: Device | str | None = None,
) -> Tensor:
    """Rows and columns (2, count) of the elements on and below a diagonal.

    `row` and `col` are the matrix's sizes, `offset` > 0 is above the main diagonal. `dtype` and
    `device` are the result's. Raises TypeError for a dtype that is not known, ValueError for
    negative sizes.
    """
    return _triangle(row, col, offset, False, dtype, device)


@public
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | str = int64,
    device: Device | str | None = None,
) -> Tensor:
    """Rows and columns (2, count) of the elements on and above a diagonal.

    `row` and `col` are the matrix's sizes, `offset` > 0 is above the main diagonal. `dtype` and
    `device` are the result's. Raises TypeError for a dtype that is not known, ValueError for
    negative sizes.
    """
    return _triangle(row, col, offset, True, dtype, device)


@method()
def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """The value written to the main diagonal; all dims must be equal where there are over two.

    wrap: the diagonal of a tall matrix goes on after each square of rows and one row between.

    `x` is returned; `fill_value` is a number. Raises ValueError for other dims.
    """
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(f"fill_diagonal_: {x.shape} must have 2 dims, or more of one size")
    if x.ndim == 2:
        (rows, columns), square = x.shape, min(x.shape)
        for start in range(0, rows if wrap and columns else min(rows, 1), columns + 1):
            block = x[start : start + square]
            block.diagonal().fill_(fill_value)
        return x
    size = x.shape[0]
    x.as_strided((size,), (sum(x.stride()),), x.storage_offset()).fill_(fill_value)
    return x


@public
@method()
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dims' lower triangle, zeros above `diagonal`; same shape."""
    rows, columns = _places(x)
    return x.masked_fill(columns > rows + diagonal, 0)


@public
@method()
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dims' upper triangle, zeros below `diagonal`; same shape."""
    rows, columns = _places(x)
    return x.masked_fill(columns < rows + diagonal, 0)


def _places(x: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of the rows, as a column, and of the columns; floats, which compare faster."""
    if x.ndim < 2:
        raise ShapeError(f"tril/triu: shape {x.shape} has fewer than two dims")
    kind = "float32" if max(x.shape[-2:]) < 1 << 24 else "int64"
    rows, columns = (arange(n, dtype=kind, device=x.device) for n in x.shape[-2:])
    return rows.unsqueeze(1), columns
