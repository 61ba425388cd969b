"""The encoder-decoder skeleton: text to text of any family, by a description of its parts.

The decoder reads the encoder's output as a memory: keys and values of each layer, computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.backends import HOST
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues, State
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.memory import Head, Memory, taken_rows
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.layers.mlp import put_mlp, run_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.positions.distances import RelativeBias
from rushlight.models.layers.seq2seq.cross import MemoryAttention, Turn
from rushlight.models.layers.seq2seq.lengths import begin_decoding, check_length
from rushlight.models.layers.seq2seq.sinusoids import sinusoids
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.ssru import SSRU
from rushlight.models.layers.seq2seq.untying import untie


@dataclass(frozen=True)
class StackContext:
    """What every layer reads: masks and biases of scores, the cache, and the memory.

    watched: the heads of each layer whose weights of the memory are noted in `seen`. turn: cos and
    sin that rotate queries and keys of self-attention.
    """

    options: dict[str, Any]
    cache: Cache | None = None
    memory: Memory | None = None
    watched: Mapping[int, Sequence[int]] = field(default_factory=dict)
    seen: dict[int, Tensor] = field(default_factory=dict)
    turn: Turn = None


class Layer(nn.Module):
    """Self-attention, attention to the memory in a decoder, and a feed-forward part."""

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> None:
        self.spec, self.stack, self.number, names = spec, stack, layer, stack.names
        self.crosses = stack is spec.decoder
        own = SSRU(spec.width) if stack.recurrent else MemoryAttention(spec.width, stack.attention)
        put(self, names.attention, own)
        put(self, names.attention_norm, make_norm(spec.width, spec.norm))
        if spec.relative is not None and (layer == 0 or spec.relative.every_layer):
            bias = RelativeBias(spec.relative, stack.attention.heads, not self.crosses)
            put(self, f"{names.attention}.{names.relative}", bias)
        if self.crosses:
            put(self, names.cross, MemoryAttention(spec.width, stack.attention))
            put(self, names.cross_norm, make_norm(spec.width, spec.norm))
        put_mlp(self, spec.width, stack.mlp)
        put(self, names.mlp_norm, make_norm(spec.width, spec.norm))

    def relative(self) -> RelativeBias:
        """The module of relative positions."""
        names = self.stack.names
        found: Any = self.get_submodule(f"{names.attention}.{names.relative}")
        return found  # type: ignore[no-any-return]

    def forward(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        """(batch, length, width) -> the same; bias: of the scores of self-attention."""
        names, before = self.stack.names, self.spec.place == "before"
        norms: Any = (names.attention_norm, names.cross_norm, names.mlp_norm)
        for norm, part in zip(norms, (self._attention, self._cross, self._mlp), strict=True):
            if part == self._cross and not self.crosses:
                continue
            y = part(self.get_submodule(norm)(x) if before else x, context, bias)
            x = x + y if before else self.get_submodule(norm)(x + y)
        return x

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
        out: Tensor = attention(x, (k, v), context.turn, bias=bias, **context.options)
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


class Seq2Seq(Seq2SeqLM):
    """Text to text by `spec`."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec) -> None:
        self.config, self.spec = config, spec
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.source_vocab_size = spec.vocab if spec.source_vocab is None else spec.source_vocab
        for stack, vocab in ((spec.encoder, spec.source_vocab), (spec.decoder, None)):
            names, rows = stack.names, spec.vocab if vocab is None else vocab
            if names.embedding not in dict(self.named_modules()):
                put(self, names.embedding, nn.Embedding(rows, spec.width))
            put(self, f"{names.base}.{names.layers}",
                nn.ModuleList([Layer(spec, stack, i) for i in range(stack.layers)]))  # fmt: skip
            if spec.positions is not None and spec.positions.kind == "learned":
                table = nn.Embedding(spec.context + spec.positions.offset, spec.width)
                put(self, f"{names.base}.{names.positions}", table)
            for norm in (names.embedding_norm, names.norm):
                if norm is not None:
                    put(self, f"{names.base}.{norm}", make_norm(spec.width, spec.norm))
        if not spec.tied:
            self.lm_head = nn.Linear(spec.width, spec.vocab, bias=False)
        if spec.logits_bias:
            self.final_logits_bias = parameter(1, spec.vocab)
        self._sinusoids: Tensor | None = None
        self.duplicates = self._duplicates()

    def _duplicates(self) -> dict[str, str]:
        """Tensors that checkpoints may hold beside the one that they are equal to; "": computed."""
        spec, found = self.spec, {}
        for stack in (spec.encoder, spec.decoder):
            names, table = stack.names, f"{stack.names.embedding}.weight"
            found[f"{names.base}.embed_tokens.weight"] = table
            found[f"{names.base}.{names.positions}.weights"] = ""
            found[f"{names.base}.version"] = ""
            cross = f"{names.base}.{names.layers}.0.{names.cross}"
            found[f"{cross}.{names.relative}.weight"] = ""
        if spec.encoder.names.embedding != spec.decoder.names.embedding:
            found[f"{StackNames.embedding}.weight"] = ""
        return found | ({"lm_head.weight": table} if spec.tied else {})

    def untie(self, name: str) -> dict[str, str]:
        """Give the head, or the embedding of a stack, a weight of its own."""
        return untie(self, name)

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer of the decoder."""
        stack, a = self.spec.decoder, self.spec.decoder.attention
        state, kept = State(((self.spec.width,),)), KeysAndValues(a.heads, a.head_dim)
        return (state if stack.recurrent else kept,) * stack.layers

    def prepare(self) -> None:
        """Make the table of sinusoidal positions on the parameters' device."""
        self._sinusoids = self._table()

    def forward(
        self,
        ids: Tensor,
        decoder_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, decoder length, vocab) of ids and decoder_ids, (batch, length) each.

        The masks (batch, length) are false or zero for padding. Raises ValueError past the context.
        """
        memory = self.remember(self.encode(ids, attention_mask), attention_mask)
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's hidden states (batch, length, width) of ids (batch, length)."""
        check_length(self, ids, 0)
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        return self._run(self.spec.encoder, ids, 0, StackContext({"mask": mask}))

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """What the decoder reads of hidden states: each layer's keys and values, and the mask."""
        stack = self.spec.decoder
        crosses = [layer.get_submodule(stack.names.cross) for layer in self._layers(stack)]
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        return Memory(tuple(cross.memory(hidden) for cross in crosses), mask)

    def decode(
        self,
        ids: Tensor,
        memory: Memory,
        cache: Cache | None = None,
        *,
        mask: Tensor | None = None,
        logits_to_keep: int = 0,
    ) -> Tensor:
        """Logits (batch, length, vocab) of decoder ids (batch, length).

        cache: holds the earlier tokens, and these are added; each row has as many. mask (batch,
        length), without a cache: false or zero for padding. logits_to_keep: only those of that
        many last tokens; 0 keeps all.
        """
        options, offset = begin_decoding(self, ids, cache, mask)
        context = StackContext(options, cache, memory)
        x = self._run(self.spec.decoder, ids, offset, context)
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.logits(x[:, -logits_to_keep:] if logits_to_keep else x, memory.head)

    def head_rows(self, ids: Array) -> Head | None:
        """Rows of the head, and of the bias, on the host; elsewhere a copy costs more."""
        names, bias = self.spec.decoder.names, None
        table: Any = self.get_submodule(names.embedding) if self.spec.tied else self.lm_head
        if self.spec.logits_bias:
            bias = self.final_logits_bias[0]
        plain = type(table) in (nn.Embedding, nn.Linear) and table.weight.device is HOST
        return taken_rows(table.weight, bias, ids) if plain else None

    def logits(self, hidden: Tensor, head: Head | None = None) -> Tensor:
        """(..., width) -> (..., vocab) by the head, or by the embedding if they are tied."""
        spec, bias = self.spec, None
        if spec.output_scale != 1:
            hidden = hidden * spec.output_scale
        if head is not None:
            weight, bias = head
            out = ops.linear(hidden, weight)
        elif spec.tied:
            table: Any = self.get_submodule(spec.decoder.names.embedding)
            out = ops.linear(hidden, table.weight)
        else:
            out = self.lm_head(hidden)
        if head is None and spec.logits_bias:
            bias = self.final_logits_bias[0]
        return out if bias is None else out + bias

    def _layers(self, stack: StackSpec) -> Any:
        return self.get_submodule(f"{stack.names.base}.{stack.names.layers}")

    def _run(
        self, stack: StackSpec, ids: Tensor, offset: Tensor | int, context: StackContext
    ) -> Tensor:
        names, cache = stack.names, context.cache
        x = self._embedded(stack, ids, offset)
        keys = ids.shape[1] if cache is None else cache.capacity
        bias: Tensor | None = None
        for i, layer in enumerate(self._layers(stack)):
            if self.spec.relative is not None and (i == 0 or self.spec.relative.every_layer):
                bias = layer.relative().bias(ids.shape[1], keys, offset)
            x = layer(x, context, bias)
        if names.norm is not None:
            x = self.get_submodule(f"{names.base}.{names.norm}")(x)
        return x

    def _embedded(self, stack: StackSpec, ids: Tensor, offset: Tensor | int) -> Tensor:
        # (batch, length) -> (batch, length, width)
        spec, names, positions = self.spec, stack.names, self.spec.positions
        x: Tensor = self.get_submodule(names.embedding)(ids)
        if spec.embedding_scale != 1:
            x = x * spec.embedding_scale
        if positions is not None:
            first = offset if isinstance(offset, int) else offset.unsqueeze(1)
            if positions.padding is None:
                at = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
                at = at + first + positions.offset
            else:
                real = (ids != positions.padding).long()
                at = (ops.cumsum(real, 1) + first) * real + positions.padding
            x = x + self._position_rows(names, at).to(x.dtype)
        if names.embedding_norm is not None:
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
        return tensor(table, device=self.device)
