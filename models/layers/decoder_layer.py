"""A layer of the decoder skeleton: attention, or a block in its place, and an MLP."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.layers.attention import Attention, AttentionContext, AttentionSpec
from rushlight.models.layers.mlp import make_mlp
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm

if TYPE_CHECKING:
    from rushlight.models.layers.decoder import DecoderSpec


class DecoderLayer(nn.Module):
    """Attention and MLP with residuals, each normalised before, after or both."""

    def __init__(self, spec: DecoderSpec, layer: int) -> None:
        self.spec, self.layer, layer_spec = spec, layer, spec.layers[layer]
        self.names = names = layer_spec.names or spec.names
        attention, self.block_name = layer_spec.attention, layer_spec.name or names.attention
        put(
            self,
            self.block_name,
            Attention(spec.width, attention, layer)
            if isinstance(attention, AttentionSpec)
            else attention(layer),
        )
        if layer_spec.beside is not None:
            put(self, layer_spec.beside[0], layer_spec.beside[1](layer + len(spec.layers)))
        self.blocks = (self.block_name, *(layer_spec.beside or ())[:1])
        first = names.before_attention if spec.first_norm or layer else None
        self.first_norm, norms = first, [first, names.after_attention]
        self.has_mlp = layer_spec.mlp is not None
        self._own: tuple[nn.Module, ...] = ()
        if layer_spec.mlp is not None:
            mlp = make_mlp(spec.width, layer_spec.mlp)
            if not names.mlp:
                self._own = (mlp,)  # in a tuple: its parts are children, not itself
            for path, module in mlp.named_children() if self._own else ((names.mlp, mlp),):
                put(self, path, module)
            norms += [names.before_mlp, names.after_mlp]
        for name in norms:
            if name is not None:
                own = layer_spec.before_mlp if name == names.before_mlp else None
                put(self, name, make_norm(spec.width, own or spec.norm))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        names, sums = self.names, self.spec.norm_sums
        before = x if sums else self._normed(self.first_norm, x)
        y, *more = (self.get_submodule(name)(before, context) for name in self.blocks)
        y = y + more[0] if more else y
        y = self._scaled(self._normed(names.after_attention, y))
        if not self.has_mlp:
            return x + y
        if not self.spec.parallel:
            x = self._added(x, y, 2)
            x = self._normed(names.before_attention, x) if sums else x
        if not (self.spec.parallel and names.before_mlp is None):
            before = x if sums else self._normed(names.before_mlp, x)
        z = (self._own[0] if self._own else getattr(self, names.mlp))(before)
        z = self._scaled(self._normed(names.after_mlp, z))
        x = x + y + z if self.spec.parallel else self._added(x, z, 3)
        return self._normed(names.before_mlp, x) if sums else x

    @property
    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The state that the cache keeps for each of the layer's blocks."""
        blocks: list[Any] = [self.get_submodule(name) for name in self.blocks]
        return tuple(block.cache_spec for block in blocks)

    def _normed(self, name: str | None, x: Tensor) -> Tensor:
        out: Tensor = x if name is None else self.get_submodule(name)(x)
        return out

    def _added(self, x: Tensor, y: Tensor, first: int) -> Tensor:
        # first: the number of this sum in the first layer.
        if not self.spec.depth_scaled:
            return x + y
        number = 2 * self.layer + first
        old, new = math.sqrt((number - 1) / number), 1 / math.sqrt(number)
        return x * old + y * new

    def _scaled(self, x: Tensor) -> Tensor:
        return x if self.spec.residual_scale == 1 else x * self.spec.residual_scale
