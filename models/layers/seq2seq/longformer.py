"""Self-attention of LED's encoder (Beltagy et al., 2020): to near tokens, and to global ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.search.memory import Memory
from rushlight.models.layers.naming import put
from rushlight.models.layers.seq2seq.lengths import check_length
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.stacks import Layer, StackContext

GLOBAL = "global"  # (batch, length) in `StackContext.shared`: above zero for global tokens


@dataclass(frozen=True)
class Windows:
    """Makes layers whose tokens see so many on each side: a number for each layer."""

    sides: tuple[int, ...]

    def __call__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int) -> nn.Module:
        """The layer of this number."""
        return WindowLayer(spec, stack, layer, self.sides[layer])


class WindowLayer(Layer):
    """A layer whose tokens see the `side` nearest ones on each side, and global tokens.

    Global tokens see all, by projections of their own.
    """

    def __init__(self, spec: Seq2SeqSpec, stack: StackSpec, layer: int, side: int) -> None:
        super().__init__(spec, stack, layer)
        self.side, a, path = side, stack.attention, stack.names.attention
        self.own = tuple(f"{name}_global" for name in (a.names.q, a.names.k, a.names.v))
        for name in self.own:
            put(self, f"{path}.{name}", nn.Linear(spec.width, a.heads * a.head_dim, bias=a.bias))

    def _attention(self, x: Tensor, context: StackContext, bias: Tensor | None) -> Tensor:
        attention: Any = self.get_submodule(self.stack.names.attention)
        mask, chosen = context.options.get("mask"), context.shared.get(GLOBAL)
        q, k, v = (attention.split(name, x) for name in attention.projections)
        if chosen is None:
            y = attention.attend(q, k, v, mask=mask, window=self.side + 1)
            return attention.merged(y)  # type: ignore[no-any-return]
        at = ops.arange(x.shape[1], device=x.device)
        near = ((at - at.unsqueeze(1)).abs() <= self.side).float()
        seen = near + chosen[:, None, None, :].float()
        seen = seen if mask is None else seen * mask.float()
        y = attention.attend(q, k, v, mask=seen > 0)
        q, k, v = (attention.split(name, x) for name in self.own)
        y_global = attention.attend(q, k, v, mask=mask)
        y = ops.where(chosen[:, None, :, None] > 0, y_global, y)
        return attention.merged(y)  # type: ignore[no-any-return]


class LongformerSeq2Seq(Seq2Seq):
    """Text to text whose encoder may be told which tokens are global."""

    def forward(
        self,
        ids: Tensor,
        decoder_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, decoder length, vocab) of ids and decoder_ids, (batch, length) each.

        The masks (batch, length) are false or zero for padding; the last one is true for tokens
        that see all others and are seen by them. Raises ValueError past the context.

        They are `attention_mask` and `global_attention_mask` of ids, `decoder_attention_mask` of
        decoder_ids.
        """
        hidden = self.encode(ids, attention_mask, global_attention_mask)
        memory: Memory = self.remember(hidden, attention_mask)
        return self.decode(decoder_ids, memory, mask=decoder_attention_mask)

    def encode(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """The encoder's hidden states (batch, length, width) of ids (batch, length).

        `attention_mask` and `global_attention_mask` are those of `forward`; it raises ValueError
        past the context.
        """
        if global_attention_mask is None:
            return super().encode(ids, attention_mask)
        check_length(self, ids, 0, self.source_limit)
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        context = StackContext({"mask": mask}, shared={GLOBAL: global_attention_mask})
        return self._run(self.spec.encoder, ids, 0, context)


def sides_of(given: Any, layers: int) -> Sequence[int] | None:
    """The tokens on each side that layers see, of `attention_window`; None if it is not good."""
    windows = [given] * layers if isinstance(given, int) else given
    good = isinstance(windows, list) and len(windows) == layers
    good = good and all(type(n) is int and n > 0 and n % 2 == 0 for n in windows)
    return [n // 2 for n in windows] if good else None
