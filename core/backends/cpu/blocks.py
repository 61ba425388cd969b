"""Block-quantized weights in NumPy: llama.cpp's layouts to float32, a few rows at a time.

The arithmetic is that of ggml's dequantize_row_* functions, in float32 and in the same order, so
results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.dtype import DType, q4_0, q4_1, q5_0, q5_1, q8_0
from rushlight.core.layout import Layout

Array = npt.NDArray[Any]

# Rows that are float32 at once: they stay in the cache, and memory stays small.
ROWS_AT_ONCE = 128


def _scale(blocks: Array, at: int) -> Array:
    """The float16 at byte `at` of every block as float32, (..., 1)."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(blocks: Array, at: int, out: Array) -> None:
    """16 bytes into 32 numbers: the low halves, then the high halves."""
    packed = blocks[..., at : at + 16]
    out[..., :16] = packed & np.uint8(0x0F)
    out[..., 16:] = packed >> np.uint8(4)


def _fifth_bits(blocks: Array, at: int, out: Array) -> None:
    """Add 16 where bit i of the word at byte `at` is set, for element i."""
    bits = np.unpackbits(blocks[..., at : at + 4], axis=-1, bitorder="little")
    out += bits.astype(np.float32) * np.float32(16)


def _q4_0(blocks: Array, out: Array) -> None:
    _nibbles(blocks, 2, out)
    out -= np.float32(8)
    out *= _scale(blocks, 0)


def _q4_1(blocks: Array, out: Array) -> None:
    _nibbles(blocks, 4, out)
    out *= _scale(blocks, 0)
    out += _scale(blocks, 2)


def _q5_0(blocks: Array, out: Array) -> None:
    _nibbles(blocks, 6, out)
    _fifth_bits(blocks, 2, out)
    out -= np.float32(16)
    out *= _scale(blocks, 0)


def _q5_1(blocks: Array, out: Array) -> None:
    _nibbles(blocks, 8, out)
    _fifth_bits(blocks, 4, out)
    out *= _scale(blocks, 0)
    out += _scale(blocks, 2)


def _q8_0(blocks: Array, out: Array) -> None:
    out[...] = blocks[..., 2:34].view(np.int8)
    out *= _scale(blocks, 0)


_DEQUANTIZE: dict[DType, Callable[[Array, Array], None]] = {
    q4_0: _q4_0,
    q4_1: _q4_1,
    q5_0: _q5_0,
    q5_1: _q5_1,
    q8_0: _q8_0,
}


def dequantize(dtype: DType, stored: Array) -> Array:
    """float32 (..., n) from the bytes (..., n / block * itemsize) of whole rows of blocks."""
    lead, width = stored.shape[:-1], stored.shape[-1] // dtype.itemsize
    blocks = stored.reshape(*lead, width, dtype.itemsize)
    out = np.empty((*lead, width, dtype.block), np.float32)
    _DEQUANTIZE[dtype](blocks, out)
    return out.reshape(*lead, width * dtype.block)


def stored_view(dtype: DType, layout: Layout, buffer: Array) -> Array:
    """The bytes of whole rows, (*leading dims, bytes per row), as a strided view of a buffer."""
    *lead, columns = layout.shape
    shape = (*lead, dtype.nbytes(columns))
    if 0 in layout.shape:
        return np.empty(shape, np.uint8)
    strides = [dtype.nbytes(s) for s in layout.strides[:-1]]
    return np.ndarray(shape, np.uint8, buffer, dtype.nbytes(layout.offset), [*strides, 1])


class Rows:
    """A matrix (rows, columns) that is stored narrow and read as floats some rows at a time."""

    def __init__(self, stored: Array, columns: int, widen: Callable[[Array], Array]) -> None:
        self.stored, self.columns, self.widen = stored, columns, widen

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns), in elements."""
        return self.stored.shape[0], self.columns

    def pieces(self) -> Iterator[tuple[slice, Array]]:
        """Some rows and their float32 values, from the first to the last."""
        for start in range(0, self.stored.shape[0], ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            yield rows, self.widen(self.stored[rows])
