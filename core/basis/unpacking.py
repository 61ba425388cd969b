"""Values of quantized blocks by a row's formula, in NumPy: the reference of every type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType

Array = npt.NDArray[Any]


class _Numbers:
    """A field with several numbers per block, which a formula indexes."""

    __slots__ = ("_stored",)

    def __init__(self, stored: Array) -> None:
        # 16-bit integers are fast, and with float32 they give float32.
        self._stored = stored.astype(np.int16)

    def __getitem__(self, index: Array) -> Array:
        return np.take(self._stored, index, axis=-1)


class Stored:
    """The block `b` in a row's formula: all blocks of (..., itemsize) bytes at once."""

    __slots__ = ("_dtype", "_stored")

    def __init__(self, dtype: DType, stored: Array) -> None:
        self._dtype, self._stored = dtype, stored

    def __getattr__(self, name: str) -> Array | _Numbers:
        at = self._dtype.fields[name]
        store = np.dtype(_STORES[at.kind])
        end = at.offset + store.itemsize * (at.count or 1)
        found = self._stored[..., at.offset : end].view(store)
        if at.count is not None:
            return _Numbers(found)
        if at.kind == "e8m0":
            scale: Array = np.ldexp(np.float32(1), found.astype(np.int32) - 128)
            return scale
        return found.astype(np.float32 if at.kind == "f16" else np.int16)

    def where(self, condition: Array, x: Any, y: Any) -> Array:
        """x where the condition holds, else y."""
        found: Array = np.where(condition, x, y)
        return found

    def lookup(self, numbers: Sequence[int], index: Array) -> Array:
        """The numbers at the positions `index`."""
        return np.array(numbers, np.int16)[index]


_STORES = {"u8": np.uint8, "i8": np.int8, "e8m0": np.uint8, "f16": np.float16}


def by_formula(dtype: DType, stored: Array) -> Array:
    """float32 (..., blocks, block) from blocks of bytes (..., blocks, itemsize)."""
    assert dtype.value is not None, dtype
    index = np.arange(dtype.block, dtype=np.int16)
    found: Array = dtype.value(Stored(dtype, stored), index)
    if found.dtype != np.float32:
        raise TypeError(f"the formula of {dtype.name} gives {found.dtype}, not float32")
    return found
