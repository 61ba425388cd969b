"""Layers that run several times, each time with keys and values of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rushlight.core import nn
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder import Decoder, DecoderSpec
from rushlight.models.layers.decoder_layer import DecoderLayer
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.placing.parts import Paths


class Later:
    """A cache from one of its layers on."""

    def __init__(self, cache: Any, first: int) -> None:
        self.cache, self.first = cache, first

    def write(self, layer: int, offset: Tensor, *new: Tensor) -> tuple[Tensor, ...]:
        """As `Cache.write`, of the layer with this number from there."""
        found: tuple[Tensor, ...] = self.cache.write(self.first + layer, offset, *new)
        return found


def shifted(context: AttentionContext, first: int) -> AttentionContext:
    """The context of layers whose first one has the number `first` in the cache."""
    if context.cache is None or not first:
        return context
    later: Any = Later(context.cache, first)
    return replace(context, cache=later, offsets=context.offsets[first:])


class LoopedDecoder(Decoder):
    """A decoder whose layers run `loops` times; between: its norm comes after each time."""

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: DecoderSpec, loops: int, between: bool) -> None:
        self.loops, self.between = loops, between
        super().__init__(config, spec)

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The states that the cache keeps: those of all layers, once for each time."""
        return super().cache_specs() * self.loops

    def through(self, ids: Tensor, positions: Tensor, context: AttentionContext) -> Tensor:
        """As `Decoder.through`, several times."""
        names, x = self.spec.names, self._embedded(ids, positions)
        for time in range(self.loops):
            own = shifted(context, time * len(self.spec.layers))
            for layer in self._part(names.layers):
                x = layer(x, own)
            if self.between or time == self.loops - 1:
                x = self._part(str(names.norm))(x)
        return x


class CycledDecoder(Decoder):
    """Two stacks of layers (Wang et al., 2025): the low one runs `low` times, then the high one.

    So they do `high` times; each reads the sum of both results. spec.names.layers are those of the
    low stack. Each stack ends with a norm without weights.
    """

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: DecoderSpec, high: int, low: int) -> None:
        self.cycles = high, low
        super().__init__(config, spec)
        base: Any = self.get_submodule(spec.names.base)
        put(
            base,
            "H_module.layers",
            nn.ModuleList(DecoderLayer(spec, i) for i in range(len(spec.layers))),
        )
        base.z_L_init = parameter(spec.width)
        base.z_L_init.requires_grad_(False)  # it is not learned
        self._last = make_norm(spec.width, spec.norm)

    def reset_parameters(self) -> None:
        """The first state is zero."""
        base: Any = self.get_submodule(self.spec.names.base)
        init.zeros_(base.z_L_init)

    def parts_in_order(self) -> Paths | None:
        """None: two stacks take turns."""
        return None

    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The states that the cache keeps: those of a stack, once for each time."""
        high, low = self.cycles
        return super().cache_specs() * (high * (low + 1))

    def through(self, ids: Tensor, positions: Tensor, context: AttentionContext) -> Tensor:
        """As `Decoder.through`, by both stacks in turn."""
        x = self._embedded(ids, positions)
        base: Any = self.get_submodule(self.spec.names.base)
        count = len(self.spec.layers)
        below, (high, low) = base.z_L_init.to(x.dtype).expand(*x.shape), self.cycles
        time = 0

        def run(layers: Any, y: Tensor) -> Tensor:
            nonlocal time
            own = shifted(context, time * count)
            time += 1
            for layer in layers:
                y = layer(y, own)
            out: Tensor = self._last(y)
            return out

        for _ in range(high):
            for _ in range(low):
                below = run(self._part(self.spec.names.layers), below + x)
            x = run(self._part("H_module.layers"), x + below)
        return x
