"""DType and Field: the layout of elements in memory, and the formula of a quantized type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
# Bytes of each kind of field.
FIELD_BYTES = {"u8": 1, "i8": 1, "f16": 2, "f32": 4, "e8m0": 1, "ue4m3": 1}


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a block of quantized elements.

    kind: "u8", "i8", "f16", "f32" (at a multiple of four bytes), "e8m0" (half of 2 ** (n - 127), in
    a byte) or "ue4m3" (half of a float of four and three bits; 0x7f is 0). offset: its first byte
    in the block. count: the number of values; None for a single one.
    """

    kind: str
    offset: int
    count: int | None


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One row of the dtype table.

    name: torch's name. kind: "b" bool, "u" unsigned, "i" signed, "f" floating, "c" complex,
    "q" quantized blocks. itemsize: bytes of one block. block: elements per block. numpy: the NumPy
    dtype of the stored bits. gguf: ggml's number of the type, where GGUF has it.

    A quantized dtype also has `fields`, by name, and `value(b, i)`: element i of block b, whose
    attributes are the fields. Each device evaluates this formula over its own kind of numbers;
    core/basis/quantized.py lists the operations that a formula may use.

    `encoded`: stored as integers that NumPy cannot compute with. It raises nothing.
    """

    name: str
    kind: str
    itemsize: int
    numpy: np.dtype[Any]
    block: int = 1
    encoded: bool = field(default=False)  # stored as integers that NumPy cannot compute with
    gguf: int | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)
    value: Callable[[Any, Any], Any] | None = None

    @property
    def is_floating_point(self) -> bool:
        """Whether elements are floating-point numbers (quantized blocks are not)."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return self.kind == "c"

    @property
    def is_signed(self) -> bool:
        """Whether the dtype holds negative numbers."""
        return self.kind in "ifc"

    def to_complex(self) -> DType:
        """The complex dtype of such parts: complex128 for float64, else complex64."""
        from rushlight.core.basis.dtype import complex_of  # it imports this module

        return complex_of(self)

    def to_real(self) -> DType:
        """The dtype of the parts of complex numbers; of others the dtype itself."""
        from rushlight.core.basis.dtype import PARTS  # it imports this module

        return PARTS.get(self, self)

    @property
    def category(self) -> int:
        """0 for bool, 1 for integers, 2 for floating point, 3 for complex.

        Promotion never goes down.
        """
        if self.kind == "q":
            raise TypeError(f"arithmetic on {self.name} blocks is not supported; dequantize() them")
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
