"""The decoder skeleton: a language model of any family, by a description of independent parts.

The skeleton never asks for a family's name. A family that replaces attention by another block
passes a description that makes the block, see `MakeBlock`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.generation.generate import CausalLM
from rushlight.models.layers.attention import Attention, AttentionContext, AttentionSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec, make_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.rotary import Rotary, RotarySpec

# Makes a block in place of attention: a frozen dataclass (GGUF's writer compares fields) that is
# called with the layer's number. The result is a module with `cache_spec` and forward(x, context)
# of (batch, length, width) -> the same. Without a cache (context.cache is None) it starts anew.
# Otherwise it keeps what `cache_spec` says, by the layer's number: a State by `Cache.state(layer)`
# and `Cache.set_state(layer, *new)`; keys and values, or Latent rows, by `Cache.write(layer,
# context.offsets[layer], *new)`. Padding must not change a State: `AttentionContext.real` says
# which tokens are real. cos and sin are context.angles[rotary] if its `LayerSpec` names `rotary`.
MakeBlock = Callable[[int], nn.Module]


@dataclass(frozen=True)
class DecoderNames:
    """The checkpoint's names; `base` may be empty or a path with dots. None: there is no such norm.

    Parallel parts without `before_mlp` share `before_attention`.
    """

    base: str = "model"
    embedding: str = "embed_tokens"
    positions: str = "embed_positions"
    embedding_norm: str | None = None
    layers: str = "layers"
    before_attention: str | None = "input_layernorm"
    attention: str = "self_attn"
    after_attention: str | None = None
    before_mlp: str | None = "post_attention_layernorm"
    mlp: str = "mlp"
    after_mlp: str | None = None
    norm: str = "norm"
    head: str = "lm_head"


@dataclass(frozen=True)
class LayerSpec:
    """One layer: its attention, or what makes a block in its place, and its MLP, if it has one.

    name: the checkpoint's name of the block where it is not that of attention; "" for a block that
    is the whole layer, with its norms and residuals. rotary: the positions that a block rotates by;
    an AttentionSpec has its own.
    """

    attention: AttentionSpec | MakeBlock
    mlp: MLPSpec | ExpertsSpec | None
    name: str | None = None
    rotary: RotarySpec | None = None


@dataclass(frozen=True)
class DecoderSpec:
    """A language model `width` features wide, for `context` tokens.

    learned_positions: whether a table of positions is added to the embedding. parallel: attention
    and MLP read the same x, and both are added to it. tied: the head shares the embedding's weight.
    The scales multiply the embedding, the output of each part, and the logits. logits_softcap c
    replaces the scaled logits by c * tanh(logits / c).
    """

    vocab: int
    width: int
    context: int
    layers: tuple[LayerSpec, ...]
    norm: NormSpec = NormSpec()
    learned_positions: bool = False
    parallel: bool = False
    tied: bool = False
    head_bias: bool = False
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logits_scale: float = 1.0
    logits_softcap: float | None = None
    names: DecoderNames = DecoderNames()


def each_attention(
    spec: DecoderSpec, change: Callable[[int, AttentionSpec], AttentionSpec]
) -> DecoderSpec:
    """`spec` with what `change` makes of each layer's number and attention."""
    layers = [
        replace(one, attention=change(i, one.attention))
        if isinstance(one.attention, AttentionSpec)
        else one
        for i, one in enumerate(spec.layers)
    ]
    return replace(spec, layers=tuple(layers))


class DecoderLayer(nn.Module):
    """Attention and MLP with residuals, each normalised before, after or both."""

    def __init__(self, spec: DecoderSpec, layer: int) -> None:
        self.spec, names, own = spec, spec.names, spec.layers[layer]
        attention, self.block_name = own.attention, own.name or names.attention
        put(self, self.block_name, Attention(spec.width, attention, layer)
            if isinstance(attention, AttentionSpec) else attention(layer))  # fmt: skip
        norms = [names.before_attention, names.after_attention]
        self.has_mlp = own.mlp is not None
        if own.mlp is not None:
            put(self, names.mlp, make_mlp(spec.width, own.mlp))
            norms += [names.before_mlp, names.after_mlp]
        for name in norms:
            if name is not None:
                put(self, name, make_norm(spec.width, spec.norm))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        names = self.spec.names
        before = self._normed(names.before_attention, x)
        y = self.get_submodule(self.block_name)(before, context)
        y = self._scaled(self._normed(names.after_attention, y))
        if not self.has_mlp:
            return x + y
        if not self.spec.parallel:
            x = x + y
        if not (self.spec.parallel and names.before_mlp is None):
            before = self._normed(names.before_mlp, x)
        z = getattr(self, names.mlp)(before)
        z = self._scaled(self._normed(names.after_mlp, z))
        return x + y + z if self.spec.parallel else x + z

    @property
    def cache_spec(self) -> CacheSpec:
        """The state that the cache keeps for the layer's block."""
        block: Any = self.get_submodule(self.block_name)
        spec: CacheSpec = block.cache_spec
        return spec

    def _normed(self, name: str | None, x: Tensor) -> Tensor:
        if name is None:
            return x
        out: Tensor = getattr(self, name)(x)
        return out

    def _scaled(self, x: Tensor) -> Tensor:
        return x if self.spec.residual_scale == 1 else x * self.spec.residual_scale


