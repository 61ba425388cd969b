"""Experts that are chosen before attention, by what a layer reads, as in SmallThinker."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.decoder_layer import DecoderLayer


@dataclass(frozen=True)
class EarlyRouting:
    """It takes the place of `streams` in a decoder's description."""

    def layer(self, spec: DecoderSpec, layer: int) -> DecoderLayer:
        """A layer whose router reads what the layer reads."""
        return EarlyLayer(spec, layer)

    def ends(self, spec: DecoderSpec) -> nn.Module:
        """Nothing before the layers and after them."""
        return Ends()


class Ends(nn.Module):
    """What lies before the layers, and after them: nothing."""

    def spread(self, ids: Tensor, x: Tensor, context: AttentionContext) -> Tensor:
        """x itself."""
        return x

    def gathered(self, x: Tensor) -> Tensor:
        """x itself."""
        return x


class EarlyLayer(DecoderLayer):
    """Attention and experts, which are chosen by the layer's input before its norm."""

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        names, asked = self.names, x
        x = x + self.get_submodule(self.block_name)(self._normed(self.first_norm, x), context)
        out: Tensor = x + self.get_submodule(names.mlp)(self._normed(names.before_mlp, x), asked)
        return out
