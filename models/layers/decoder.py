"""The decoder skeleton: a language model of any family, by a description of independent parts.

The skeleton never asks for a family's name. A family that replaces attention by another block
passes a description that makes the block, see `MakeBlock`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.generation.generate import CausalLM
from rushlight.models.layers.attention import AttentionContext, AttentionSpec
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.head import HeadTransform, last_hidden, logits_of, put_head
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.packing import placed
from rushlight.models.layers.positions.rotary import Rotary, RotarySpec
from rushlight.models.layers.positions.waves import Spacing, waves
from rushlight.models.layers.seeing.pictured import deepened, replaced
from rushlight.models.placing.parts import Paths
from rushlight.models.sentence import SentenceEncoder
from rushlight.models.small_files import small_json

# Makes a block in place of attention: a frozen dataclass (GGUF's writer compares fields) that is
# called with the layer's number. The result is a module with `cache_spec` and forward(x, context)
# of (batch, length, width) -> the same. With context.cache it keeps what `cache_spec` says, by the
# layer's number: a State by `Cache.state` and `set_state`; keys and values, or Latent rows, by
# `Cache.write(layer, context.offsets[layer], *new)`. Padding must not change a State; tokens are
# real by `AttentionContext.real`. Angles are context.angles[rotary] of its `LayerSpec`.
MakeBlock = Callable[[int], nn.Module]


@dataclass(frozen=True)
class DecoderNames:
    """The checkpoint's names; `base` may be empty or a path with dots. None: there is no such norm.

    Parallel parts without `before_mlp` share `before_attention`. mlp: "" if the layer itself has
    the parts of the MLP.
    """

    base: str = "model"
    embedding: str = "embed_tokens"
    positions: str = "embed_positions"
    project_in: str = "project_in"
    project_out: str = "project_out"
    embedding_norm: str | None = None
    layers: str = "layers"
    before_attention: str | None = "input_layernorm"
    attention: str = "self_attn"
    after_attention: str | None = None
    before_mlp: str | None = "post_attention_layernorm"
    mlp: str = "mlp"
    after_mlp: str | None = None
    norm: str | None = "norm"
    head: str = "lm_head"


@dataclass(frozen=True)
class LayerSpec:
    """One layer: its attention, or what makes a block in its place, and its MLP, if it has one.

    name: the checkpoint's name of the block where it is not that of attention; "" for a block that
    is the whole layer, with its norms and residuals. rotary: the positions that a block rotates by;
    an AttentionSpec has its own. beside: the name and maker of a second block, whose result is
    added; its number, of its state too, is the layer's plus the number of layers. names: of the
    layer's parts, where they are not those of the other layers. before_mlp: the norm there, where
    it differs from that of the other layers.
    """

    attention: AttentionSpec | MakeBlock
    mlp: MLPSpec | ExpertsSpec | None
    name: str | None = None
    rotary: RotarySpec | None = None
    beside: tuple[str, MakeBlock] | None = None
    names: DecoderNames | None = None
    before_mlp: NormSpec | None = None


@dataclass(frozen=True)
class DecoderSpec:
    """A language model `width` features wide, for `context` tokens.

    learned_positions: whether a table of positions is added to the embedding, which begins after
    `positions_offset` unused rows. waves: the spacing of sinusoidal positions in place of a table,
    with that offset. embedding_width: of the embedding, if it is projected to `width` and back.
    parallel: attention and MLP read the same x, and both are added to it. norm_sums: the norms
    before the parts are those of the sums after them instead. tied: the head shares the embedding's
    weight. depth_scaled: sum number n, from 2 on, of the residuals is (x sqrt(n - 1) + y) /
    sqrt(n). The scales multiply the embedding, the output of each part, and the logits.
    logits_softcap c replaces the scaled logits by c * tanh(logits / c). streams: see altup.py.
    headless: there is no head, and there are no logits. last_norm: the norm after all layers, where
    it differs from `norm`. first_norm: false if the first layer has no norm before attention.
    transform: of hidden states before the head. head_rows: the logits, where they are fewer than
    the words that can be read. deep: the layers after which what pictures add is added, where they
    are not the first ones.
    """

    vocab: int
    width: int
    context: int
    layers: tuple[LayerSpec, ...]
    norm: NormSpec = NormSpec()
    learned_positions: bool = False
    positions_offset: int = 0
    waves: Spacing | None = None
    embedding_width: int | None = None
    parallel: bool = False
    norm_sums: bool = False
    tied: bool = False
    head_bias: bool = False
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    depth_scaled: bool = False
    logits_scale: float = 1.0
    logits_softcap: float | None = None
    names: DecoderNames = DecoderNames()
    streams: Any = None
    headless: bool = False
    last_norm: NormSpec | None = None
    first_norm: bool = True
    transform: HeadTransform | None = None
    head_rows: int | None = None
    deep: tuple[int, ...] = ()


class Decoder(SentenceEncoder, CausalLM):
    """A language model: hidden states by `spec`, and a head over the vocabulary.

    Texts are embedded by the hidden states, as sentence-transformers does: by those of the last
    tokens where no file says otherwise, or by their mean if attention is not causal.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: DecoderSpec) -> None:
        self.config, self.spec, names = config, spec, spec.names
        self.vocab_size, self.context_length = spec.vocab, spec.context
        self.width = spec.embedding_width or spec.width  # of `hidden`
        if names.base:
            put(self, names.base, nn.Module())
        base = self.get_submodule(names.base)
        inside = spec.embedding_width or spec.width
        put(base, names.embedding, nn.Embedding(spec.vocab, inside))
        if inside != spec.width:
            put(base, names.project_in, nn.Linear(inside, spec.width, bias=False))
            put(base, names.project_out, nn.Linear(spec.width, inside, bias=False))
        if spec.learned_positions:
            rows = spec.context + spec.positions_offset
            put(base, names.positions, nn.Embedding(rows, spec.width))
        if names.embedding_norm is not None:
            put(base, names.embedding_norm, make_norm(spec.width, spec.norm))
        self._ends = () if spec.streams is None else (spec.streams.ends(spec),)  # as in a layer
        for path, module in self._ends[0].named_children() if self._ends else ():
            put(base, path, module)
        put(base, names.layers, nn.ModuleList(_layer(spec, i) for i in range(len(spec.layers))))
        if names.norm is not None:
            put(base, names.norm, make_norm(spec.width, spec.last_norm or spec.norm))
        put_head(self)
        self.rotary = Rotary(
            layer.attention.rotary if isinstance(layer.attention, AttentionSpec) else layer.rotary
            for layer in spec.layers
        )
        if not spec.learned_positions:
            self.context_length = max(spec.context, self.rotary.reach)

    def untie(self, name: str) -> dict[str, str]:
        """Give the head a weight of its own."""
        self.spec = replace(self.spec, tied=False)
        put_head(self)
        return {name: name}

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The states that the cache keeps: one of each layer, then their second ones."""
        layers = self._part(self.spec.names.layers)
        specs = [getattr(layer, "cache_specs", None) or (layer.cache_spec,) for layer in layers]
        return (
            *(of_layer[0] for of_layer in specs),
            *(two for of_layer in specs for two in of_layer[1:]),
        )

    def cache_devices(self) -> tuple[Device, ...] | None:
        """The device of each of `cache_specs`, if `load` placed the layers on several."""
        if self.placement is None:
            return None
        layers = list(zip(self.placement.layers, self._part(self.spec.names.layers), strict=True))
        counts = [len(getattr(layer, "cache_specs", ())) or 1 for _, layer in layers]
        devices = [device for device, _ in layers]
        devices += [d for (d, _), n in zip(layers, counts, strict=True) for _ in range(1, n)]
        return tuple(devices) * (len(self.cache_specs()) // len(devices))

    def parts_in_order(self) -> Paths | None:
        """The embedding and what is beside it, the layers, and the last norm and the head."""
        spec, names = self.spec, self.spec.names
        base = f"{names.base}." if names.base else ""
        before = [names.embedding, names.project_in, names.positions, names.embedding_norm]
        after = [names.norm, names.project_out]
        layers = [f"{base}{names.layers}.{i}" for i in range(len(spec.layers))]
        first = [f"{base}{name}" for name in before if name is not None]
        last = [f"{base}{name}" for name in after if name is not None]
        last += [] if spec.transform is None else [spec.transform.dense, spec.transform.norm]
        (first if spec.tied else last).append(names.head)
        own = {path for path, _ in self.named_modules()}
        first, last = ([path for path in paths if path in own] for paths in (first, last))
        tied = names.head if spec.tied else ""
        return Paths(tuple(first), tuple(layers), tuple(last), spec.width, tied)

    def forward(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        *,
        attention_mask: Tensor | None = None,
        logits_to_keep: int = 0,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        pictured: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Logits (batch, length, vocab) of token ids (batch, length).

        logits_to_keep: only the logits of that many last tokens; 0 keeps all. lengths: (batch,),
        the ids of each row without padding on the right; the last tokens are counted within them.
        cache: holds the earlier tokens, and these are added. attention_mask (batch, length),
        without a cache: false or zero for padding, on either side. segments, in its place: a number
        for each of the texts that share a row, none of which sees another. pictured: what
        pictures put in the place of tokens, see `seeing/pictured.py`. Raises ValueError past the
        context, and where LongRoPE would change the angles of cached tokens.
        """
        x = self.hidden(ids, cache, attention_mask, lengths, segments, pictured=pictured)
        return self.logits(last_hidden(x, logits_to_keep, lengths))

    def hidden(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        attention_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        shared: Mapping[Hashable, Tensor] | None = None,
        *,
        pictured: Mapping[str, Tensor] | None = None,
        kept: dict[int, Tensor | None] | None = None,
    ) -> Tensor:
        """The hidden states (batch, length, width) that the head reads; see `forward`.

        `ids`, `cache`, `attention_mask`, `lengths`, `segments`, `pictured` and what it raises are
        as there.
        shared: what the layers find in `AttentionContext.shared`. kept: gets the states after each
        number of layers that is one of its keys.
        """
        if ids.ndim != 2 or ids.shape[1] > self.context_length:
            raise ValueError(
                f"{self.config.model_type}: ids are {ids.shape}; they must be (batch, up to "
                f"{self.context_length})"
            )
        if sum(x is not None for x in (cache, attention_mask, segments)) > 1:
            kind = self.config.model_type
            raise ValueError(f"{kind}: give attention_mask or a cache, not both, or segments")
        mask = None
        if cache is not None:
            cached, more = cache.longest, ids.shape[1]
            first = max(cached, cache.farthest)
            if cached and lengths is None and self.rotary.jumps(first, cached + more):
                raise ValueError(
                    f"{self.config.model_type}: {more} tokens after {cached} cached ones pass "
                    "LongRoPE's original context, where the angles of all tokens change; read "
                    "all of them into an empty cache, as generate does"
                )
            cache.reserve(more)
            positions = cache.positions(more)
        else:
            positions, mask = placed(self, ids, attention_mask, segments)
        offsets = () if cache is None else cache.offsets()
        turned = positions
        if pictured is not None and "positions" in pictured:
            turned = pictured["positions"]
        elif cache is not None and cache.shift is not None:
            turned = positions + cache.shift.unsqueeze(1)
        angles = self.rotary.angles(turned, lengths, None if cache is None else cache.expected)
        told = dict(shared or {})
        context = AttentionContext(
            angles, mask, lengths, cache, offsets, positions, told, pictured, kept
        )
        x = self.through(ids, positions, context)
        if cache is not None:
            cache.advance(ids.shape[1], lengths)
        return x

    def through(self, ids: Tensor, positions: Tensor, context: AttentionContext) -> Tensor:
        """The hidden states (batch, length, width) of ids at these positions, by all layers.

        context: what the attention of every layer shares. It raises nothing itself.
        """
        pictured = context.pictured
        x = self._embedded(ids, positions, pictured)
        x = self._ends[0].spread(ids, x, context) if self._ends else x
        layers = self._part(self.spec.names.layers)
        passed = None if self.layer_runs is None else self.layer_runs.through(layers, x, context)
        for i, layer in enumerate(layers if passed is None else ()):
            x = layer(x, context)
            x = x if pictured is None else deepened(x, i, pictured, self.spec.deep)
            if context.kept is not None and i + 1 in context.kept:
                context.kept[i + 1] = x
        x = x if passed is None else passed
        if self._ends:
            x = x if self.placement is None else x.to(device=self.placement.first)
            x = self._ends[0].gathered(x)
        spec = self.spec
        x = x if spec.names.norm is None else self._part(spec.names.norm)(x)
        if spec.embedding_width not in (None, spec.width):
            x = self._part(spec.names.project_out)(x)
        out: Tensor = x
        return out

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Hidden states (batch, length, width) of texts with padding."""
        x = self.hidden(ids, attention_mask=mask)
        return x if self.placement is None else x.to(device=self.placement.main)

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, the chat template, end tokens, and how texts are embedded."""
        CausalLM.configure(self, files)
        told = small_json(files, "config.json")
        last = str((told.get("architectures") or [""])[:1]).endswith("ForCausalLM']")
        last = last and bool(told.get("is_causal", True))
        self.pooling, self.normalize = "lasttoken" if last else "mean_tokens", False
        self.configure_vectors(files)

    def _part(self, name: str) -> Any:
        return self.get_submodule(f"{self.spec.names.base}.{name}")

    def _embedded(
        self, ids: Tensor, positions: Tensor, pictured: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        # (batch, length) -> (batch, length, width); what is learned of positions pictures get, too
        spec, names = self.spec, self.spec.names
        x: Tensor = self._part(names.embedding)(ids)
        x = x if spec.embedding_scale == 1 else x * spec.embedding_scale
        if spec.embedding_width not in (None, spec.width):
            x = self._part(names.project_in)(x)
        x = x if pictured is None else replaced(x, pictured)
        if spec.learned_positions:
            x = x + self._part(names.positions)(positions + spec.positions_offset)
        if spec.waves is not None:
            x = x + waves(positions + spec.positions_offset, spec.width, spec.waves).to(x)
        if names.embedding_norm is not None:
            x = self._part(names.embedding_norm)(x)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocab) by the head, or by the embedding if they are tied.

        LoadError where the checkpoint has no head.
        """
        out = logits_of(self, hidden)
        return out if self.placement is None else out.to(device=self.placement.main)


def _layer(spec: DecoderSpec, i: int) -> nn.Module:
    layer_spec = spec.layers[i]
    if layer_spec.name == "" and not isinstance(layer_spec.attention, AttentionSpec):
        return layer_spec.attention(i)
    return DecoderLayer(spec, i) if spec.streams is None else spec.streams.layer(spec, i)
