"""The table of dtypes, and which dtype two of them promote to.

A dtype says how elements lie in memory: `block` elements take `itemsize` bytes. Plain dtypes
have a block of one; the quantized ones, whose rows are in quantized.py, have more.
bfloat16 and the two float8 types have no NumPy type of their own: they are stored as unsigned
integers and computed in float32.
"""

from __future__ import annotations

import copyreg
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight.core.basis import quantized
from rushlight.core.basis.element import DType as DType


def _row(name: str, kind: str, store: Any, encoded: bool = False, gguf: int | None = None) -> DType:
    numpy = np.dtype(store)
    return DType(name, kind, numpy.itemsize, numpy, encoded=encoded, gguf=gguf)


bool_ = _row("bool", "b", np.bool_)
uint8 = _row("uint8", "u", np.uint8)
int8 = _row("int8", "i", np.int8, gguf=24)
uint16 = _row("uint16", "u", np.uint16)
int16 = _row("int16", "i", np.int16, gguf=25)
int32 = _row("int32", "i", np.int32, gguf=26)
uint32 = _row("uint32", "u", np.uint32)
uint64 = _row("uint64", "u", np.uint64)
int64 = _row("int64", "i", np.int64, gguf=27)
float16 = _row("float16", "f", np.float16, gguf=1)
bfloat16 = _row("bfloat16", "f", np.uint16, encoded=True, gguf=30)
float32 = _row("float32", "f", np.float32, gguf=0)
float64 = _row("float64", "f", np.float64, gguf=28)
complex64 = _row("complex64", "c", np.complex64)
complex128 = _row("complex128", "c", np.complex128)
float8_e4m3fn = _row("float8_e4m3fn", "f", np.uint8, encoded=True)
float8_e5m2 = _row("float8_e5m2", "f", np.uint8, encoded=True)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        bool_, uint8, int8, uint16, int16, int32, uint32, int64, uint64,
        float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, complex64, complex128,
        *(d for d in vars(quantized).values() if type(d) is DType),
    )
}  # fmt: skip

from_safetensors: dict[str, DType] = {
    "BOOL": bool_, "U8": uint8, "I8": int8, "U16": uint16, "I16": int16, "I32": int32,
    "U32": uint32, "I64": int64, "U64": uint64, "F16": float16, "BF16": bfloat16,
    "F32": float32, "F64": float64, "F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2,
    "C64": complex64,
}  # fmt: skip

_NUMPY = {d.numpy: d for d in DTYPES.values() if not d.encoded and d.kind != "q"}
_PYTHON: dict[type, DType] = {bool: bool_, int: int64, float: float32, complex: complex64}
PARTS = {complex64: float32, complex128: float64}  # the dtype of real and imaginary parts
_BITS = {d: 8 * d.itemsize for d in DTYPES.values() if d.kind in "iu"}
_SIGNED = {8: int8, 16: int16, 32: int32, 64: int64}


def as_dtype(value: Any) -> DType:
    """The DType that `value` names: a DType, its name, a NumPy dtype, or bool, int or float.

    None is the default dtype (`rl.set_default_dtype`). Raises TypeError for anything
    else and names the supported dtypes.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    if value is None:
        return _PYTHON[float]
    if value is float:  # as in torch and NumPy, though a Python float by itself gives float32
        return float64
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    try:
        return _NUMPY[np.dtype(value)]
    except (TypeError, KeyError):
        raise TypeError(
            f"dtype {value!r} is not supported; supported: {', '.join(DTYPES)}"
        ) from None


copyreg.pickle(DType, lambda dtype: (as_dtype, (dtype.name,)))  # each row exists once


def of_scalar(value: bool | int | float | complex) -> DType:
    """The dtype of a Python or NumPy scalar: bool, int64, the default dtype or its complex one."""
    value = value.item() if isinstance(value, np.generic) else value
    return _PYTHON[next(t for t in (bool, int, float, complex) if isinstance(value, t))]


def get_default_dtype() -> DType:
    """The dtype of Python floats, and of what is made without a dtype: float32 at first."""
    return _PYTHON[float]


def set_default_dtype(d: DType | str) -> None:
    """Make `d` the default: float16, bfloat16, float32 or float64. TypeError for other dtypes."""
    kind = as_dtype(d)
    if kind not in (float16, bfloat16, float32, float64):
        raise TypeError(
            f"set_default_dtype: {kind.name} cannot be the default; "
            "supported: float16, bfloat16, float32, float64"
        )
    _PYTHON[float], _PYTHON[complex] = kind, complex_of(kind)


def complex_of(dtype: DType) -> DType:
    """The complex dtype of these parts: complex128 for float64, else complex64."""
    return dtype if dtype.kind == "c" else complex128 if dtype is float64 else complex64


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that holds both, by torch's rules.

    float16 with bfloat16 gives float32. uint16 and uint32 promote with other integers (torch leaves
    it undefined). Raises TypeError for uint64 with a signed type, float8 with anything but itself,
    and for quantized blocks.
    """
    if a is b:
        return a
    for d in (a, b):
        if d.kind == "q" or d in (float8_e4m3fn, float8_e5m2):
            how = "dequantize() the blocks" if d.kind == "q" else "convert one with .to()"
            raise TypeError(f"no promotion between {a.name} and {b.name}; {how}")
    if "c" in (a.kind, b.kind):
        return complex128 if {complex128, float64} & {a, b} else complex64
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.kind == "f":
        if a.itemsize == b.itemsize:
            return float32  # float16 and bfloat16: neither holds the other
        return a if a.itemsize > b.itemsize else b
    bits_a, bits_b = _BITS[a], _BITS[b]
    if a.kind == b.kind:
        return a if bits_a >= bits_b else b
    unsigned, signed = (bits_a, bits_b) if a.kind == "u" else (bits_b, bits_a)
    if unsigned == 64:
        raise TypeError(f"no promotion between {a.name} and {b.name}; convert one with .to()")
    return _SIGNED[max(signed, 2 * unsigned)]


def can_cast(from_: DType, to: DType) -> bool:
    """Whether values of one dtype may be written over another: bool, then integer, then float."""
    return from_.category <= to.category


@lru_cache(4096)
def result_type(*operands: tuple[DType, int]) -> DType:
    """The dtype of an op on operands given as (dtype, rank), by torch's rules.

    rank is 2 for a tensor with dims, 1 for a 0-d tensor, 0 for a Python scalar. An operand of lower
    rank counts only if its category (bool < integer < floating) is higher.
    """
    best: dict[int, DType] = {}
    for dtype, rank in operands:
        best[rank] = promote_types(best[rank], dtype) if rank in best else dtype
    result: DType | None = None
    for rank in sorted(best, reverse=True):
        other = best[rank]
        if result is None:
            result = other
        elif other.kind != "q" and result.kind != "q" and other.category > result.category:
            # A scalar that raises the category gives that category's default dtype.
            result = complex_of(result) if other.kind == "c" and result.kind == "f" else other
    assert result is not None, "result_type needs an operand"
    return result
