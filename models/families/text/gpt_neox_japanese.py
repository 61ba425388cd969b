"""GPT-NeoX for Japanese (ABEJA, 2022): parts in turn, and one bias, of the last layer's output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import gpt_neox
from rushlight.models.layers.attention import Attention, AttentionContext, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("GPTNeoXJapaneseForCausalLM",)
NAMES = replace(gpt_neox.NAMES, base="gpt_neox_japanese")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_multiple_size: int = 4
    max_position_embeddings: int = 2048
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    rotary_pct: float = 1.0
    rotary_emb_base: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    partial_rotary_factor: float | None = None  # in rope_parameters
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "gpt_neox_japanese"


@dataclass(frozen=True)
class LastSpec:
    """The attention of the last layer, whose result has a bias of its own."""

    width: int
    attention: AttentionSpec

    def __call__(self, layer: int) -> Last:
        return Last(self, layer)


class Last(Attention):
    """Attention and a bias, `dense_bias`."""

    def __init__(self, of: LastSpec, layer: int) -> None:
        super().__init__(of.width, of.attention, layer)
        self.dense_bias = parameter(of.width)

    def reset_parameters(self) -> None:
        """The bias is zero."""
        nn.init.zeros_(self.dense_bias)

    def forward(self, x: Tensor, context: AttentionContext) -> Tensor:
        """(batch, length, width) -> the same."""
        return super().forward(x, context) + self.dense_bias


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads, count = c.num_attention_heads, c.num_hidden_layers
    head = c.hidden_size // max(heads, 1)
    rotary = rotary_of({**vars(c), "rope_theta": c.rotary_emb_base}, head, share=c.rotary_pct)
    attention = AttentionSpec(
        heads, heads, head, fused="grouped", rotary=rotary, names=gpt_neox.ATTENTION
    )
    inner = c.intermediate_multiple_size * c.hidden_size
    mlp = MLPSpec(inner, c.hidden_act, gated=False, names=gpt_neox.MLP)
    last = LayerSpec(LastSpec(c.hidden_size, attention), mlp, rotary=rotary)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (*(LayerSpec(attention, mlp),) * (count - 1), *(last,) * min(count, 1)),
        NormSpec("layer", c.layer_norm_eps),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("gpt_neox_japanese",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="gpt_neox_japanese.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
)
