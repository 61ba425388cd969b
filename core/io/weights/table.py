"""The result of reading a weight file's header: a table of tensors and their byte ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.core.basis.dtype import DType


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: `nbytes` bytes from `offset` of the file.

    swapped: the bytes of its numbers are in the order of the other kind of machine.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A file's tensors in the order of their bytes, and its metadata."""

    entries: dict[str, Entry]
    metadata: dict[str, str] = field(default_factory=dict)
