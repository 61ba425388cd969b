"""Elements as bytes: strided views of a buffer; bfloat16 and float8 to float32 and back.

Files have narrower dtypes than tensors: floats of four and six bits and powers of two (OCP
Microscaling Formats 1.0, 2023), and float8 without a negative zero (Noune et al., 2022). They are
read as float32, which holds every value. Elements of less than a byte lie in the order of their
bits, the lowest first: four bits from the low half of a byte on, four of six bits in three bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType, bfloat16, float8_e4m3fn, float8_e5m2
from rushlight.core.basis.layout import Layout

Array = npt.NDArray[Any]


def stored_view(dtype: DType, layout: Layout, buffer: Array, start: int | None = None) -> Array:
    """The elements as they are stored, as a strided view of the bytes of `buffer`.

    Quantized blocks are rows of bytes: (*leading dims, bytes per row). start: the first element's
    byte, if it differs from the layout's offset.
    """
    shape, strides = layout.shape, layout.strides
    if dtype.kind == "q":
        first = dtype.nbytes(layout.offset) if start is None else start
        rows = (*shape[:-1], dtype.nbytes(shape[-1]))
        if 0 in shape:
            return np.empty(rows, np.uint8)
        return np.ndarray(rows, np.uint8, buffer, first, [*map(dtype.nbytes, strides[:-1]), 1])
    store = dtype.numpy
    if 0 in shape:
        return np.empty(shape, store)
    size = store.itemsize
    first = layout.offset * size if start is None else start
    return np.ndarray(shape, store, buffer, first, [s * size for s in strides])


def _decode_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _encode_bf16(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(x), quiet, rounded).astype(np.uint16).reshape(x.shape)


def _f8_values(exponent_bits: int, mantissa_bits: int, bias: int, finite: bool) -> Array:
    """The value of each of the 256 codes (Micikevicius et al., 2022)."""
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent = (code >> mantissa_bits) & (2**exponent_bits - 1)
    mantissa = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    value = np.where(
        exponent == 0,
        mantissa * 2.0 ** (1 - bias),
        (1 + mantissa) * 2.0 ** (exponent.astype(np.float64) - bias),
    )
    if finite:  # e4m3fn has no infinity; only all ones is nan
        value = np.where((code & 0x7F) == 0x7F, np.nan, value)
    else:
        top = exponent == 2**exponent_bits - 1
        value = np.where(top, np.where(mantissa == 0, np.inf, np.nan), value)
    return (sign * value).astype(np.float32)


class _Float8:
    """Decode by table; encode by nearest of the sorted positive values, ties to the even code."""

    def __init__(self, exponent_bits: int, mantissa_bits: int, bias: int, finite: bool) -> None:
        self.values = _f8_values(exponent_bits, mantissa_bits, bias, finite)
        positive = self.values[:128]
        self.top = int(np.isfinite(positive).sum()) - 1
        # As torch: e4m3fn has no infinity and stays at its largest value, e5m2 goes to inf.
        self.over = self.top if finite else self.top + 1
        known = positive[: self.top + 1].astype(np.float64)
        # One step past the last finite value stands for overflow.
        nxt = known[-1] + (known[-1] - known[-2])
        self.edges = (known + np.append(known[1:], nxt)) / 2

    def decode(self, bits: Array) -> Array:
        return self.values[bits]

    def encode(self, x: Array) -> Array:
        a = np.abs(x).astype(np.float64)
        code = np.searchsorted(self.edges, a, side="left")
        tie = self.edges[np.minimum(code, self.top)] == a
        code = np.where(tie & (code % 2 == 1), code + 1, code)
        code = np.where(code > self.top, self.over, code)
        code = np.where(np.isnan(x), 0x7F, code)
        return (code | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


_E4M3 = _Float8(4, 3, 7, True)
_E5M2 = _Float8(5, 2, 15, False)
_DECODE = {bfloat16: _decode_bf16, float8_e4m3fn: _E4M3.decode, float8_e5m2: _E5M2.decode}
_ENCODE = {bfloat16: _encode_bf16, float8_e4m3fn: _E4M3.encode, float8_e5m2: _E5M2.encode}


def decode(dtype: DType, bits: Array) -> Array:
    """Stored bits as float32, exactly; same shape."""
    return np.asarray(_DECODE[dtype](bits))  # NumPy makes scalars of 0-d arrays


def encode(dtype: DType, x: Array) -> Array:
    """float32 as stored bits, rounded to nearest even; same shape.

    Values out of range, infinity included, become the largest value of float8_e4m3fn, and
    infinity in the other dtypes, as in torch.
    """
    return _ENCODE[dtype](np.asarray(x, np.float32))


def _narrow(name: str, block: int = 1, itemsize: int = 1) -> DType:
    return DType(name, "f", itemsize, np.dtype(np.uint8), block, encoded=True)


# By their names in safetensors.
NARROW = {
    "F4": _narrow("float4_e2m1fn", 2), "F6_E2M3": _narrow("float6_e2m3fn", 4, 3),
    "F6_E3M2": _narrow("float6_e3m2fn", 4, 3), "F8_E8M0": _narrow("float8_e8m0fnu"),
    "F8_E4M3FNUZ": _narrow("float8_e4m3fnuz"), "F8_E5M2FNUZ": _narrow("float8_e5m2fnuz"),
}  # fmt: skip
_NARROW_NAMES = {dtype: name for name, dtype in NARROW.items()}
# Bits of an element, of its exponent and of its fraction, and the exponent's bias.
_NARROW_FORMATS = {
    "F4": (4, 2, 1, 1), "F6_E2M3": (6, 2, 3, 1), "F6_E3M2": (6, 3, 2, 3),
    "F8_E4M3FNUZ": (8, 4, 3, 8), "F8_E5M2FNUZ": (8, 5, 2, 16),
}  # fmt: skip


def is_narrow(dtype: DType) -> bool:
    """Whether tensors of a file's dtype are read as float32."""
    return dtype in _NARROW_NAMES


def widened(dtype: DType, data: Array) -> Array:
    """The values of bytes (n,) of a narrow dtype, float32, flat."""
    name = _NARROW_NAMES[dtype]
    if dtype.block == 2:
        codes = np.stack((data & 15, data >> 4), -1).reshape(-1)
    elif dtype.block == 4:
        three = data.reshape(-1, 3).astype(np.uint32)
        words = three[:, 0] | three[:, 1] << 8 | three[:, 2] << 16
        codes = (words[:, None] >> np.arange(0, 24, 6, dtype=np.uint32) & 63).reshape(-1)
    else:
        codes = data
    floats: Array = _narrow_table(name)[codes]
    return floats


@lru_cache
def _narrow_table(name: str) -> Array:
    """The value of each code, float32."""
    if name == "F8_E8M0":
        return np.append(2.0 ** (np.arange(255) - 127.0), np.nan).astype(np.float32)
    bits, exponent_bits, fraction_bits, bias = _NARROW_FORMATS[name]
    code = np.arange(1 << bits)
    exponent = code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    normal = (1 + fraction) * 2.0 ** (exponent.astype(np.float64) - bias)
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    value = np.where(code >> bits - 1 == 1, -value, value)
    if name.endswith("FNUZ"):
        value[1 << bits - 1] = np.nan  # in place of a negative zero
    return value.astype(np.float32)
