"""Elements as bytes: strided views of a buffer; bfloat16 and float8 to float32 and back."""

from __future__ import annotations

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
        at = dtype.nbytes(layout.offset) if start is None else start
        rows = (*shape[:-1], dtype.nbytes(shape[-1]))
        if 0 in shape:
            return np.empty(rows, np.uint8)
        return np.ndarray(rows, np.uint8, buffer, at, [*map(dtype.nbytes, strides[:-1]), 1])
    store = dtype.numpy
    if 0 in shape:
        return np.empty(shape, store)
    size = store.itemsize
    at = layout.offset * size if start is None else start
    return np.ndarray(shape, store, buffer, at, [s * size for s in strides])


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
