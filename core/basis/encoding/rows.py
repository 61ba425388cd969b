"""encode: rows of float32 as the blocks of a quantized type."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.encoding import curves, kquants, plain
from rushlight.core.basis.encoding.block import Array, Blocks, Encoder, Fields

_ENCODERS: dict[DType, Encoder] = {
    as_dtype(function.__name__): function
    for function in (
        plain.q4_0, plain.q4_1, plain.q5_0, plain.q5_1, plain.q8_0, plain.q8_1,
        kquants.q2_k, kquants.q3_k, kquants.q4_k, kquants.q5_k, kquants.q6_k, plain.q8_k,
        curves.iq4_nl, curves.iq4_xs, curves.mxfp4, curves.nvfp4,
        plain.tq1_0, plain.tq2_0, plain.q1_0, plain.q2_0,
    )
}  # fmt: skip
# The types that values can be quantized to.
ENCODABLE: tuple[DType, ...] = tuple(_ENCODERS)
# Elements that are quantized at a time: with a few temporaries they fit a processor's cache.
_PIECE = 1 << 17
# A share of its mean is added to the importance in each block. It was measured on a sample of text:
# columns that the sample hardly used are not given up.
_SHRINKAGE = 0.05
_STORES = {"u8": np.uint8, "i8": np.int8, "f16": np.float16, "f32": np.float32}


def check_encodable(dtype: DType) -> None:
    """TypeError, with the types that can be, if values cannot be quantized to `dtype`."""
    if dtype not in _ENCODERS:
        known = ", ".join(d.name for d in ENCODABLE)
        raise TypeError(f"quantizing to {dtype.name} is not supported; supported: {known}")


def encode(dtype: DType, values: Array, importance: Array | None = None) -> Array:
    """float32 rows (rows, n) as blocks of `dtype`: uint8 (rows, bytes of a row).

    n must be a multiple of the type's block. importance: (n,), how much an error in each column
    counts, as in an importance matrix of llama.cpp: the mean square of what the column is
    multiplied by. A block whose columns all have importance 0 is quantized as if it had none.
    Memory beyond the result is bounded: a few thousand blocks are quantized at a time.

    Raises TypeError for a dtype that cannot be quantized to or values that are not float32, and
    ValueError for a length that is no multiple of the block, for NaN and infinity in the values
    (with the position of the first), and for an importance of another length, or one that is
    negative or not finite.
    """
    check_encodable(dtype)
    if values.dtype != np.float32 or values.ndim != 2:
        raise TypeError(f"encode: values are {values.dtype} {values.shape}, not float32 rows")
    rows, columns = values.shape
    if columns % dtype.block:
        raise ValueError(
            f"quantizing to {dtype.name}: a row of {columns} elements is not a whole number of "
            f"blocks of {dtype.block}"
        )
    weights = None if importance is None else _checked(importance, columns, dtype)
    per_row = columns // dtype.block
    values = np.ascontiguousarray(values)
    blocks = values.reshape(rows * per_row, dtype.block)
    out = np.empty((len(blocks), dtype.itemsize), np.uint8)
    rms = None if weights is None else _rms(values)
    step = max(1, _PIECE // dtype.block)
    for first in range(0, len(blocks), step):
        x = np.ascontiguousarray(blocks[first : first + step].T)
        if not np.isfinite(x).all():
            raise ValueError(_not_finite(values, first * dtype.block, dtype))
        stacked = Blocks(x, None, None)
        if weights is not None and rms is not None:
            element = np.arange(first, first + x.shape[1])
            stacked = Blocks(x, weights[:, element % per_row], rms[element // per_row])
        _write(out[first : first + step], dtype, _ENCODERS[dtype](stacked))
    return out.reshape(rows, per_row * dtype.itemsize)


def _checked(importance: Array, columns: int, dtype: DType) -> Array:
    """The importance as (block, blocks of a row) float32, positive, around 1."""
    values = np.asarray(importance)
    if values.shape != (columns,):
        raise ValueError(f"encode: importance is {values.shape}, the rows have {columns} columns")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if wrong.size:
        column = int(wrong[0])
        raise ValueError(f"encode: importance {values[column]} of column {column}; it must be >= 0")
    blocks = values.astype(np.float64).reshape(-1, dtype.block)
    mean = blocks.mean(axis=1, keepdims=True) if blocks.size else blocks[:, :1]
    scaled = np.where(mean > 0, blocks / np.where(mean > 0, mean, 1), 1) + _SHRINKAGE
    return np.ascontiguousarray(scaled.T, np.float32)


def _rms(values: Array) -> Array:
    """The root mean square of each row as float32, and 1 for rows of zeros."""
    squares = np.einsum("ij,ij->i", values, values, dtype=np.float64)
    means = np.sqrt(squares / max(values.shape[1], 1)).astype(np.float32)
    return np.where(means > 0, means, np.float32(1))


def _not_finite(values: Array, start: int, dtype: DType) -> str:
    """The message about the first such value, which is in the piece from element `start`."""
    piece = values.reshape(-1)[start : start + _PIECE + dtype.block]
    row, column = divmod(start + int(np.isfinite(piece).argmin()), values.shape[1])
    return (
        f"quantizing to {dtype.name}: the value at row {row}, column {column} is "
        f"{values[row, column]}; blocks hold finite values only"
    )


def _write(out: Array, dtype: DType, fields: Fields) -> None:
    """Put the fields of blocks into their bytes (blocks, itemsize)."""
    for name, field in dtype.fields.items():
        store: Any = np.dtype(_STORES.get(field.kind, np.uint8))
        stored = fields[name].astype(store)
        rows = np.ascontiguousarray(stored.reshape(-1, stored.shape[-1]).T)
        end = field.offset + store.itemsize * (field.count or 1)
        out[:, field.offset : end] = rows.view(np.uint8)
