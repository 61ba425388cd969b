"""Lowerings of the webgpu device: for every op the function that records its dispatches.

A lowering is `fn(emitter, inputs, out, attrs)`. `out` is contiguous, begins on a whole word and
shares no memory with an input, except for the ops of IN_PLACE.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs
from rushlight.core.backends.webgpu.lowering import (
    attention,
    creation,
    fused,
    indexing,
    map,
    movement,
    norm,
    quantized,
    random,
    reduce,
    rope,
    scan,
    sort,
)
from rushlight.core.backends.webgpu.lowering.products import conv, experts, linear, matmul, pooling

Lowering = Callable[[Emitter, Inputs, Operand, Attrs], None]

LOWERINGS: dict[str, Lowering] = {
    **creation.LOWERINGS,
    **matmul.LOWERINGS,
    **linear.LOWERINGS,
    **conv.LOWERINGS,
    **experts.LOWERINGS,
    **pooling.LOWERINGS,
    **movement.LOWERINGS,
    **indexing.LOWERINGS,
    **norm.LOWERINGS,
    **rope.LOWERINGS,
    **attention.LOWERINGS,
    **reduce.LOWERINGS,
    **quantized.LOWERINGS,  # over `cast`
    **random.LOWERINGS,
    **scan.LOWERINGS,
    **fused.LOWERINGS,
    **sort.LOWERINGS,
}
# Ops whose `out` may be their first input, with the same layout, strided or not.
IN_PLACE: frozenset[str] = (
    movement.IN_PLACE | indexing.IN_PLACE | attention.IN_PLACE | fused.IN_PLACE | rope.IN_PLACE
)


def lowering_of(name: str) -> Lowering | None:
    """The lowering of an op, or None."""
    return map.elementwise if name in ELEMENTWISE else LOWERINGS.get(name)
