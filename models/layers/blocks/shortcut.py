"""LongCat's layer (Meituan, 2025): two of attention and dense part, with experts beside them.

The experts read what the first dense part reads; their result is added after the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import CacheSpec
from rushlight.models.layers.attention import AttentionContext
from rushlight.models.layers.mlp import ExpertsSpec, MLPSpec, make_mlp
from rushlight.models.layers.norms import NormSpec, make_norm

if TYPE_CHECKING:
    from rushlight.models.layers.decoder import MakeBlock


@dataclass(frozen=True)
class ShortcutSpec:
    """Layers `width` features wide, of which there are `layers`."""

    width: int
    layers: int
    attention: MakeBlock
    dense: MLPSpec
    experts: ExpertsSpec
    norm: NormSpec

    def __call__(self, layer: int) -> ShortcutLayer:
        return ShortcutLayer(self, layer)


class ShortcutLayer(nn.Module):
    """Such a layer; the names are the checkpoint's. Its second state has the number of a second."""

    def __init__(self, spec: ShortcutSpec, layer: int) -> None:
        def two_norms() -> nn.ModuleList[nn.Module]:
            return nn.ModuleList(make_norm(spec.width, spec.norm) for _ in range(2))

        numbers = layer, layer + spec.layers
        self.mlp = make_mlp(spec.width, spec.experts)
        self.self_attn = nn.ModuleList(spec.attention(number) for number in numbers)
        self.mlps = nn.ModuleList(make_mlp(spec.width, spec.dense) for _ in numbers)
        self.input_layernorm, self.post_attention_layernorm = two_norms(), two_norms()

    @property
    def cache_specs(self) -> tuple[CacheSpec, ...]:
        """The states that the cache keeps for the two kinds of attention."""
        blocks: list[Any] = list(self.self_attn)
        return tuple(block.cache_spec for block in blocks)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        aside: Tensor | None = None
        for norm, attention, norm_after, dense in zip(
            self.input_layernorm,
            self.self_attn,
            self.post_attention_layernorm,
            self.mlps,
            strict=True,
        ):
            x = x + attention(norm(x), context)
            y = norm_after(x)
            aside = self.mlp(y) if aside is None else aside
            x = x + dense(y)
        assert aside is not None
        return x + aside
