"""Plans: for every op the function that records its dispatches.

A plan is `fn(emitter, inputs, out, attrs)`. `out` is contiguous, begins on a whole word and shares
no memory with an input, except for the ops of IN_PLACE.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.core.backends import Operand
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs
from rushlight.core.backends.webgpu.plans import (
    attention,
    conv,
    creation,
    experts,
    fused,
    indexing,
    linear,
    map,
    matmul,
    movement,
    norm,
    quantized,
    random,
    reduce,
    rope,
    scan,
    sort,
)

Plan = Callable[[Emitter, Inputs, Operand, Attrs], None]

PLANS: dict[str, Plan] = {
    **creation.PLANS,
    **matmul.PLANS,
    **linear.PLANS,
    **conv.PLANS,
    **experts.PLANS,
    **movement.PLANS,
    **indexing.PLANS,
    **norm.PLANS,
    **rope.PLANS,
    **attention.PLANS,
    **reduce.PLANS,
    **quantized.PLANS,  # over `cast`
    **random.PLANS,
    **scan.PLANS,
    **fused.PLANS,
    **sort.PLANS,
}
# Ops that may be given an `out` that is their first input, at the same layout, strided or not.
IN_PLACE: frozenset[str] = (
    movement.IN_PLACE | indexing.IN_PLACE | attention.IN_PLACE | fused.IN_PLACE | rope.IN_PLACE
)


def plan_of(name: str) -> Plan | None:
    """The plan of an op, or None where there is none."""
    return map.elementwise if name in ELEMENTWISE else PLANS.get(name)
