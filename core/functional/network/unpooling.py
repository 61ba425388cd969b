"""Unpooling: values go back to the places of which max pooling took them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.network.pooling import Size, each
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import network

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _unpool(rank: int) -> Any:
    name = f"max_unpool{rank}d"

    def call(
        input: Tensor,
        indices: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        k, p = each(name, kernel_size, rank), each(name, padding, rank)
        s = k if stride is None or stride == [] else each(name, stride, rank)
        if input.ndim not in (rank + 1, rank + 2) or input.shape != indices.shape:
            raise ShapeError(
                f"{name}: x is {input.shape} and indices {indices.shape}; they must be equal and "
                f"have {rank + 1} or {rank + 2} dims"
            )
        usual = [(n - 1) * s[i] - 2 * p[i] + k[i] for i, n in enumerate(input.shape[-rank:])]
        sizes = list(output_size)[-rank:] if output_size is not None else usual
        bad = any(abs(a - b) >= step for a, b, step in zip(sizes, usual, s, strict=True))
        if len(sizes) != rank or bad or min(sizes, default=0) < 0:
            raise ShapeError(f"{name}: output_size {output_size} is not near {usual}")
        lead = input.shape[:-rank]
        count = int(np.prod(input.shape[-rank:]))
        empty = zeros(*lead, int(np.prod(sizes)), dtype=input.dtype, device=input.device)
        flat = empty.scatter(-1, indices.reshape(*lead, count), input.reshape(*lead, count))
        return flat.reshape(*lead, *sizes)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"Values at the flat indices that max_pool{rank}d returned, zeros elsewhere; output_size "
        "chooses between sizes that were pooled to one. `input` and `indices` have one shape; "
        "`kernel_size`, `stride` (the kernel's unless set) and `padding` are the pooling's. Raises "
        "ShapeError for a size that these do not allow."
    )
    return network(casts(cpu=None if rank == 1 else "float32")(call))


max_unpool1d, max_unpool2d, max_unpool3d = _unpool(1), _unpool(2), _unpool(3)
