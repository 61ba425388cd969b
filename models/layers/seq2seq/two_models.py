"""An encoder of any family, and a decoder like BERT that attends to its hidden states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec, KeysAndValues
from rushlight.models.generation.search.memory import Memory
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.seq2seq.lengths import begin_decoding, check_length
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.stacks import StackContext, Stacked

PROJECTION = "enc_to_dec_proj"
_READ = AttentionNames("self.query", "self.key", "self.value", "output.dense")


def decoder_of(e: EncoderSpec, base: str) -> Seq2SeqSpec:
    """The decoder at path `base` with the parts of an encoder like BERT; both stacks are it."""
    n = e.names
    names = StackNames(
        base,
        f"{base}.{n.words}",
        positions=n.positions,
        embedding_norm=n.embedding_norm,
        layers=n.layers,
        attention="attention",
        attention_norm=n.attention_norm,
        cross="crossattention",
        cross_norm=n.attention_norm.replace("attention", "crossattention", 1),
        mlp_norm=n.mlp_norm,
        types=n.types if e.types else None,
    )
    attention = AttentionSpec(
        e.heads, e.heads, e.width // e.heads, bias=True, out_bias=True, names=_READ
    )
    mlp = MLPSpec(e.inner, e.activation, False, True, names=MLPNames(up=n.up, down=n.down))
    stack = StackSpec(e.layers, attention, mlp, names, types=e.types or 1)
    return Seq2SeqSpec(
        e.vocab,
        e.width,
        e.context,
        replace(stack, types=0),  # another one than the decoder's, which never runs
        stack,
        e.norm,
        "after",
        PositionSpec("learned", e.first, e.pad),
    )


@dataclass(frozen=True)
class HeadOfWords:
    """Where the head of the decoder's words is; tied: it has the weight of the embedding.

    names: None for a matrix alone, at `path`. beside: one that is not tied has two biases in the
    checkpoint, of which the matrix's is read.
    """

    names: HeadNames | None
    path: str = "decoder"
    tied: bool = True
    beside: bool = False


class TwoModels(Stacked, Seq2SeqLM):
    """Text to text by an encoder, and the decoder of `spec`, whose head is `head`.

    seen: the width of the hidden states of an encoder of pictures.
    """

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, encoder: Any, spec: Seq2SeqSpec, head: HeadOfWords, seen: int = 0
    ) -> None:
        self.config, self.spec, self.head = config, spec, head
        self.vocab_size, self.context_length = spec.vocab, spec.context
        if not seen:
            self.source_vocab_size, self.source_context = encoder.spec.vocab, encoder.context_length
        self.encoder, width, names = encoder, spec.width, head.names
        self.put_stack(spec.decoder, spec.vocab)
        given = seen or encoder.width
        if given != (spec.decoder.memory or width):
            put(self, PROJECTION, nn.Linear(given, width))
        self._sinusoids: Tensor | None = None
        if names is None:
            if head.tied:
                table = f"{spec.decoder.names.embedding}.weight"
                self.duplicates = {f"{head.path}.weight": table}
            else:
                put(self, head.path, nn.Linear(width, spec.vocab, bias=False))
            return
        put(self, f"{head.path}.{names.dense}", nn.Linear(width, width))
        put(self, f"{head.path}.{names.norm}", make_norm(width, spec.norm))
        path, bias = f"{head.path}.{names.decoder}", f"{head.path}.{names.bias}"
        if head.tied or head.beside:
            owner: Any = self.get_submodule(bias.rpartition(".")[0])
            owner.bias = parameter(spec.vocab)
        if head.tied:
            table = f"{spec.decoder.names.embedding}.weight"
            self.duplicates = {f"{path}.bias": bias, f"{path}.weight": table}
        else:
            put(self, path, nn.Linear(width, spec.vocab))

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own, or the values of its bias."""
        names, at = self.head.names, self.head.path
        if names is None:
            put(self, at, nn.Linear(self.spec.width, self.spec.vocab, bias=False))
            self.head = replace(self.head, tied=False)
            return {name: name}
        if name == f"{at}.{names.decoder}.bias":
            return {f"{at}.{names.bias}": name}
        put(self, f"{at}.{names.decoder}", nn.Linear(self.spec.width, self.spec.vocab))
        self.head = replace(self.head, tied=False, beside=True)
        return {name: name, f"{at}.{names.decoder}.bias": f"{at}.{names.bias}"}

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer of the decoder."""
        a = self.spec.decoder.attention
        return (KeysAndValues(a.heads, a.head_dim),) * self.spec.decoder.layers

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

    def prepare(self) -> None:
        """Make the table of sinusoidal positions on the parameters' device."""
        self._sinusoids = self._table()

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The encoder's hidden states (batch, length, width) of ids (batch, length)."""
        check_length(self, ids, 0, self.source_limit)
        out: Tensor = self.encoder(ids, attention_mask)
        return out

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """What the decoder reads of hidden states: each layer's keys and values, and the mask."""
        stack = self.spec.decoder
        if hasattr(self, PROJECTION):
            hidden = self.get_submodule(PROJECTION)(hidden)
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

        `memory` is what `remember` gave. Raises ValueError past the context.
        """
        options, offset = begin_decoding(self, ids, cache, mask)
        x = self._run(self.spec.decoder, ids, offset, StackContext(options, cache, memory))
        if cache is not None:
            cache.advance(ids.shape[1])
        return self.logits(x[:, -logits_to_keep:] if logits_to_keep else x)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocab) by the head of words."""
        head, names = self.head, self.head.names
        if names is None:
            words: Any = self.get_submodule(
                self.spec.decoder.names.embedding if head.tied else head.path
            )
            return ops.linear(hidden, words.weight)
        act = ACTIVATIONS[names.act or self.spec.decoder.mlp.activation]
        x = self.get_submodule(f"{head.path}.{names.dense}")(hidden)
        x = self.get_submodule(f"{head.path}.{names.norm}")(act(x))
        if not head.tied:
            out: Tensor = self.get_submodule(f"{head.path}.{names.decoder}")(x)
            return out
        table: Any = self.get_submodule(self.spec.decoder.names.embedding)
        owner: Any = self.get_submodule(f"{head.path}.{names.bias}".rpartition(".")[0])
        return ops.linear(x, table.weight, owner.bias)
