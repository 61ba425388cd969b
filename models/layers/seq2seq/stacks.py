"""Stacks of layers of encoder-decoders: an encoder, or a decoder that reads its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.mlp import put_mlp, run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.positions.distances import RelativeBias
from rushlight.models.layers.seq2seq.cross import MemoryAttention, Turn
from rushlight.models.layers.seq2seq.prompts import Prompts, before, seeing
from rushlight.models.layers.seq2seq.sinusoids import sinusoids
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.ssru import SSRU


@dataclass(frozen=True)
class StackContext:
    """What every layer reads: masks and biases of scores, the cache, and the memory.

    watched: the heads of each layer whose weights of the memory are noted in `seen`. turn: cos and
    sin that rotate queries and keys of self-attention. prompts: keys and values of each layer
    before those of all tokens. shared: what a layer leaves for later ones. rows (batch, n, width):
    what is in place of the first n embedded tokens.
    """

    options: dict[str, Any]
    cache: Cache | None = None
    memory: Memory | None = None
    watched: Mapping[int, Sequence[int]] = field(default_factory=dict)
    seen: dict[int, Tensor] = field(default_factory=dict)
    turn: Turn = None
    prompts: Sequence[tuple[Tensor, Tensor]] = ()
    shared: dict[str, Tensor] = field(default_factory=dict)
    rows: Tensor | None = None


class Layer(nn.Module):
    """Self-attention, attention to the memory in a decoder, and a feed-forward part."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> None:
        self.spec, self.stack, self.number, names = spec, stack, layer, stack.names
        self.crosses = stack is spec.decoder or stack.crosses
        attention = (
            SSRU(spec.width) if stack.recurrent else MemoryAttention(spec.width, stack.attention)
        )
        put(self, names.attention, attention)
        put(self, names.attention_norm, make_norm(spec.width, spec.norm))
        if spec.relative is not None and (layer == 0 or spec.relative.every_layer):
            bias = RelativeBias(spec.relative, stack.attention.heads, not self.crosses)
            put(self, f"{names.attention}.{names.relative}", bias)
        if self.crosses:
            put(self, names.cross, MemoryAttention(spec.width, stack.attention, stack.memory))
            put(self, names.cross_norm, make_norm(spec.width, spec.norm))
        self.put_feed_forward()
        put(self, names.mlp_norm, make_norm(spec.width, spec.norm))

    def put_feed_forward(self) -> None:
        """Put the matrices of the feed-forward part."""
        put_mlp(self, self.spec.width, self.stack.mlp)

    def relative(self) -> RelativeBias:
        """The module of relative positions."""
        names = self.stack.names
        relative: Any = self.get_submodule(f"{names.attention}.{names.relative}")
        return relative  # type: ignore[no-any-return]

    def forward(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        """(batch, length, width) -> the same; bias: of the scores of self-attention."""
        names, before = self.stack.names, self.spec.place == "before"
        norms: Any = (names.attention_norm, names.cross_norm, names.mlp_norm)
        for norm, block in zip(norms, (self._attention, self._cross, self._mlp), strict=True):
            if block == self._cross and (not self.crosses or context.memory is None):
                continue
            y = block(self._normed(norm, x) if before else x, context, bias)
            x = x + y if before else self._normed(norm, x + y)
        return x

    def _normed(self, name: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(name)(x)
        return out

    def _attention(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        attention: Any = self.get_submodule(self.stack.names.attention)
        if self.stack.recurrent:
            state: Tensor = attention(x, context.cache, self.number)
            return state
        k, v = attention.memory(x, context.turn)
        if context.cache is not None:
            k, v = context.cache.write(self.number, context.options["q_offset"], k, v)
        if bias is not None:
            bias = bias[..., : k.shape[2]]
        options = context.options
        if context.prompts:
            prompt = context.prompts[self.number]
            (k, v), options = before(prompt, k, v), seeing(prompt[0].shape[2], options)
        out: Tensor = attention(x, (k, v), context.turn, bias=bias, **options)
        return out

    def _cross(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        assert context.memory is not None
        cross: Any = self.get_submodule(self.stack.names.cross)
        keys, values = context.memory.layers[self.number]
        if self.number in context.watched:
            context.seen[self.number] = cross.weights(x, keys, context.watched[self.number])
        # Rows that read the same memory are more queries of it.
        rows = x.reshape(keys.shape[0], -1, x.shape[2])
        out: Tensor = cross(rows, (keys, values), mask=context.memory.mask)
        return out.reshape(*x.shape)

    def _mlp(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        return run_mlp(self, self.stack.mlp, x)


class Stacked(nn.Module):
    """A module with stacks of `spec`, and the tokens' and positions' tables that they read."""

    spec: Seq2SeqSpec
    _sinusoids: Tensor | None = None

    def put_stack(self, stack: StackSpec, vocab: int) -> None:
        """Put the parameters of a stack, and a table of `vocab` tokens if there is none yet."""
        names, spec = stack.names, self.spec
        if names.embedding not in dict(self.named_modules()):
            put(self, names.embedding, nn.Embedding(vocab, spec.width))
        layers = nn.ModuleList([(stack.make or Layer)(spec, stack, i) for i in range(stack.layers)])
        if stack.leading is not None:
            put(
                self, f"{names.base}.{stack.leading[0]}", nn.Embedding(stack.leading[1], spec.width)
            )
        if stack.prompts is not None:
            for name in (names.prompt, names.cross_prompt)[: 1 + (stack is spec.decoder)]:
                prompts = Prompts(spec.width, stack.prompts, stack.layers, stack.attention)
                put(self, f"{names.base}.{name}", prompts)
        put(self, f"{names.base}.{names.layers}", layers)
        if spec.positions is not None and spec.positions.kind == "learned":
            rows = (stack.context or spec.context) + spec.positions.offset
            table = nn.Embedding(rows, spec.width)
            put(self, f"{names.base}.{names.positions}", table)
        if names.types is not None:
            put(self, f"{names.base}.{names.types}", nn.Embedding(stack.types, spec.width))
        for norm in (names.embedding_norm, names.norm):
            if norm is not None:
                put(self, f"{names.base}.{norm}", make_norm(spec.width, spec.norm))

    def _layers(self, stack: StackSpec) -> Any:
        return self.get_submodule(f"{stack.names.base}.{stack.names.layers}")

    def _run(
        self, stack: StackSpec, ids: Tensor, offset: Tensor | int, context: StackContext
    ) -> Tensor:
        names, cache = stack.names, context.cache
        x = self._embedded(stack, ids, offset, context.rows)
        if stack.prompts is not None:
            context = replace(context, prompts=self.get_submodule(f"{names.base}.{names.prompt}")())
        if stack.leading is not None:
            table: Any = self.get_submodule(f"{names.base}.{stack.leading[0]}")
            first = table.weight
            x = ops.cat([first.to(x.dtype).expand(x.shape[0], *first.shape), x], 1)
        keys = ids.shape[1] if cache is None else cache.capacity
        bias: Tensor | None = None
        for i, layer in enumerate(self._layers(stack)):
            if self.spec.relative is not None and (i == 0 or self.spec.relative.every_layer):
                bias = layer.relative().bias(ids.shape[1], keys, offset)
            x = layer(x, context, bias)
        x = x if stack.leading is None else x[:, stack.leading[1] :]
        if names.norm is not None:
            x = self.get_submodule(f"{names.base}.{names.norm}")(x)
        return x

    def _embedded(
        self, stack: StackSpec, ids: Tensor, offset: Tensor | int, rows: Tensor | None = None
    ) -> Tensor:
        # (batch, length) -> (batch, length, width)
        spec, names, positions = self.spec, stack.names, self.spec.positions
        x: Tensor = self.get_submodule(names.embedding)(ids)
        if spec.embedding_scale != 1:
            x = x * spec.embedding_scale
        if rows is not None:
            x = ops.cat([rows.to(x.dtype), x[:, rows.shape[1] :]], 1)
        if names.embedding_norm is not None and stack.positions_last:
            x = self.get_submodule(f"{names.base}.{names.embedding_norm}")(x)
        if positions is not None:
            first = offset if isinstance(offset, int) else offset.unsqueeze(1)
            if positions.padding is None:
                positions_of_ids = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
                positions_of_ids = positions_of_ids + first + positions.offset
            else:
                real = (ids != positions.padding).long()
                positions_of_ids = (ops.cumsum(real, 1) + first) * real + positions.padding
            x = x + self._position_rows(names, positions_of_ids).to(x.dtype)
        if names.types is not None:
            kinds: Any = self.get_submodule(f"{names.base}.{names.types}")
            x = x + kinds.weight[0].to(x.dtype)
        if names.embedding_norm is not None and not stack.positions_last:
            x = self.get_submodule(f"{names.base}.{names.embedding_norm}")(x)
        return x

    def _position_rows(self, names: StackNames, at: Tensor) -> Tensor:
        assert self.spec.positions is not None
        if self.spec.positions.kind == "learned":
            out: Tensor = self.get_submodule(f"{names.base}.{names.positions}")(at)
            return out
        table = self._sinusoids
        if table is None or table.device is not at.device:
            table = self._table()
        assert table is not None
        return ops.embedding(table, at)

    def _table(self) -> Tensor | None:
        spec, positions = self.spec, self.spec.positions
        if positions is None or positions.kind == "learned":
            return None
        table = sinusoids(spec.context + positions.offset, spec.width, positions.kind)
        if positions.padding is not None and positions.padding < len(table):
            table[positions.padding] = 0
        return tensor(table, device=next(iter(self.parameters())).device)
