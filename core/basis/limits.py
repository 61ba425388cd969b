"""The numbers that a dtype can hold, under torch's names."""

from __future__ import annotations

from rushlight.core.basis.dtype import DType, as_dtype

# exponent bits, mantissa bits, and the largest number where the format has no infinities.
_FLOATS = {
    "float16": (5, 10, None), "bfloat16": (8, 7, None), "float32": (8, 23, None),
    "float64": (11, 52, None), "float8_e5m2": (5, 2, None), "float8_e4m3fn": (4, 3, 448.0),
}  # fmt: skip


class finfo:  # noqa: N801 - torch's name
    """Limits of a floating dtype: bits, eps, max, min, tiny and smallest_normal, as floats.

    TypeError for a dtype that is not floating.
    """

    def __init__(self, dtype: DType | str = "float32") -> None:
        found = as_dtype(dtype)
        if found.name not in _FLOATS:
            raise TypeError(f"finfo: {found.name} is not a floating dtype; use iinfo")
        exponent, mantissa, most = _FLOATS[found.name]
        bias = 2 ** (exponent - 1) - 1
        self.dtype, self.bits = found.name, 8 * found.itemsize
        self.eps = 2.0**-mantissa
        self.max = (2 - self.eps) * 2.0**bias if most is None else most
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - bias)
        self.resolution = 10.0 ** -int(mantissa * 0.30103)

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
                f"eps={self.eps:g}, tiny={self.tiny:g}, dtype={self.dtype})")  # fmt: skip


class iinfo:  # noqa: N801 - torch's name
    """Limits of an integer dtype: bits, max and min. TypeError for another dtype."""

    def __init__(self, dtype: DType | str) -> None:
        found = as_dtype(dtype)
        if found.kind not in "ui":
            raise TypeError(f"iinfo: {found.name} is not an integer dtype; use finfo")
        self.dtype, self.bits = found.name, 8 * found.itemsize
        signed = found.kind == "i"
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -self.max - 1 if signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
