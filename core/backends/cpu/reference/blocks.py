"""Block-quantized weights in NumPy: llama.cpp's layouts to float32, a few rows at a time.

Any type is read by the formula of its row. Types in the table `_PARTS` have a kernel here, which is
twice as fast. The arithmetic is that of ggml's dequantize_row_* functions, in float32 and in the
same order, so results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.quantized import q4_0, q4_1, q5_0, q5_1, q8_0
from rushlight.core.basis.unpacking import by_formula

Array = npt.NDArray[Any]

# Rows that are converted at once: few enough for the CPU's cache.
ROWS_AT_ONCE = 128


def _scale(blocks: Array, byte: int) -> Array:
    """The float16 at `byte` of every block as float32, (..., 1)."""
    return blocks.view(np.float16)[..., byte // 2 : byte // 2 + 1].astype(np.float32)


def _nibbles(blocks: Array, byte: int, out: Array) -> None:
    """16 bytes into 32 numbers: the low halves, then the high halves."""
    # Whole blocks are masked and shifted: one long loop instead of many of 16 bytes.
    out[..., :16] = (blocks & np.uint8(0x0F))[..., byte : byte + 16]
    out[..., 16:] = (blocks >> np.uint8(4))[..., byte : byte + 16]


def _fifth_bits(blocks: Array, byte: int, out: Array) -> None:
    """Add 16 where bit i of the word at `byte` is set, for element i."""
    bits = np.unpackbits(blocks[..., byte : byte + 4], axis=-1, bitorder="little")
    out += bits.astype(np.float32) * np.float32(16)


# Each writes the integers of blocks to `out` and returns their scale and their minimum or None.
def _q4_0(blocks: Array, out: Array) -> tuple[Array, Array | None]:
    _nibbles(blocks, 2, out)
    out -= np.float32(8)
    return _scale(blocks, 0), None


def _q4_1(blocks: Array, out: Array) -> tuple[Array, Array | None]:
    _nibbles(blocks, 4, out)
    return _scale(blocks, 0), _scale(blocks, 2)


def _q5_0(blocks: Array, out: Array) -> tuple[Array, Array | None]:
    _nibbles(blocks, 6, out)
    _fifth_bits(blocks, 2, out)
    out -= np.float32(16)
    return _scale(blocks, 0), None


def _q5_1(blocks: Array, out: Array) -> tuple[Array, Array | None]:
    _nibbles(blocks, 8, out)
    _fifth_bits(blocks, 4, out)
    return _scale(blocks, 0), _scale(blocks, 2)


def _q8_0(blocks: Array, out: Array) -> tuple[Array, Array | None]:
    out[...] = blocks[..., 2:34].view(np.int8)
    return _scale(blocks, 0), None


_PARTS: dict[DType, Callable[[Array, Array], tuple[Array, Array | None]]] = {
    q4_0: _q4_0,
    q4_1: _q4_1,
    q5_0: _q5_0,
    q5_1: _q5_1,
    q8_0: _q8_0,
}


def _parts(dtype: DType, stored: Array) -> tuple[Array, Array, Array | None]:
    """Integers (..., blocks, block) as float32, scale and minimum (..., blocks, 1)."""
    lead, width = stored.shape[:-1], stored.shape[-1] // dtype.itemsize
    numbers = np.empty((*lead, width, dtype.block), np.float32)
    scale, minimum = _PARTS[dtype](stored.reshape(*lead, width, dtype.itemsize), numbers)
    return numbers, scale, minimum


def dequantize(dtype: DType, stored: Array) -> Array:
    """float32 (..., n) from the bytes (..., n / block * itemsize) of whole rows of blocks."""
    if dtype not in _PARTS:
        lead, width = stored.shape[:-1], stored.shape[-1] // dtype.itemsize
        out = by_formula(dtype, stored.reshape(*lead, width, dtype.itemsize))
    else:
        out, scale, minimum = _parts(dtype, stored)
        out *= scale
        if minimum is not None:
            out += minimum
    return out.reshape(*out.shape[:-2], out.shape[-2] * out.shape[-1])


def times_vector(dtype: DType, stored: Array, x: Array) -> Array:
    """Rows of blocks times the float32 vector `x`: (rows,).

    Each block is multiplied by its scale after it is summed: less work than dequantizing it.
    """
    numbers, scale, minimum = _parts(dtype, stored)
    parts = x.reshape(-1, dtype.block)
    sums = np.einsum("rbk,bk->rb", numbers, parts)
    sums *= scale[..., 0]
    products: Array = np.sum(sums, axis=1)
    if minimum is not None:
        products += np.einsum("rb,b->r", minimum[..., 0], np.sum(parts, axis=1))
    return products


class Rows:
    """A matrix (rows, columns) in a narrow dtype that is multiplied a few rows at a time."""

    def __init__(
        self, dtype: DType, stored: Array, columns: int, widen: Callable[[DType, Array], Array]
    ) -> None:
        self.dtype, self.stored, self.columns, self.widen = dtype, stored, columns, widen

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns), in elements."""
        return self.stored.shape[0], self.columns

    def _slices(self) -> Iterator[slice]:
        for start in range(0, self.stored.shape[0], ROWS_AT_ONCE):
            yield slice(start, start + ROWS_AT_ONCE)

    def pieces(self) -> Iterator[tuple[slice, Array]]:
        """Slices of rows with their float32 values, in order."""
        for rows in self._slices():
            yield rows, self.widen(self.dtype, self.stored[rows])

    def times_vector(self, x: Array, out: Array) -> bool:
        """Write the product with the vector `x` to `out`; false if the type has no such kernel."""
        if self.dtype not in _PARTS or x.dtype != np.float32:
            return False
        for rows in self._slices():
            out[rows] = times_vector(self.dtype, self.stored[rows], x)
        return True


class Stack:
    """Matrices (n, rows, columns) in a narrow dtype, each made into `Rows` when it is asked for."""

    def __init__(
        self, dtype: DType, stored: Array, columns: int, widen: Callable[[DType, Array], Array]
    ) -> None:
        self.dtype, self.stored, self.columns, self.widen = dtype, stored, columns, widen

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, number: int) -> Rows:
        return Rows(self.dtype, self.stored[number], self.columns, self.widen)
