"""Lowerings of the cpu device: from an op to a call of a C kernel.

A lowering takes (inputs, out, attrs) as a backend does. It returns the Record of a kernel, or None
if dtype, layout or size are not supported: then NumPy's kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.lowering import blocks, elementwise, movement, nn, products
from rushlight.core.backends.cpu.simd import Record

Lowering = Callable[[Sequence[Any], Any, Mapping[str, Any]], Record | None]


def record(name: str, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    """The Record of an op, or None if NumPy's kernel runs."""
    of = out if not inputs or inputs[0] is None else inputs[0]
    if simd.library is None or out.dtype not in simd.CODES or of.dtype not in simd.CODES:
        return None
    if inputs and inputs[0] is out and not out.buffer.flags.writeable:
        return None  # in place on read-only memory, which NumPy refuses
    for table in TABLES:
        lowering = table.get(name)
        if lowering is not None and (call := lowering(inputs, out, attrs)) is not None:
            return call
    return None


# The first table whose lowering returns a Record decides.
TABLES: tuple[Mapping[str, Lowering], ...] = (
    {**elementwise.LOWERINGS, **movement.LOWERINGS, **nn.LOWERINGS},
    blocks.LOWERINGS,
    products.LOWERINGS,
)
