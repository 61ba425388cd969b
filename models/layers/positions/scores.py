"""What changes attention's scores by position: ALiBi, chunks, and a temperature of queries.

Layers that ask for the same share one tensor within a call of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from rushlight.core import ops
from rushlight.core.basis.dtype import bfloat16
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.models.layers.attention import AttentionContext, AttentionSpec

Offset = Tensor | int


def shared(context: AttentionContext, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
    """What `make` gives, once for all layers that ask by this key."""
    if key not in context.shared:
        context.shared[key] = make()
    return context.shared[key]


def alibi(
    spec: AttentionSpec, context: AttentionContext, length: int, keys: int, offset: Offset
) -> Tensor:
    """The bias of scores, (1 or batch, heads, length or 1, keys): slope * distance."""
    assert context.positions is not None
    device = context.positions.device

    def make() -> Tensor:
        slopes = tensor(slopes_of(spec.heads, spec.alibi or 0.0), device=device).reshape(-1, 1, 1)
        if spec.alibi_rounded:
            where = ops.arange(keys, device=device)[None, None, None]
            if context.mask is not None:
                where = (ops.cumsum(context.mask.long(), -1) - 1).clamp(min=0)
            bias = (slopes.to(bfloat16) * where.to(bfloat16)).float()
            return bias * (spec.scale or spec.head_dim**-0.5)
        query_positions = ops.arange(length, device=device).unsqueeze(1)
        if not isinstance(offset, int):
            query_positions = query_positions + offset.reshape(-1, 1, 1, 1)
        distance = (ops.arange(keys, device=device) - query_positions).float()
        return slopes * (distance if distance.ndim == 4 else distance[None, None])

    return shared(context, ("alibi", spec, keys), make)


def query_temperature(context: AttentionContext, by: tuple[float, float, float]) -> Tensor:
    """The factor of queries at late positions, (1 or batch, 1, length, 1).

    by: (s, n, m), for 1 + s log(1 + floor((position + m) / n)).
    """
    positions = context.positions
    assert positions is not None

    def make() -> Tensor:
        steps = ((positions.float() + by[2]) / by[1]).floor()
        return (ops.log(steps + 1) * by[0] + 1)[:, None, :, None]

    return shared(context, ("query_temperature", by), make)


def query_power(context: AttentionContext, by: tuple[float, float]) -> Tensor:
    """The factor of queries that grows with their positions, (1 or batch, 1, length, 1).

    by: (p, n), for (1 + (position + 1) / n) to the power of p.
    """
    positions = context.positions
    assert positions is not None

    def make() -> Tensor:
        grown = ops.log((positions.float() + 1) / by[1] + 1) * by[0]
        return grown.exp()[:, None, :, None]

    return shared(context, ("query_power", by), make)


def same_chunk(
    spec: AttentionSpec, context: AttentionContext, offset: Offset, keys: int, chunk: int
) -> Tensor:
    """The mask of keys in the same chunk as a query, (1 or batch, 1, length, keys)."""
    positions = context.positions
    assert positions is not None

    def make() -> Tensor:
        key = positions
        if not isinstance(offset, int):
            first = positions[:, :1] - offset.reshape(-1, 1)  # the position of the first slot
            key = first + ops.arange(keys, device=positions.device)
        same = ((positions // chunk).unsqueeze(2) == (key // chunk).unsqueeze(1)).unsqueeze(1)
        return same if context.mask is None else context.mask & same

    return shared(context, ("chunk", chunk, spec.window, keys), make)


def slopes_of(heads: int, most: float = 8.0) -> list[float]:
    """ALiBi's slope of each head: a geometric series; heads past a power of two lie between."""
    near = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-most * (i + 1) / near) for i in range(near)]
    return slopes + [2.0 ** (-most / 2 * (2 * i + 1) / near) for i in range(heads - near)]
