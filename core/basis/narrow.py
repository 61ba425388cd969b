"""Dtypes that files have and tensors have not; their elements are read as float32.

These are floats of four and six bits and powers of two (OCP Microscaling Formats 1.0, 2023), and
float8 without a negative zero (Noune et al., 2022). Elements of less than a byte lie in the order
of their bits, the lowest first: four bits from the low half of a byte on, four of six bits in three
bytes. float32 holds every value exactly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.element import DType

Array = npt.NDArray[Any]


def _row(name: str, block: int = 1, itemsize: int = 1) -> DType:
    return DType(name, "f", itemsize, np.dtype(np.uint8), block, encoded=True)


# By their names in safetensors.
NARROW = {
    "F4": _row("float4_e2m1fn", 2), "F6_E2M3": _row("float6_e2m3fn", 4, 3),
    "F6_E3M2": _row("float6_e3m2fn", 4, 3), "F8_E8M0": _row("float8_e8m0fnu"),
    "F8_E4M3FNUZ": _row("float8_e4m3fnuz"), "F8_E5M2FNUZ": _row("float8_e5m2fnuz"),
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in NARROW.items()}
# Bits of an element, of its exponent and of its fraction, and the exponent's bias.
_FORMATS = {
    "F4": (4, 2, 1, 1), "F6_E2M3": (6, 2, 3, 1), "F6_E3M2": (6, 3, 2, 3),
    "F8_E4M3FNUZ": (8, 4, 3, 8), "F8_E5M2FNUZ": (8, 5, 2, 16),
}  # fmt: skip


def is_narrow(dtype: DType) -> bool:
    """Whether tensors of a file's dtype are read as float32."""
    return dtype in _NAMES


def widened(dtype: DType, data: Array) -> Array:
    """The values of bytes (n,) of a narrow dtype, float32, flat."""
    name = _NAMES[dtype]
    if dtype.block == 2:
        codes = np.stack((data & 15, data >> 4), -1).reshape(-1)
    elif dtype.block == 4:
        three = data.reshape(-1, 3).astype(np.uint32)
        words = three[:, 0] | three[:, 1] << 8 | three[:, 2] << 16
        codes = (words[:, None] >> np.arange(0, 24, 6, dtype=np.uint32) & 63).reshape(-1)
    else:
        codes = data
    found: Array = _table(name)[codes]
    return found


@lru_cache
def _table(name: str) -> Array:
    """The value of each code, float32."""
    if name == "F8_E8M0":
        return np.append(2.0 ** (np.arange(255) - 127.0), np.nan).astype(np.float32)
    bits, exponent_bits, fraction_bits, bias = _FORMATS[name]
    code = np.arange(1 << bits)
    exponent = code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    normal = (1 + fraction) * 2.0 ** (exponent.astype(np.float64) - bias)
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    value = np.where(code >> bits - 1 == 1, -value, value)
    if name.endswith("FNUZ"):
        value[1 << bits - 1] = np.nan  # in place of a negative zero
    return value.astype(np.float32)
