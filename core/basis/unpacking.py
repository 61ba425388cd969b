"""Values of quantized blocks by a row's formula, in NumPy: the reference of every type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.codebooks import Codebook
from rushlight.core.basis.dtype import DType

Array = npt.NDArray[Any]


class _Numbers:
    """A field with several numbers per block, which a formula indexes."""

    __slots__ = ("_stored",)

    def __init__(self, stored: Array) -> None:
        self._stored = stored

    def __getitem__(self, index: Array | int) -> Array:
        return np.take(self._stored, np.atleast_1d(index), axis=-1)


class Stored:
    """The block `b` in a row's formula: all blocks of (..., itemsize) bytes at once."""

    __slots__ = ("_dtype", "_stored")

    def __init__(self, dtype: DType, stored: Array) -> None:
        self._dtype, self._stored = dtype, stored

    def __getattr__(self, name: str) -> Array | _Numbers:
        field = self._dtype.fields[name]
        store = np.dtype(_STORES[field.kind])
        end = field.offset + store.itemsize * (field.count or 1)
        raw = self._stored[..., field.offset : end].view(store)
        values = _read(raw, field.kind)
        return values if field.count is None else _Numbers(values)

    def where(self, condition: Array, x: Any, y: Any) -> Array:
        """x where the condition holds, else y."""
        values: Array = np.where(condition, x, y)
        return values

    def lookup(self, numbers: Sequence[int] | Codebook, index: Array) -> Array:
        """The numbers at the positions `index`."""
        table = numbers.codes if isinstance(numbers, Codebook) else np.array(numbers, np.int16)
        values: Array = table[index]
        return values

    def as_f16(self, low: Array, high: Array) -> Array:
        """The float16 of two bytes, as float32."""
        values: Array = (low | high << 8).astype(np.int16).view(np.float16).astype(np.float32)
        return values


_STORES = {
    "u8": np.uint8, "i8": np.int8, "f16": np.float16, "f32": np.float32, "e8m0": np.uint8,
    "ue4m3": np.uint8,
}  # fmt: skip


def _read(stored: Array, kind: str) -> Array:
    """The numbers of a field: int16, which is fast and with float32 gives float32, or float32."""
    if kind == "e8m0":
        scale: Array = np.ldexp(np.float32(1), stored.astype(np.int32) - 128)
        return scale
    if kind == "ue4m3":
        power, digits = (stored >> 3 & 15).astype(np.int32), (stored & 7).astype(np.float32)
        some = np.where(power == 0, digits, digits + 8)
        some = np.ldexp(some, np.maximum(power, 1) - 11)
        scale = np.where(stored == 0x7F, np.float32(0), some)
        return scale
    return stored.astype(np.float32 if kind in ("f16", "f32") else np.int16)


def by_formula(dtype: DType, stored: Array) -> Array:
    """float32 (..., blocks, block) from blocks of bytes (..., blocks, itemsize)."""
    assert dtype.value is not None, dtype
    index = np.arange(dtype.block, dtype=np.int16)
    values: Array = dtype.value(Stored(dtype, stored), index)
    if values.dtype != np.float32:
        raise TypeError(f"the formula of {dtype.name} gives {values.dtype}, not float32")
    return values


class _Noting(Stored):
    """A block that notes the codebook that a formula looks up."""

    __slots__ = ("found",)

    def __init__(self, dtype: DType, stored: Array) -> None:
        super().__init__(dtype, stored)
        self.found: Codebook | None = None

    def lookup(self, numbers: Sequence[int] | Codebook, index: Array) -> Array:
        if isinstance(numbers, Codebook):
            self.found = numbers
        return super().lookup(numbers, index)


def codebook_of(dtype: DType) -> Codebook | None:
    """The codebook of a row's formula; None if it uses none."""
    assert dtype.value is not None, dtype
    block = _Noting(dtype, np.zeros((1, dtype.itemsize), np.uint8))
    dtype.value(block, np.arange(dtype.block, dtype=np.int16))
    return block.found
