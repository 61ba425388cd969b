"""OLMo Hybrid (OLMo Team, 2026): three gated delta layers to one layer of OLMo 3's attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.split_delta import SplitDeltaSpec
from rushlight.models.layers.building import LINEAR, decoder_builder, each_attention, kinds_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec

ARCHITECTURES = ("OlmoHybridForCausalLM",)
# Delta layers have norms before their parts, those of attention after them.
NAMES = DecoderNames(
    before_attention="attention_layer_norm",
    attention="linear_attn",
    before_mlp="feedforward_layer_norm",
)
AFTER = DecoderNames(
    before_attention=None,
    after_attention="feedforward_layer_norm",
    before_mlp=None,
    after_mlp="post_feedforward_layernorm",
)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    neutral = dict.fromkeys(
        (
            "linear_a_log_min",
            "linear_a_log_max",
            "linear_dt_min",
            "linear_dt_max",
            "linear_dt_init_floor",
        ),
        (),
    )  # of what weights begin with

    max_position_embeddings: int = 65536
    layer_types: Any = None
    linear_num_key_heads: int | None = None
    linear_num_value_heads: int | None = None
    linear_key_head_dim: int | None = None
    linear_value_head_dim: int | None = None
    linear_conv_kernel_dim: int = 4
    linear_allow_neg_eigval: bool = True
    model_type: str = "olmo_hybrid"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    count = c.num_hidden_layers
    fourth = [i % 4 == 3 for i in range(count)]
    full = fourth if any(fourth) else [i == count - 1 for i in range(count)]
    linear = kinds_of(c.layer_types, count, lambda i: not full[i], LINEAR)
    if len({*linear}) != 2:
        raise FormatError(
            f"config.json: layer_types is {c.layer_types}; layers of both kinds are needed"
        )
    key_heads = c.linear_num_key_heads or c.num_attention_heads
    keys = c.linear_key_head_dim or int(0.75 * c.hidden_size / max(key_heads, 1))
    delta = SplitDeltaSpec(
        c.hidden_size,
        key_heads,
        c.linear_num_value_heads or c.num_attention_heads,
        keys,
        c.linear_value_head_dim or 2 * keys,
        c.linear_conv_kernel_dim,
        c.hidden_act,
        doubled=c.linear_allow_neg_eigval,
    )
    # Published files say that there is no theta: nothing is rotated.
    told = c.rope_parameters
    unplaced = isinstance(told, dict) and "rope_theta" in told and told["rope_theta"] is None
    plain = llama.describe(c)

    def normed(layer: int, a: AttentionSpec) -> AttentionSpec:
        a = replace(a, norm=plain.norm, norm_over="all")
        return replace(a, rotary=None) if unplaced else a

    layers = tuple(
        replace(layer, attention=delta) if linear[i] else replace(layer, names=AFTER)
        for i, layer in enumerate(each_attention(plain, normed).layers)
    )
    return replace(plain, layers=layers, names=NAMES)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the model's names of norms, of which there are others as well."""
    others = {
        ".input_layernorm.": ".attention_layer_norm.",
        ".post_attention_layernorm.": ".feedforward_layer_norm.",
    }
    renamed = {}
    for name, tensor in tensors.items():
        for theirs, ours in others.items():
            name = name.replace(theirs, ours)
        renamed[name] = tensor
    return renamed


FAMILY = Family(
    model_types=("olmo_hybrid",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    rename_tensors=rename_tensors,
)
