"""The bilinear form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.ops.autocast import casts
from rushlight.core.ops.declare import network, public

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@network
@casts(cpu="inside", accelerator="widest")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1 W_k x2 + b_k for each k: (..., n), (..., m), (k, n, m) -> (..., k).

    `input1` and `input2` are these, then `weight` and `bias`. Raises ShapeError for sizes that do
    not fit.
    """
    left = input1 @ weight.permute(1, 0, 2).reshape(weight.shape[1], -1)
    left = left.reshape(*input1.shape[:-1], weight.shape[0], weight.shape[2])
    out = (left * input2.unsqueeze(-2)).sum(-1, dtype=left.dtype)
    return out if bias is None else out + bias