class Decoder(CausalLM):
    """A language model: hidden states by `spec`, and a head over the vocabulary."""

    def __init__(self, config: Any, spec: DecoderSpec) -> None:
        self.config, self.spec, names = config, spec, spec.names
        self.vocab_size, self.context_length = spec.vocab, spec.context
        if names.base:
            put(self, names.base, nn.Module())
        base = self.get_submodule(names.base)
        put(base, names.embedding, nn.Embedding(spec.vocab, spec.width))
        if spec.learned_positions:
            put(base, names.positions, nn.Embedding(spec.context, spec.width))
        if names.embedding_norm is not None:
            put(base, names.embedding_norm, make_norm(spec.width, spec.norm))
        put(base, names.layers, nn.ModuleList(_layer(spec, i) for i in range(len(spec.layers))))
        put(base, names.norm, make_norm(spec.width, spec.norm))
        if not spec.tied:
            put(self, names.head, nn.Linear(spec.width, spec.vocab, bias=spec.head_bias))
        self.rotary = Rotary(
            one.attention.rotary if isinstance(one.attention, AttentionSpec) else one.rotary
            for one in spec.layers
        )

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each layer."""
        layers = self._part(self.spec.names.layers)
        return tuple(layer.cache_spec for layer in layers)

    def forward(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        attention_mask: Tensor | None = None,
        logits_to_keep: int = 0,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of token ids (batch, length).

        logits_to_keep: only the logits of that many last tokens; 0 keeps all. lengths: (batch,),
        the ids of each row without padding on the right; the last tokens are counted within them.
        cache: holds the earlier tokens, and these are added. attention_mask (batch, length),
        without a cache: false or zero for padding, on either side. Raises ValueError past the
        context.
        """
        if ids.ndim != 2 or ids.shape[1] > self.context_length:
            raise ValueError(
                f"{self.config.model_type}: ids are {ids.shape}; they must be (batch, up to "
                f"{self.context_length})"
            )
        if cache is not None and attention_mask is not None:
            raise ValueError(f"{self.config.model_type}: give attention_mask or a cache, not both")
        mask = None
        if cache is not None:
            cache.reserve(ids.shape[1])
            positions = cache.positions(ids.shape[1])
        elif attention_mask is None:
            positions = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        else:
            real = attention_mask != 0
            positions = (ops.cumsum(real.long(), 1) - 1).clamp(min=0)
            mask = real[:, None, None, :]
        offsets = () if cache is None else cache.offsets()
        angles = self.rotary.angles(positions, lengths)
        x = self._embedded(ids, positions)
        context = AttentionContext(angles, mask, lengths, cache, offsets)
        for layer in self._part(self.spec.names.layers):
            x = layer(x, context)
        x = self._part(self.spec.names.norm)(x)
        if cache is not None:
            cache.advance(ids.shape[1], lengths)
        return self.logits(_kept(x, logits_to_keep, lengths))

    def _part(self, name: str) -> Any:
        return getattr(self.get_submodule(self.spec.names.base), name)

    def _embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        # (batch, length) -> (batch, length, width)
        spec, names = self.spec, self.spec.names
        x: Tensor = self._part(names.embedding)(ids)
        if spec.embedding_scale != 1:
            x = x * spec.embedding_scale
        if spec.learned_positions:
            x = x + self._part(names.positions)(positions)
        if names.embedding_norm is not None:
            x = self._part(names.embedding_norm)(x)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocab) by the head, or by the embedding if they are tied."""
        spec = self.spec
        if spec.tied:
            out = ops.linear(hidden, self._part(spec.names.embedding).weight)
        else:
            out = getattr(self, spec.names.head)(hidden)
        if spec.logits_scale != 1:
            out = out * spec.logits_scale
        cap = spec.logits_softcap
        return out if cap is None else (out / cap).tanh() * cap


def _layer(spec: DecoderSpec, i: int) -> nn.Module:
    own = spec.layers[i]
    if own.name == "" and not isinstance(own.attention, AttentionSpec):
        return own.attention(i)
    return DecoderLayer(spec, i)


def _kept(x: Tensor, keep: int, lengths: Tensor | None) -> Tensor:
    """The hidden states of the last `keep` tokens, (batch, keep, width); 0 keeps all."""
    if not keep:
        return x
    if lengths is None:
        return x[:, -keep:]
    # (batch,) -> (batch, keep, width)
    at = (lengths.unsqueeze(1) + ops.arange(-keep, 0, device=x.device)).clamp(min=0)
    return x.gather(1, at.unsqueeze(-1).expand(x.shape[0], keep, x.shape[2]))
