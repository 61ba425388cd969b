"""YOSO's layers (Zeng et al., 2021): tokens attend as often as random hashes of them are equal."""

from __future__ import annotations

import math

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.blocks.value_conv import PATH
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put


def _unit(x: Tensor) -> Tensor:
    """x (..., features) with vectors of length 1."""
    return x / ((x * x).sum(-1, keepdim=True).sqrt()).clamp(min=1e-12)


class HashLayer(EncoderLayer):
    """A layer that weighs values by the chance that `bits` random planes do not part two tokens.

    conv: the places of a convolution of values beside, one kernel for each head; None: none.
    """

    def __init__(self, spec: EncoderSpec, bits: int, conv: int | None) -> None:
        super().__init__(spec)
        self.bits, self.conv = bits, conv
        if conv is not None:
            heads, padding = spec.heads, (conv // 2, 0)
            kernels = nn.Conv2d(heads, heads, (conv, 1), padding=padding, groups=heads, bias=False)
            put(self, PATH, kernels)

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """The expected sums of values, (batch, heads, length, head), as directions."""
        turns = (_unit(q) @ _unit(k).transpose(-1, -2)).clamp(-1, 1)
        weights = (1 - ops.acos(turns) / math.pi) ** self.bits
        if context.mask is not None:
            weights = weights * context.mask.to(weights.dtype)
            v = v * context.mask.transpose(-1, -2).to(v.dtype)
        y = _unit(weights @ v)
        return y if self.conv is None else y + self._called(PATH, v)
