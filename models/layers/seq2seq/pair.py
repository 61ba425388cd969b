"""An encoder-decoder made of two language models: the second reads the hidden states of the first.

The layers of both are those of the decoder skeleton; the encoder's attention is not causal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.generation.search.memory import Memory
from rushlight.models.generation.text_to_text import Seq2SeqLM
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.decoder import (
    Decoder,
    DecoderNames,
    DecoderSpec,
    LayerSpec,
    MakeBlock,
)
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.seq2seq.lengths import check_length

# Where a layer finds what it reads of the memory in `AttentionContext.shared`.
MEMORY = "memory"
GEMMA_NAMES = DecoderNames(
    base="",
    before_attention="pre_self_attn_layernorm",
    after_attention="post_self_attn_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
# What transformers sets within the configurations of an encoder and a decoder by itself.
_SET = ("is_decoder", "architectures", "dropout_rate")


def part_of(c: Any, name: str, kind: type[Any], model_type: str) -> Any:
    """The configuration within key `name`, read as a `kind`."""
    given = getattr(c, name) or {}
    if not isinstance(given, Mapping):
        raise FormatError(f"config.json: {name} is {brief(given)}; it must be an object")
    told = {key: value for key, value in given.items() if key not in _SET}
    return read_config(kind, told | {"model_type": model_type, "architectures": None})


@dataclass(frozen=True)
class CrossSpec:
    """Attention to hidden states `width` features wide; the norms and itself by the file's names.

    None: there is no such norm.
    """

    width: int
    attention: AttentionSpec
    name: str = "cross_attn"
    before: str | None = "pre_cross_attn_layernorm"
    after: str | None = "post_cross_attn_layernorm"


class CrossAttention(nn.Module):
    """Attention of queries `width` features wide to other hidden states; groups share keys."""

    def __init__(self, width: int, spec: CrossSpec) -> None:
        a = self.spec = spec.attention
        key_width = a.kv_heads * a.head_dim
        put(self, a.names.q, nn.Linear(width, a.heads * a.head_dim, bias=a.bias))
        for name in (a.names.k, a.names.v):
            put(self, name, nn.Linear(spec.width, key_width, bias=a.bias))
        put(self, a.names.out, nn.Linear(a.heads * a.head_dim, width, bias=a.out_bias))

    def memory(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, kv_heads, length, head_dim) of (batch, length, width)."""
        names = self.spec.names
        return self._split(names.k, hidden), self._split(names.v, hidden)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """(rows, length, width) -> the same; rows that read one memory are more queries of it."""
        a = self.spec
        rows = x.reshape(keys.shape[0], -1, x.shape[2])
        q = self._split(a.names.q, rows)
        y = ops.attention(q, keys, values, mask=mask, scale=a.scale, softcap=a.softcap)
        y = y.transpose(1, 2).reshape(*x.shape[:2], -1)
        out: Tensor = self.get_submodule(a.names.out)(y)
        return out

    def _split(self, name: str, x: Tensor) -> Tensor:
        y: Tensor = self.get_submodule(name)(x)
        return y.reshape(*x.shape[:2], -1, self.spec.head_dim).transpose(1, 2)


