"""The encoder-decoder skeleton: text to text of any family, by a description of its parts.

The decoder reads the encoder's output as a memory: keys and values of each layer, computed once.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import nn, ops
from rushlight.core.backends import HOST
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues, State
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.memory import Head, Memory, taken_rows
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.lengths import begin_decoding, check_length
from rushlight.models.layers.seq2seq.prompts import remembered
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames
from rushlight.models.layers.seq2seq.stacks import StackContext, Stacked
from rushlight.models.layers.seq2seq.untying import untie


class Seq2Seq(Stacked, Seq2SeqLM):
    """Text to text by `spec`."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: Seq2SeqSpec) -> None:
        self.config, self.spec = config, spec
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.source_context = spec.encoder.context
        self.source_vocab_size = spec.vocab if spec.source_vocab is None else spec.source_vocab
        for stack, vocab in ((spec.encoder, spec.source_vocab), (spec.decoder, None)):
            self.put_stack(stack, spec.vocab if vocab is None else vocab)
        if not spec.tied:
            put(self, spec.head, nn.Linear(spec.width, spec.vocab, bias=False))
        if spec.logits_bias:
            self.final_logits_bias = parameter(1, spec.vocab)
        self._sinusoids: Tensor | None = None
        self.duplicates = self._duplicates()

    def _duplicates(self) -> dict[str, str]:
        """Tensors that checkpoints may hold beside the one that they are equal to; "": computed."""
        spec, duplicates = self.spec, {}
        for stack in (spec.encoder, spec.decoder):
            names, table = stack.names, f"{stack.names.embedding}.weight"
            duplicates[f"{names.base}.embed_tokens.weight"] = table
            duplicates[f"{names.base}.{names.positions}.weights"] = ""
            duplicates[f"{names.base}.version"] = ""
            cross = f"{names.base}.{names.layers}.0.{names.cross}"
            duplicates[f"{cross}.{names.relative}.weight"] = ""
        if spec.encoder.names.embedding != spec.decoder.names.embedding:
            duplicates[f"{StackNames.embedding}.weight"] = ""
        return duplicates | ({f"{spec.head}.weight": table} if spec.tied else {})

    def untie(self, name: str) -> dict[str, str]:
        """Give the head, or the embedding of a stack, a weight of its own."""
        return untie(self, name)

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer of the decoder."""
        stack, a = self.spec.decoder, self.spec.decoder.attention
        state, keys_and_values = State(((self.spec.width,),)), KeysAndValues(a.heads, a.head_dim)
        return (state if stack.recurrent else keys_and_values,) * stack.layers

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

        They are `attention_mask` of ids and `decoder_attention_mask` of decoder_ids.
        """
        memory = self.remember(self.encode(ids, attention_mask), attention_mask)
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's hidden states (batch, length, width) of ids (batch, length)."""
        check_length(self, ids, 0, self.source_limit)
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        return self._run(self.spec.encoder, ids, 0, StackContext({"mask": mask}))

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """What the decoder reads of hidden states: each layer's keys and values, and the mask."""
        stack = self.spec.decoder
        crosses = [layer.get_submodule(stack.names.cross) for layer in self._layers(stack)]
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        memory = Memory(tuple(cross.memory(hidden) for cross in crosses), mask)
        if stack.prompts is None:
            return memory
        prompts = self.get_submodule(f"{stack.names.base}.{stack.names.cross_prompt}")
        return remembered(prompts(), memory)

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

        `memory` is what `remember` gave. Raises ValueError past the context.
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
        table: Any = self.get_submodule(names.embedding if self.spec.tied else self.spec.head)
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
            out = self.get_submodule(spec.head)(hidden)
        if head is None and spec.logits_bias:
            bias = self.final_logits_bias[0]
        return out if bias is None else out + bias
