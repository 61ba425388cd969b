"""Attention within blocks, and to global rows before the text, which see all of it (PEGASUS-X)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.seq2seq.blocks import in_blocks, in_each, joined
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext

GLOBAL_NORM = "global_self_attn_layer_norm"


@dataclass(frozen=True)
class Blocks:
    """Makes layers with blocks of `size` tokens; every other one's begin half a block earlier."""

    size: int
    staggered: bool

    def __call__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> nn.Module:
        """The layer of this number."""
        shift = self.size // 2 if self.staggered and layer % 2 else 0
        return BlockLayer(spec, stack, layer, self.size, shift)


class BlockLayer(Layer):
    """A layer of an encoder whose tokens see those of their block, and the leading rows."""

    def __init__(
        self, spec: Seq2SeqSpec, stack: StackSpec, layer: int, size: int, shift: int
    ) -> None:
        super().__init__(spec, stack, layer)
        self.size, self.shift = size, shift
        put(self, GLOBAL_NORM, make_norm(spec.width, spec.norm))

    def _normed(self, name: str, x: Tensor) -> Tensor:
        if name != self.stack.names.attention_norm:
            return super()._normed(name, x)
        assert self.stack.leading is not None
        first = self.stack.leading[1]
        parts = (super()._normed(GLOBAL_NORM, x[:, :first]), super()._normed(name, x[:, first:]))
        return ops.cat(parts, 1)

    def _attention(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        # (batch, leading + length, width) -> the same
        assert self.stack.leading is not None
        attention: Any = self.get_submodule(self.stack.names.attention)
        first, mask = self.stack.leading[1], context.options.get("mask")
        batch, count, _ = x.shape
        q, k, v = (attention.split(name, x) for name in attention.projections)
        real = ops.ones(batch, 1, count - first, 1, device=x.device)
        if mask is not None:
            real = mask.transpose(2, 3).to(real.dtype)
        leading = ops.ones(batch, 1, first, 1, device=x.device)
        seen = ops.cat([leading, real], 2).transpose(2, 3) > 0
        y_first = attention.attend(q[:, :, :first], k, v, mask=seen)
        tokens = [
            in_blocks(t, self.size, self.shift)
            for t in (*(t[:, :, first:] for t in (q, k, v)), real)
        ]
        blocks = tokens[0].shape[0] // batch
        keys, values, real = (
            ops.cat([in_each(a, blocks), b], 2)
            for a, b in zip((k[:, :, :first], v[:, :, :first], leading), tokens[1:], strict=True)
        )
        y = attention.attend(tokens[0], keys, values, mask=real.transpose(2, 3) > 0)
        y = ops.cat([y_first, joined(y, batch, count - first, self.shift)], 2)
        return attention.merged(y)  # type: ignore[no-any-return]
