"""A gated convolution over a few tokens in place of attention, as in LFM2 (Liquid AI, 2025)."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import State
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.blocks.state_space import CausalConv, states_of


@dataclass(frozen=True)
class ShortConvSpec:
    """A convolution over `kernel` tokens; bias: of it and of both projections."""

    width: int
    kernel: int
    bias: bool = False

    def __call__(self, layer: int) -> ShortConv:
        """The block of a layer."""
        return ShortConv(self, layer)


class ShortConv(nn.Module):
    """out(c * conv(b * x)), where b, c and x are projections of one matrix."""

    def __init__(self, spec: ShortConvSpec, layer: int) -> None:
        self.spec, self.layer = spec, layer
        self.in_proj = nn.Linear(spec.width, 3 * spec.width, bias=spec.bias)
        self.conv = CausalConv(spec.width, spec.kernel, spec.bias)
        self.out_proj = nn.Linear(spec.width, spec.width, bias=spec.bias)

    @property
    def cache_spec(self) -> State:
        """The inputs of the convolution."""
        return State(((self.spec.kernel - 1, self.spec.width),))

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        width = self.spec.width
        (before,) = states_of(context, self.layer, 1)
        all_ = self.in_proj(x)
        b, c = all_[..., :width], all_[..., width : 2 * width]
        y, before = self.conv.read(b * all_[..., 2 * width :], context, before)
        if context.cache is not None:
            context.cache.set_state(self.layer, before.float())
        out: Tensor = self.out_proj(c * y)
        return out
