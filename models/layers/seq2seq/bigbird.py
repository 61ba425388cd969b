"""Self-attention of BigBird's encoders (Zaheer et al., 2020): blocks that see a few others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext


@dataclass(frozen=True)
class SparseBlocks:
    """Makes layers whose tokens see their block of `size` tokens, its neighbours, the first block
    and the last one; those of the first and the last block see all.

    repeated: how often more the first block counts. It is in place of that many random blocks, as
    transformers has it outside of training. A text of up to (5 + 2 * repeated) blocks is seen as a
    whole.
    """

    size: int
    repeated: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.repeated < 0:
            raise FormatError(
                f"config.json: block_size {self.size} and num_random_blocks {self.repeated} do not "
                "fit; supported: block_size from 1, num_random_blocks from 0"
            )

    def __call__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> nn.Module:
        """The layer of this number."""
        return SparseLayer(spec, stack, layer, self)


class SparseLayer(Layer):
    """A layer of an encoder with such attention."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int, told: SparseBlocks) -> None:
        super().__init__(spec, stack, layer)
        self.told = told

    def _attention(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        told, length = self.told, x.shape[1]
        if length <= (5 + 2 * told.repeated) * told.size:
            return super()._attention(x, context, bias)
        attention: Any = self.get_submodule(self.stack.names.attention)
        mask = context.options.get("mask")
        block = ops.arange(length, device=x.device) // told.size
        last = (length - 1) // told.size
        ends = (block == 0).float() + (block == last).float()
        near = ((block - block.unsqueeze(1)).abs() <= 1).float()
        seen = near + ends + ends.unsqueeze(1)
        seen = seen if mask is None else seen * mask.float()
        more = math.log(1 + told.repeated) * (block == 0).float()
        bias = (more * (1 - ends).unsqueeze(1))[None, None]
        q, k, v = (attention.split(name, x) for name in attention.projections)
        seen = seen if seen.ndim == 4 else seen[None, None]
        y = attention.attend(q, k, v, mask=seen > 0, bias=bias)
        return attention.merged(y)  # type: ignore[no-any-return]
