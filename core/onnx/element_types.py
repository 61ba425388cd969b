"""ONNX's element types: what each is called, how files store it, and what computes with it.

Types that no device computes with are carried in a wider dtype that holds every value of theirs:
float16, bfloat16 and the narrow floats in float32, integers of 2 and 4 bits in those of 8. So
residuals, norms and sums of a float16 file do not overflow. A result takes its declared dtype at
the end of the graph. The numbers are those of TensorProto.DataType in onnx.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis import dtype as dtypes
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ElementType:
    """A type of ONNX.

    number: in TensorProto.DataType. stored: the NumPy dtype of its bytes in a file, of `bits` bits
    an element. carried: the dtype that values have within a graph. declared: the dtype of results,
    None where there is no such dtype and results stay as they are carried.
    """

    number: int
    name: str
    stored: Any
    bits: int
    carried: DType | None
    declared: DType | None

    @property
    def is_float(self) -> bool:
        """Whether it is a real floating type."""
        return self.carried is not None and self.carried.kind == "f"


def _row(number: int, name: str, stored: Any, carried: str, bits: int = 0) -> ElementType:
    kept = dtypes.DTYPES.get(name, dtypes.DTYPES.get(_NAMES.get(name, "")))
    numpy = np.dtype(stored)
    return ElementType(
        number, name, numpy, bits or 8 * numpy.itemsize, dtypes.DTYPES.get(carried), kept
    )


_NAMES = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn",
          "float8e5m2": "float8_e5m2"}  # fmt: skip

FLOAT = _row(1, "float", np.float32, "float32")
UINT8 = _row(2, "uint8", np.uint8, "uint8")
INT8 = _row(3, "int8", np.int8, "int8")
UINT16 = _row(4, "uint16", np.uint16, "uint16")
INT16 = _row(5, "int16", np.int16, "int16")
INT32 = _row(6, "int32", np.int32, "int32")
INT64 = _row(7, "int64", np.int64, "int64")
STRING = _row(8, "string", np.object_, "")
BOOL = _row(9, "bool", np.bool_, "bool")
FLOAT16 = _row(10, "float16", np.float16, "float32")
DOUBLE = _row(11, "double", np.float64, "float64")
UINT32 = _row(12, "uint32", np.uint32, "uint32")
UINT64 = _row(13, "uint64", np.uint64, "uint64")
COMPLEX64 = _row(14, "complex64", np.complex64, "complex64")
COMPLEX128 = _row(15, "complex128", np.complex128, "complex128")
BFLOAT16 = _row(16, "bfloat16", np.uint16, "float32")
FLOAT8E4M3FN = _row(17, "float8e4m3fn", np.uint8, "float32")
FLOAT8E4M3FNUZ = _row(18, "float8e4m3fnuz", np.uint8, "float32")
FLOAT8E5M2 = _row(19, "float8e5m2", np.uint8, "float32")
FLOAT8E5M2FNUZ = _row(20, "float8e5m2fnuz", np.uint8, "float32")
UINT4 = _row(21, "uint4", np.uint8, "uint8", 4)
INT4 = _row(22, "int4", np.uint8, "int8", 4)
FLOAT4E2M1 = _row(23, "float4e2m1", np.uint8, "float32", 4)
FLOAT8E8M0 = _row(24, "float8e8m0", np.uint8, "float32")
UINT2 = _row(25, "uint2", np.uint8, "uint8", 2)
INT2 = _row(26, "int2", np.uint8, "int8", 2)

TYPES: dict[int, ElementType] = {
    row.number: row for row in list(vars().values()) if isinstance(row, ElementType)
}
_OF_DTYPE = {row.declared.name: row for row in TYPES.values() if row.declared is not None}
# Floats of eight bits or fewer: bits of the exponent, of the fraction, the exponent's bias.
_FLOATS = {17: (4, 3, 7), 18: (4, 3, 8), 19: (5, 2, 15), 20: (5, 2, 16), 23: (2, 1, 1)}


def element_type(number: int, what: str) -> ElementType:
    """The type of a number. FormatError, which begins with `what`, for another number."""
    if number not in TYPES:
        names = ", ".join(f"{n} ({row.name})" for n, row in TYPES.items())
        raise FormatError(f"{what}: the element type {number} is not supported; supported: {names}")
    return TYPES[number]


def of_dtype(dtype: DType) -> ElementType:
    """The type that a dtype of ours is stored as. TypeError for quantized blocks."""
    if dtype.name not in _OF_DTYPE:
        raise TypeError(f"{dtype.name} is no element type of ONNX; dequantize() it first")
    return _OF_DTYPE[dtype.name]


@lru_cache(None)
def narrow_values(number: int) -> Array:
    """The float32 value of every code of a float of eight bits or fewer.

    Formats: OCP 8-bit Floating Point and Microscaling Formats 1.0; the FNUZ types of Noune et al.
    2022 (arXiv:2206.02915), whose only NaN is the code of minus zero and which have no infinity.
    """
    if number == FLOAT8E8M0.number:
        powers = np.ldexp(np.float64(1), np.arange(256) - 127).astype(np.float32)
        powers[255] = np.nan
        return powers
    exponent_bits, fraction_bits, bias = _FLOATS[number]
    width = 1 + exponent_bits + fraction_bits
    codes = np.arange(1 << width)
    fraction = (codes & (1 << fraction_bits) - 1).astype(np.float64) / (1 << fraction_bits)
    exponent = codes >> fraction_bits & (1 << exponent_bits) - 1
    size = np.where(
        exponent == 0,
        np.ldexp(fraction, 1 - bias),
        np.ldexp(1 + fraction, exponent.astype(np.int64) - bias),
    )
    values = np.where(codes >> width - 1, -size, size).astype(np.float32)
    if number == FLOAT8E4M3FN.number:
        values[[0x7F, 0xFF]] = np.nan
    elif number == FLOAT8E5M2.number:
        values[[0x7C, 0xFC]] = np.inf, -np.inf
        values[[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]] = np.nan
    elif number in (FLOAT8E4M3FNUZ.number, FLOAT8E5M2FNUZ.number):
        values[0x80] = np.nan
    return values


def unpacked(codes: Array, kind: ElementType, count: int) -> Array:
    """The first `count` elements of bytes that hold several each, the first in the lowest bits."""
    per_byte, mask = 8 // kind.bits, (1 << kind.bits) - 1
    shifts = np.arange(per_byte, dtype=np.uint8) * kind.bits
    values = (codes[:, None] >> shifts & mask).reshape(-1)[:count]
    if kind.number in (INT4.number, INT2.number):
        half = 1 << kind.bits - 1
        return ((values.astype(np.int8) ^ half) - half).astype(np.int8)
    return values


def carried_values(stored: Array, kind: ElementType) -> Array:
    """The stored elements (a flat array) as the dtype that carries them within a graph."""
    if kind.number == BFLOAT16.number:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if kind.number == FLOAT16.number:
        return stored.astype(np.float32)
    if kind.number in _FLOATS or kind.number == FLOAT8E8M0.number:
        return narrow_values(kind.number)[stored]
    return stored
