"""Parts of T5Gemma 2: one attention to earlier tokens and the memory, windows, one embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import Attention, AttentionContext, AttentionSpec
from rushlight.models.layers.decoder import Decoder
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.pair import MEMORY, DecoderPair, PairSpec


class LeaningAttention(Attention):
    """Attention to both sides: tokens fewer than `before` earlier and fewer than `after` later."""

    def __init__(
        self, width: int, spec: AttentionSpec, layer: int, before: int, after: int
    ) -> None:
        super().__init__(width, spec, layer)
        self.before, self.after = before, after

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        at = ops.arange(x.shape[1], device=x.device)
        back = at.unsqueeze(1) - at
        near = ((back < self.before).float() * (-back < self.after).float())[None, None]
        seen = near if context.mask is None else near * context.mask.float()
        return super().forward(x, replace(context, mask=seen > 0))


class MergedAttention(Attention):
    """Causal attention whose keys are those of earlier tokens and of the memory."""

    def memory(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Keys, without positions, and values of (batch, length, width)."""
        names = self.spec.names
        keys: Any = self.get_submodule(names.k_norm)(self._split(getattr(self, names.k)(hidden)))
        return keys, self._split(getattr(self, names.v)(hidden))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, names = self.spec, self.spec.names
        batch, length, _ = x.shape
        q = self._placed(getattr(self, names.q)(x), names.q_norm, context)
        k = self._placed(getattr(self, names.k)(x), names.k_norm, context)
        v = self._split(getattr(self, names.v)(x))
        at = ops.arange(length, device=x.device).reshape(1, 1, length, 1)
        if context.cache is not None:
            offset = context.offsets[self.layer]
            k, v = context.cache.write(self.layer, offset, k, v)
            at = at + offset.reshape(-1, 1, 1, 1)
        back = at - ops.arange(k.shape[2], device=x.device)
        seen = (back >= 0).float()
        if spec.window is not None:
            seen = seen * (back < spec.window).float()
        if context.mask is not None:
            seen = seen * context.mask.float()
        seen = seen.expand(batch, 1, length, k.shape[2])
        keys, values = (context.shared[MEMORY, self.layer, part] for part in "kv")
        mask = context.shared.get(MEMORY)
        real = ops.ones(keys.shape[0], 1, 1, keys.shape[2], device=x.device)
        real = real if mask is None else mask.float()
        keys, values, real = (self._for_rows(t, batch) for t in (keys, values, real))
        seen = ops.cat([seen, real.expand(batch, 1, length, keys.shape[2])], 3)
        k, v = (ops.cat([a.to(q.dtype), b.to(q.dtype)], 2) for a, b in ((k, keys), (v, values)))
        y = ops.attention(q, k, v, mask=seen > 0, scale=spec.scale)
        out: Tensor = getattr(self, names.out)(y.transpose(1, 2).reshape(batch, length, -1))
        return out

    @staticmethod
    def _for_rows(t: Tensor, rows: int) -> Tensor:
        """What is read of each source, for all of its rows."""
        if t.shape[0] == rows:
            return t
        many = t.unsqueeze(1).expand(t.shape[0], rows // t.shape[0], *t.shape[1:])
        return many.reshape(rows, *t.shape[1:])


@dataclass(frozen=True)
class Leaning:
    """Makes attention that sees about half of a window of `window` tokens on each side."""

    width: int
    spec: AttentionSpec
    window: int

    def __call__(self, layer: int) -> nn.Module:
        """The block of the layer of this number."""
        before, after = (self.window + 1) // 2, self.window // 2 + 1
        return LeaningAttention(self.width, self.spec, layer, before, after)


@dataclass(frozen=True)
class Merged:
    """Makes attention to earlier tokens and the memory."""

    width: int
    spec: AttentionSpec

    def __call__(self, layer: int) -> nn.Module:
        """The block of the layer of this number."""
        return MergedAttention(self.width, self.spec, layer)


class EndingEmbedding(nn.Embedding):
    """A scaled table of tokens, where that of number `end` has an unscaled row of its own."""

    def __init__(self, vocab: int, width: int, end: int) -> None:
        self.end, self.scale = end, width**0.5
        self.eoi_embedding = parameter(width)
        super().__init__(vocab, width)

    def reset_parameters(self) -> None:
        """As an embedding; the row of the end is zero."""
        super().reset_parameters()
        init.zeros_(self.eoi_embedding)

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., width)."""
        rows = super().forward(ids) * self.scale
        return ops.where((ids == self.end).unsqueeze(-1), self.eoi_embedding, rows)


class SharedDecoder(Decoder):
    """A decoder that reads the embedding of the encoder, `tables`, unless that is ()."""

    tables: tuple[Any, ...] = ()

    def _embedded(self, ids: Tensor, positions: Tensor, pictured: Any = None) -> Tensor:
        if not self.tables:
            return super()._embedded(ids, positions, pictured)
        out: Tensor = self.tables[0](ids)
        return out


class MergedPair(DecoderPair):
    """Text to text by T5Gemma 2: the encoder, the decoder and the head share one embedding."""

    kind = SharedDecoder

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: PairSpec, end: int) -> None:
        super().__init__(config, spec)
        source, name = spec.encoder, spec.encoder.names.embedding
        table = EndingEmbedding(source.vocab, source.width, end)
        put(self._encoder, name, table)
        decoder: Any = self._decoder
        delattr(decoder, name)
        decoder.tables = (table,)  # in a tuple: it is the encoder's
        path = f"{spec.encoder_path}.{name}"
        self.duplicates = {
            f"{spec.head}.weight": f"{path}.weight",
            f"{spec.decoder_path}.{name}.weight": f"{path}.weight",
            f"{spec.decoder_path}.{name}.eoi_embedding": f"{path}.eoi_embedding",
        }

    @nn.layers_on("meta")
    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own, or the decoder an embedding."""
        if name.startswith(self.spec.head):
            return super().untie(name)
        decoder: Any = self._decoder
        if not decoder.tables:
            return {name: name}
        [table], embedding = decoder.tables, self.spec.decoder.names.embedding
        rows, width = table.weight.shape
        put(decoder, embedding, EndingEmbedding(rows, width, table.end))
        decoder.tables = ()
        ours, theirs = self.spec.decoder_path, self.spec.encoder_path
        parts = [f"{embedding}.{part}" for part in ("weight", "eoi_embedding")]
        return {f"{ours}.{part}": f"{theirs}.{part}" for part in parts} | {name: name}

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocab) by the head, or by the embedding if they are tied."""
        return self._capped(hidden, self._encoder)
