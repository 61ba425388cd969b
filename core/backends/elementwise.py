"""The elementwise ops: one row each, which every backend turns into a kernel of its own.

The rows are filled in by the op families (ops/unary.py, ops/binary.py), where an op's gradient
stands beside its function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One row: `numpy(*inputs, out=array)` computes the op on arrays of one shape and dtype."""

    name: str
    arity: int
    numpy: Callable[..., Any]


ELEMENTWISE: dict[str, Elementwise] = {}


def elementwise(name: str, arity: int, numpy: Callable[..., Any]) -> None:
    """Add a row."""
    ELEMENTWISE[name] = Elementwise(name, arity, numpy)
