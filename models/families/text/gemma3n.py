"""Gemma 3n's language model (Gemma Team, 2025): streams by AltUp, inputs per layer, shared keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma3
from rushlight.models.gguf.streams import gemma3n
from rushlight.models.layers import building
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks import altup
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Gemma3nForCausalLM",)


@dataclass
class Config(gemma3.Config):
    """The keys of config.json that the model depends on."""

    intermediate_size: Any
    query_pre_attn_scalar: float = 1
    sliding_window: int | None = 512
    final_logit_softcapping: float | None = 30.0
    sliding_window_pattern: int = 5
    vocab_size_per_layer_input: int = 262144
    hidden_size_per_layer_input: int = 256
    altup_active_idx: int = 0
    altup_correct_scale: bool = True
    altup_num_inputs: int = 4
    altup_coef_clip: Any = None  # of training
    num_kv_shared_layers: int = 15
    laurel_rank: int = 64
    activation_sparsity_pattern: Any = None
    model_type: str = "gemma3n_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count, widths, sparse = c.num_hidden_layers, c.intermediate_size, c.activation_sparsity_pattern
    inner = [widths] * count if type(widths) is int else widths
    inner = building.numbers_of("intermediate_size", inner, count)
    sparse = [0.95 * (count > 10 and i < 10) for i in range(count)] if sparse is None else sparse
    sparse = building.numbers_of("activation_sparsity_pattern", sparse, count, building.FLOATS)
    plain = gemma3.describe(c := replace(c, intermediate_size=max(inner, default=1)))
    act, with_keys = c.hidden_activation or c.hidden_act, count - c.num_kv_shared_layers
    norm = NormSpec("rms", c.rms_norm_eps)
    last = {kind: i for i, kind in enumerate(c.layer_types[: max(with_keys, 0)])}
    if with_keys > count or (with_keys < count and {*c.layer_types} != {*last}):
        raise FormatError(
            f"config.json: num_kv_shared_layers {count - with_keys} leave no keys to share"
        )

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            scale=1.0,
            norm=norm,
            norm_v=True,
            keys_of=None if layer < with_keys else last[c.layer_types[layer]],
            lends=with_keys < count and layer in last.values(),
        )

    streams = altup.AltUpSpec(
        c.altup_num_inputs,
        c.altup_active_idx,
        c.laurel_rank,
        c.vocab_size_per_layer_input,
        c.hidden_size_per_layer_input,
        act,
        c.altup_correct_scale,
    )
    spec = replace(building.each_attention(plain, changed), norm=norm, streams=streams)
    return building.with_mlps(spec, lambda i: MLPSpec(inner[i], act, sparsity=sparse[i]))


FAMILY = Family(
    model_types=("gemma3n_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=building.decoder_builder(Config, describe, ARCHITECTURES),
    unused=altup.unread,
    gguf_types=("gemma3n",),
    gguf=gemma3n(gemma3.GGUF.decoder),
)
