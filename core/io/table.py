"""What a reader of weight files returns: a table of tensors and where their bytes lie."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.core.dtype import DType


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: `nbytes` bytes from `offset`, counted from the start of the file."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds: its tensors in the order of their bytes, and its own metadata."""

    entries: dict[str, Entry]
    metadata: dict[str, str] = field(default_factory=dict)
