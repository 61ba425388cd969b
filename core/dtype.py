"""The table of dtypes, and which dtype two of them promote to.

A dtype says how elements lie in memory: `block` elements take `itemsize` bytes. Plain dtypes
have a block of one; block-quantized ones (a later family of rows of the same table) have more.
bfloat16 and the two float8 types have no NumPy type of their own: they are stored as unsigned
integers and computed in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2}


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One row of the dtype table.

    name: torch's name. kind: "b" bool, "u" unsigned, "i" signed, "f" floating, "q" quantized
    blocks. itemsize: bytes of one block. block: elements per block. numpy: the NumPy dtype of
    the stored bits.
    """

    name: str
    kind: str
    itemsize: int
    numpy: np.dtype[Any]
    block: int = 1
    encoded: bool = field(default=False)  # stored as integers that NumPy cannot compute with

    @property
    def is_floating_point(self) -> bool:
        """Whether elements are floating-point numbers (quantized blocks are not)."""
        return self.kind == "f"

    @property
    def category(self) -> int:
        """0 for bool, 1 for integers, 2 for floating point; promotion never goes down."""
        if self.kind == "q":
            raise TypeError(f"{self.name} blocks take part in no arithmetic; dequantize() them")
        return _CATEGORY[self.kind]

    def nbytes(self, numel: int) -> int:
        """Bytes that `numel` elements take; `numel` must be a whole number of blocks."""
        if numel % self.block:
            raise ValueError(
                f"{self.name}: {numel} elements are not a whole number of blocks of {self.block}"
            )
        return numel // self.block * self.itemsize

    def __repr__(self) -> str:
        return f"rushlight.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))


def _row(name: str, kind: str, store: Any, encoded: bool = False) -> DType:
    numpy = np.dtype(store)
    return DType(name, kind, numpy.itemsize, numpy, encoded=encoded)


bool_ = _row("bool", "b", np.bool_)
uint8 = _row("uint8", "u", np.uint8)
int8 = _row("int8", "i", np.int8)
int16 = _row("int16", "i", np.int16)
int32 = _row("int32", "i", np.int32)
uint32 = _row("uint32", "u", np.uint32)
int64 = _row("int64", "i", np.int64)
float16 = _row("float16", "f", np.float16)
bfloat16 = _row("bfloat16", "f", np.uint16, encoded=True)
float32 = _row("float32", "f", np.float32)
float64 = _row("float64", "f", np.float64)
float8_e4m3fn = _row("float8_e4m3fn", "f", np.uint8, encoded=True)
float8_e5m2 = _row("float8_e5m2", "f", np.uint8, encoded=True)


def _block(name: str, itemsize: int, block: int = 32) -> DType:
    return DType(name, "q", itemsize, np.dtype(np.uint8), block=block)


# llama.cpp's block-quantized types (ggml-common.h): 32 elements share a float16 scale, the types
# ending in _1 a float16 minimum too; q5 keeps each fifth bit in a word of its own.
q4_0 = _block("q4_0", 18)
q4_1 = _block("q4_1", 20)
q5_0 = _block("q5_0", 22)
q5_1 = _block("q5_1", 24)
q8_0 = _block("q8_0", 34)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        bool_, uint8, int8, int16, int32, uint32, int64,
        float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2,
        q4_0, q4_1, q5_0, q5_1, q8_0,
    )
}  # fmt: skip

from_safetensors: dict[str, DType] = {
    "BOOL": bool_, "U8": uint8, "I8": int8, "I16": int16, "I32": int32, "U32": uint32,
    "I64": int64, "F16": float16, "BF16": bfloat16, "F32": float32, "F64": float64,
    "F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2,
}  # fmt: skip

_NUMPY = {d.numpy: d for d in DTYPES.values() if not d.encoded and d.kind != "q"}
_PYTHON: dict[type, DType] = {bool: bool_, int: int64, float: float32}
_BITS = {uint8: 8, int8: 8, int16: 16, int32: 32, uint32: 32, int64: 64}
_SIGNED = {8: int8, 16: int16, 32: int32, 64: int64}


def as_dtype(value: Any) -> DType:
    """The DType that `value` names: a DType, its name, a NumPy dtype, or bool, int or float.

    Raises TypeError for anything else, naming the dtypes there are.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    if value is float:  # as in torch and NumPy, though a Python float by itself gives float32
        return float64
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    try:
        return _NUMPY[np.dtype(value)]
    except (TypeError, KeyError):
        raise TypeError(f"no dtype {value!r}; there are: {', '.join(DTYPES)}") from None


def of_scalar(value: bool | int | float) -> DType:
    """The dtype that a Python scalar has by itself: bool, int64 or float32."""
    return _PYTHON[bool if isinstance(value, bool) else int if isinstance(value, int) else float]


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that holds both, by torch's rules.

    float16 with bfloat16 gives float32. uint32 with a signed type gives int64 (torch leaves it
    undefined). Raises TypeError for float8 with anything but itself, and for quantized blocks.
    """
    if a is b:
        return a
    for d in (a, b):
        if d.kind == "q" or d in (float8_e4m3fn, float8_e5m2):
            how = "dequantize() the blocks" if d.kind == "q" else "convert one with .to()"
            raise TypeError(f"no promotion between {a.name} and {b.name}; {how}")
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
    return _SIGNED[max(signed, 2 * unsigned)]


def result_type(*operands: tuple[DType, int]) -> DType:
    """The dtype of an op on operands given as (dtype, rank), by torch's rules.

    rank is 2 for a tensor with dims, 1 for a 0-d tensor, 0 for a Python scalar: a lower rank
    counts only where its category (bool < integer < floating) is higher.
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
            # A scalar that only raises the category takes the default of that category.
            result = float32 if rank == 0 and other.kind == "f" else other
    assert result is not None, "result_type needs an operand"
    return result