class CrossLayer(DecoderLayer):
    """A layer of a decoder with attention to the memory between its two parts."""

    def __init__(self, spec: DecoderSpec, layer: int, cross: CrossSpec) -> None:
        super().__init__(spec, layer)
        self.cross, self.number = cross, layer
        put(self, cross.name, CrossAttention(spec.width, cross))
        for norm in (cross.before, cross.after):
            if norm is not None:
                put(self, norm, make_norm(spec.width, spec.norm))

    @property
    def cache_spec(self) -> CacheSpec:
        """The state that the cache keeps for self-attention."""
        return self.cache_specs[0]

    def memory(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of the encoder's hidden states."""
        cross: Any = self.get_submodule(self.cross.name)
        return cross.memory(hidden)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        names, shared = self.spec.names, context.shared
        y = self.get_submodule(self.block_name)(self._normed(names.before_attention, x), context)
        x = x + self._normed(names.after_attention, y)
        keys, values = (shared[MEMORY, self.number, part] for part in "kv")
        cross: Any = self.get_submodule(self.cross.name)
        y = cross(self._normed(self.cross.before, x), keys, values, shared.get(MEMORY))
        x = x + self._normed(self.cross.after, y)
        y = getattr(self, names.mlp)(self._normed(names.before_mlp, x))
        return x + self._normed(names.after_mlp, y)


@dataclass(frozen=True)
class CrossBlock:
    """Makes a `CrossLayer` in place of a whole layer of a decoder."""

    spec: DecoderSpec
    cross: CrossSpec

    def __call__(self, layer: int) -> nn.Module:
        """The layer of this number."""
        return CrossLayer(self.spec, layer, self.cross)


def whole_layers(spec: DecoderSpec, block: MakeBlock) -> DecoderSpec:
    """`spec` with the block in place of each of its layers."""
    layers = tuple(
        LayerSpec(block, None, name="", rotary=getattr(layer.attention, "rotary", layer.rotary))
        for layer in spec.layers
    )
    return replace(spec, layers=layers)


@dataclass(frozen=True)
class PairSpec:
    """An encoder, a decoder whose layers read its hidden states, and where both are.

    head: the path of the head's matrix, with the decoder's soft cap; tied: it is the decoder's
    embedding. padding: without a mask, tokens of this number are not seen.
    """

    encoder: DecoderSpec
    decoder: DecoderSpec
    head: str = "lm_head.out_proj"
    tied: bool = True
    encoder_path: str = "model.encoder"
    decoder_path: str = "model.decoder"
    padding: int | None = None


class DecoderPair(Seq2SeqLM):
    """Text to text by two language models without heads, and a head."""

    kind: type[Decoder] = Decoder  # of the decoder

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: PairSpec) -> None:
        self.config, self.spec = config, spec
        source, target = spec.encoder, spec.decoder
        self.vocab_size, self.source_vocab_size = target.vocab, source.vocab
        parts = ((spec.encoder_path, source, Decoder), (spec.decoder_path, target, self.kind))
        for path, part, kind in parts:
            put(self, path, kind(config, replace(part, headless=True, tied=False)))
        self.context_length = min(self._encoder.context_length, self._decoder.context_length)
        table = f"{spec.decoder_path}.{target.names.embedding}.weight"
        self.duplicates = {f"{spec.head}.weight": table} if spec.tied else {}
        if not spec.tied:
            put(self, spec.head, nn.Linear(target.width, target.vocab, bias=False))

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own."""
        target = self.spec.decoder
        put(self, self.spec.head, nn.Linear(target.width, target.vocab, bias=False))
        self.spec = replace(self.spec, tied=False)
        return {name: name}

    @property
    def _encoder(self) -> Decoder:
        return self.get_submodule(self.spec.encoder_path)  # type: ignore[return-value]

    @property
    def _decoder(self) -> Decoder:
        return self.get_submodule(self.spec.decoder_path)  # type: ignore[return-value]

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer of the decoder."""
        return self._decoder.cache_specs()

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
        check_length(self, ids, 0)
        if attention_mask is None and self.spec.padding is not None:
            attention_mask = ids != self.spec.padding
        return self._encoder.hidden(ids, attention_mask=attention_mask)

    def remember(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Memory:
        """What the decoder reads of hidden states: each layer's keys and values, and the mask."""
        layers: Any = self._decoder.get_submodule(self.spec.decoder.names.layers)
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        name = self.spec.decoder.names.attention
        readers = [layer if hasattr(layer, "memory") else getattr(layer, name) for layer in layers]
        return Memory(tuple(reader.memory(hidden) for reader in readers), mask)

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
        check_length(self, ids, 0 if cache is None else cache.longest)
        shared: dict[Any, Tensor] = {} if memory.mask is None else {MEMORY: memory.mask}
        for i, pair in enumerate(memory.layers):
            shared |= {(MEMORY, i, part): t for part, t in zip("kv", pair, strict=True)}
        x = self._decoder.hidden(ids, cache, mask, shared=shared)
        return self.logits(x[:, -logits_to_keep:] if logits_to_keep else x)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocab) by the head, or by the decoder's embedding if tied."""
        return self._capped(hidden, self._decoder)

    def _capped(self, hidden: Tensor, owner: Decoder) -> Tensor:
        # owner: of the embedding that a head is tied to
        if self.spec.tied:
            table: Any = owner.get_submodule(owner.spec.names.embedding)
            out = ops.linear(hidden, table.weight)
        else:
            out = self.get_submodule(self.spec.head)(hidden)
        cap = self.spec.decoder.logits_softcap
        return out if cap is None else (out / cap).tanh() * cap
