"""Nyströmformer's layers (Xiong et al., 2021): a convolution of values beside attention."""

from __future__ import annotations

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put

PATH = "attention.self.conv"


class ValueConvLayer(EncoderLayer):
    """A layer whose attention adds a convolution of `size` places; each head has one kernel."""

    def __init__(self, spec: EncoderSpec, size: int) -> None:
        super().__init__(spec)
        heads, padding = spec.heads, (size // 2, 0)
        conv = nn.Conv2d(heads, heads, (size, 1), padding=padding, groups=heads, bias=False)
        put(self, PATH, conv)

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """What attention makes of (batch, heads, length, head), with the convolution of v."""
        y = super().mixed(q, k, v, context, layer)
        if context.mask is not None:
            v = v * context.mask.transpose(-1, -2).to(v.dtype)
        return y + self._called(PATH, v)
