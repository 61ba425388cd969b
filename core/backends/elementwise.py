"""The elementwise ops: one row each, which every backend turns into a kernel of its own.

The rows are filled in by the op families (ops/unary.py, ops/binary.py), where an op's gradient
stands beside its function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One row of the table.

    `numpy(*inputs, out=array)` computes the op on arrays of one shape and dtype. wgsl: the same as
    an expression in `a` and `b`, which are f32, i32 or u32 (bool is 0 or 1); one for all, or one
    per kind of dtype ("f", "i", "u", "b"). truth: the expression is a WGSL bool.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    wgsl: str | Mapping[str, str]
    truth: bool = False


ELEMENTWISE: dict[str, Elementwise] = {}


def elementwise(
    name: str,
    arity: int,
    numpy: Callable[..., Any],
    wgsl: str | Mapping[str, str],
    truth: bool = False,
) -> None:
    """Add a row."""
    ELEMENTWISE[name] = Elementwise(name, arity, numpy, wgsl, truth)
