"""A feed-forward part in place of attention, in models whose layers have one block each."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec, make_mlp
from rushlight.models.layers.naming import put


@dataclass(frozen=True)
class FeedForwardSpec:
    """The feed-forward part `mlp` of `width` features."""

    width: int
    mlp: MLPSpec | ExpertsSpec

    def __call__(self, layer: int) -> FeedForward:
        """The block of a layer."""
        return FeedForward(self)


class FeedForward(nn.Module):
    """The parts of the feed-forward part are the block's own; there is nothing to remember."""

    cache_spec = State(())

    def __init__(self, spec: FeedForwardSpec) -> None:
        part = make_mlp(spec.width, spec.mlp)
        self._part = (part,)  # in a tuple: its parts are children, not itself
        for path, module in part.named_children():
            put(self, path, module)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = self._part[0](x)
        return out
