"""Where the fields of quantized blocks lie on the device: planes of whole words.

A GGUF block of 18 or 34 bytes cannot be read as words. So fields that have a bit or more of every
element are planes of their own, and the other fields, scales mostly, are one plane together. A
type whose formula looks into a codebook has its blocks whole, in a single plane, as a kernel can
bind only so many buffers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rushlight.core.basis.codebooks import Codebook
from rushlight.core.basis.element import FIELD_BYTES, DType, Field
from rushlight.core.basis.unpacking import Stored

MOST_PLANES = 3


class Part(NamedTuple):
    """Bytes of a block: their place in its plane, their place in the file, how many."""

    at: int
    start: int
    nbytes: int


class Plane(NamedTuple):
    """One plane: its bytes per block (1, 2, or whole words), and what they are."""

    nbytes: int
    parts: tuple[Part, ...]


class _Noting(Stored):
    """A block that notes the codebooks that a formula looks into."""

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype, np.zeros((1, dtype.itemsize), np.uint8))
        self.codebooks: dict[str, Codebook] = {}

    def lookup(self, numbers: Any, index: Any) -> Any:
        if isinstance(numbers, Codebook):
            self.codebooks[numbers.name] = numbers
        return super().lookup(numbers, index)


@cache
def codebook_of(dtype: DType) -> Codebook | None:
    """What the formula of a type looks into besides its block."""
    assert dtype.value is not None, dtype
    block = _Noting(dtype)
    dtype.value(block, np.arange(dtype.block, dtype=np.int16))
    if len(block.codebooks) > 1:
        raise TypeError(f"the formula of {dtype.name} has two codebooks")
    return next(iter(block.codebooks.values()), None)


def is_whole(dtype: DType) -> bool:
    """Whether the blocks of a type lie whole, in one plane."""
    return len(planes_of(dtype)) == 1


def _size(field: Field) -> int:
    return FIELD_BYTES[field.kind] * (field.count or 1)


def _plane(fields: list[Field]) -> Plane:
    """The fields of the widest elements first, so that all lie at multiples of their width."""
    parts, offset = [], 0
    for field in sorted(fields, key=lambda f: (-(_size(f) & -_size(f)), f.offset)):
        parts.append(Part(offset, field.offset, _size(field)))
        offset += _size(field)
    return Plane(offset if offset < 3 else -(-offset // 4) * 4, tuple(parts))


@cache
def planes_of(dtype: DType) -> tuple[Plane, ...]:
    """The planes of a quantized type, in their order in the buffer: the small fields first."""
    fields = list(dtype.fields.values())
    large = [f for f in fields if _size(f) * 8 >= dtype.block and _size(f) % 4 == 0]
    small = [f for f in fields if f not in large]
    if codebook_of(dtype) or len(large) + bool(small) > MOST_PLANES:
        return (_plane(fields),)
    return (*([_plane(small)] if small else []), *(_plane([f]) for f in large))
