"""Longformer's attention (Beltagy et al., 2020): a window, and tokens that all see."""

from __future__ import annotations

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderLayer, EncoderSpec
from rushlight.models.layers.naming import put

_WIDE = "_global"


class WideWindowLayer(EncoderLayer):
    """A layer with further projections for the tokens that see all."""

    def __init__(self, spec: EncoderSpec) -> None:
        super().__init__(spec)
        for name in (spec.names.q, spec.names.k, spec.names.v):
            put(self, name + _WIDE, nn.Linear(spec.width, spec.width))

    def _attention(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        if context.wide is None:
            return super()._attention(x, context, layer)
        names, (batch, length, _) = self.spec.names, x.shape
        window = self.spec.windows[layer] or length
        wide = context.wide != 0
        at = ops.arange(length, device=x.device)
        near = ((at.unsqueeze(1) - at).abs() < window).reshape(1, 1, length, length)
        mask = near | wide.reshape(batch, 1, 1, length)
        mask = mask if context.mask is None else mask & context.mask
        y = ops.attention(*self._parts(x), mask=mask)
        shape = (batch, length, self.spec.heads, -1)
        q, k, v = (
            self._called(name + _WIDE, x).reshape(*shape).transpose(1, 2)
            for name in (names.q, names.k, names.v)
        )
        of_all = ops.attention(q, k, v, mask=context.mask)
        y = ops.where(wide.reshape(batch, 1, length, 1), of_all, y)
        return self._called(names.out, y.transpose(1, 2).reshape(batch, length, -1))
