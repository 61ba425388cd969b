"""What numbers a dtype holds, under torch's names: finfo and iinfo."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, as_dtype, float32

# Bits of exponent and mantissa, and the largest exponent, of floats that NumPy has no type of.
_FORMATS = {"bfloat16": (8, 7), "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2)}


class finfo:  # noqa: N801
    """The limits of a floating dtype (float32): bits, max, min, eps, tiny, smallest_normal.

    resolution is the number of safe decimals as a power of ten. TypeError for other dtypes.
    """

    def __init__(self, type: DType | Any = float32) -> None:
        dtype = as_dtype(type)
        if not dtype.is_floating_point or dtype.kind == "q":
            raise TypeError(f"finfo: {dtype.name} is not a floating dtype; use iinfo")
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        if dtype.name in _FORMATS:
            exponent, mantissa = _FORMATS[dtype.name]
            bias = 2 ** (exponent - 1) - 1
            # float8_e4m3fn has no infinity: its top exponent holds numbers, but for one nan.
            top = 448.0 if dtype.name == "float8_e4m3fn" else (2 - 2.0**-mantissa) * 2.0**bias
            self.max, self.eps, self.tiny = top, 2.0**-mantissa, 2.0 ** (1 - bias)
            self.resolution = 10.0 ** -int(mantissa * 0.30103)
        else:
            limits = np.finfo(dtype.numpy)
            self.max, self.eps = float(limits.max), float(limits.eps)
            self.tiny, self.resolution = float(limits.tiny), float(limits.resolution)
        self.min, self.smallest_normal = -self.max, self.tiny

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"finfo({values}, dtype={self.dtype})"


class iinfo:  # noqa: N801
    """The limits of an integer dtype: bits, min, max. TypeError for other dtypes."""

    def __init__(self, type: DType | Any) -> None:
        dtype = as_dtype(type)
        if dtype.kind not in "iu":
            raise TypeError(f"iinfo: {dtype.name} is not an integer dtype; use finfo")
        self.dtype, self.bits = dtype.name, 8 * dtype.itemsize
        limits = np.iinfo(dtype.numpy)
        self.min, self.max = int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
