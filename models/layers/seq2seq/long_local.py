"""Self-attention of LongT5's encoders: to near tokens, and to sums of blocks of all of the text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.positions.distances import RelativeBias
from rushlight.models.layers.seq2seq.blocks import in_blocks, in_each, joined, with_neighbours
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext

GLOBAL_BIAS, GLOBAL_NORM = "global_relative_attention_bias", "global_input_layer_norm"
SIDE = "side"  # the bias of the sums, which the first layer leaves for later ones


@dataclass(frozen=True)
class LongLayers:
    """Makes layers whose tokens see the `radius` nearest ones on both sides.

    block: and the sums of the text's blocks of so many tokens; None: there are none.
    """

    radius: int
    block: int | None = None

    def __post_init__(self) -> None:
        if self.radius < 0 or (self.block is not None and self.block < 1):
            raise FormatError(
                f"config.json: local_radius {self.radius} and global_block_size {self.block} do "
                "not fit; supported: local_radius from 0, global_block_size from 1"
            )

    def __call__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> nn.Module:
        """The layer of this number."""
        return LongLayer(spec, stack, layer, self)


class _OfBlocks:
    """The bias of a block's queries and the keys of it and its neighbours."""

    def __init__(self, relative: RelativeBias, size: int) -> None:
        self.relative, self.size = relative, size

    def bias(self, queries: int, keys: int, offset: Any) -> Tensor:
        """(1, heads, size, 3 * size), whatever the length of the text."""
        weight: Any = self.relative.weight
        at = ops.arange(3 * self.size, device=weight.device) - self.size
        return self.relative.of_distance(at - ops.arange(self.size, device=at.device).unsqueeze(1))


class LongLayer(Layer):
    """A layer of an encoder of long texts (Guo et al., 2021)."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int, told: LongLayers) -> None:
        super().__init__(spec, stack, layer)
        self.told, self.size, path = told, told.radius + 1, stack.names.attention
        if told.block is None:
            return
        put(self, f"{path}.{GLOBAL_NORM}", make_norm(spec.width, spec.norm))
        if layer == 0 and spec.relative is not None:
            bias = RelativeBias(spec.relative, stack.attention.heads, True)
            put(self, f"{path}.{GLOBAL_BIAS}", bias)

    def relative(self) -> Any:
        """What gives the bias of near tokens."""
        return _OfBlocks(super().relative(), self.size)

    def _attention(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        attention: Any = self.get_submodule(self.stack.names.attention)
        mask, size, (batch, length, _) = context.options.get("mask"), self.size, x.shape
        real = ops.ones(batch, 1, length, 1, device=x.device)
        if mask is not None:
            real = mask.transpose(2, 3).to(real.dtype)
        q, k, v = (attention.split(name, x) for name in attention.projections)
        queries, keys, values = (
            in_blocks(q, size),
            with_neighbours(k, size),
            with_neighbours(v, size),
        )
        count = queries.shape[0] // batch
        near = (ops.arange(3 * size, device=x.device) - size).unsqueeze(0)
        near = (near - ops.arange(size, device=x.device).unsqueeze(1)).abs() < size
        seen = with_neighbours(real, size).transpose(2, 3) * near.float()
        assert bias is not None
        if self.told.block is not None and length >= self.told.block:
            ids, visible = self._blocks_of(real[:, 0, :, 0], self.told.block)
            if self.number == 0:
                context.shared[SIDE] = self._side_bias(ids, visible.shape[1])
            k, v = (in_each(t, count) for t in self._sums(attention, x, ids, visible.shape[1]))
            keys, values = ops.cat([keys, k], 2), ops.cat([values, v], 2)
            side = in_blocks(context.shared[SIDE].to(bias.dtype), size)
            bias = ops.cat([bias.expand(side.shape[0], *bias.shape[1:]), side], 3)
            others = in_each(visible.float()[:, None, None, :], count)
            seen = ops.cat([seen, others.expand(*seen.shape[:3], others.shape[3])], 3)
        y = attention.attend(queries, keys, values, mask=seen > 0, bias=bias)
        return attention.merged(joined(y, batch, length))  # type: ignore[no-any-return]

    def _blocks_of(self, real: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The block of each token, (batch, length), -1 for none, and whether blocks are seen.

        Tokens after the last whole block belong to it.
        """
        length = real.shape[1]
        at = ops.arange(length, device=real.device)
        whole = ((at % size == size - 1).float() * real).sum(1, keepdim=True).long() - 1
        ids = ops.minimum(ops.where(real > 0, at // size, -1), whole)
        blocks = ops.arange(length // size, device=real.device)
        return ids, blocks.unsqueeze(0) <= ids.amax(1, keepdim=True)

    def _sums(self, attention: Any, x: Tensor, ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, heads, count, head_dim) of the normalised sums of blocks."""
        blocks = ops.arange(count, device=x.device).unsqueeze(1)
        sums = (ids.unsqueeze(1) == blocks).to(x.dtype) @ x
        normed = attention.get_submodule(GLOBAL_NORM)(sums)
        _, k, v = attention.projections
        return attention.split(k, normed), attention.split(v, normed)

    def _side_bias(self, ids: Tensor, count: int) -> Tensor:
        """(batch, heads, length, count): of the distance of a token's block and each block."""
        relative: Any = self.get_submodule(f"{self.stack.names.attention}.{GLOBAL_BIAS}")
        blocks = ops.arange(count, device=ids.device)
        return relative.of_distance(blocks - ids.unsqueeze(2))  # type: ignore[no-any-return]


def with_long_layers(stack: StackSpec, name: str, told: LongLayers) -> StackSpec:
    """An encoder's `stack` with such attention under the name that the checkpoint has for it."""
    names = replace(stack.names, attention=name)
    return replace(stack, names=names, make=told)
