"""The table of elementwise ops: one row each, from which every backend makes a kernel.

The op families (ops/unary.py, ops/binary.py) add the rows, next to each op's gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One row of the table.

    `numpy(*inputs, out=array)` computes the op on arrays of one shape and dtype. wgsl: the op as an
    expression in `a` and `b`, which are f32, i32 or u32 (bool is 0 or 1); one expression, or one
    per kind of dtype ("f", "i", "u", "b"). webgpu holds int64 in 32 bits. If a result may exceed
    them, "int64" has an expression that reports it, by functions of library/whole.wgsl. truth: the
    expression is a WGSL bool.
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
