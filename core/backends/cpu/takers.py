"""Which ops the C kernels take, and how an op is said to them.

A taker gets (inputs, out, attrs) as a backend does and gives the Record of a kernel, or None where
dtype, layout or size do not fit: then NumPy's kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu import (
    simd,
    takers_blocks,
    takers_map,
    takers_move,
    takers_nn,
    takers_products,
)
from rushlight.core.backends.cpu.simd import Record

Taker = Callable[[Sequence[Any], Any, Mapping[str, Any]], Record | None]


def record(name: str, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    """The Record of an op; None where NumPy's kernel runs."""
    if simd.library is None:
        return None
    if inputs and inputs[0] is out and not out.buffer.flags.writeable:
        return None  # in place over memory that is read-only, which NumPy refuses
    for table in TABLES:
        taker = table.get(name)
        if taker is not None and (found := taker(inputs, out, attrs)) is not None:
            return found
    return None


# The first that takes an op has it.
TABLES: tuple[Mapping[str, Taker], ...] = (
    {**takers_map.TAKERS, **takers_move.TAKERS, **takers_nn.TAKERS},
    takers_blocks.TAKERS,
    takers_products.TAKERS,
)
