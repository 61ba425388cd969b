"""Gemma 4's dense language models (Gemma Team, 2026): wide full layers, inputs per layer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.layer_inputs import gemma4
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.layer_inputs import LayerInputsSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
    with_mlps,
)
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("Gemma4ForCausalLM",)
NAMES = DecoderNames(
    after_attention="post_attention_layernorm",
    before_mlp="pre_feedforward_layernorm",
    after_mlp="post_feedforward_layernorm",
)
DERIVED = "derived"  # where the key is absent; null is for sizes that do not differ
POSITIONS = {
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    # Of experts, which are refused, and of positions, which have others in each kind of layer.
    neutral = dict.fromkeys(
        ("num_experts", "top_k_experts", "moe_intermediate_size", "rope_scaling", "rope_theta"), ()
    )

    num_key_value_heads: int | None = 4
    head_dim: int | None = 256
    hidden_activation: str = "gelu_pytorch_tanh"
    max_position_embeddings: int = 131072
    sliding_window: int = 512
    layer_types: Any = None
    final_logit_softcapping: float | None = None
    use_bidirectional_attention: str | None = None
    vocab_size_per_layer_input: int = 262144
    hidden_size_per_layer_input: int = 256
    attention_k_eq_v: bool = False
    num_kv_shared_layers: int = 0
    enable_moe_block: bool = False
    use_double_wide_mlp: bool = False
    global_head_dim: int | None = 512
    num_global_key_value_heads: int | None = None
    per_layer_config: Any = DERIVED
    tie_word_embeddings: bool | None = True
    model_type: str = "gemma4_text"


def sizes_of(c: Config, full: list[bool]) -> list[tuple[int, int]]:
    """The width of a head and the number of key heads of each layer.

    Files of transformers 5 have them in `per_layer_config`, by the layer's number; others have keys
    of the full layers.
    """
    heads, told = c.num_key_value_heads or c.num_attention_heads, c.per_layer_config
    usual = (c.head_dim or c.hidden_size // max(c.num_attention_heads, 1), heads)
    if told == DERIVED:
        wide = c.num_global_key_value_heads if c.attention_k_eq_v else None
        return [(c.global_head_dim or usual[0], wide or heads) if of else usual for of in full]
    sizes = [usual] * len(full)
    for layer, own in told.items() if isinstance(told, dict) else ():
        known = isinstance(own, dict) and {*own} <= {"head_dim", "num_key_value_heads"}
        known = known and all(type(v) is int and v > 0 for v in own.values())
        if not known or not re.fullmatch(r"\d{1,4}", str(layer)) or int(layer) >= len(full):
            raise FormatError(
                f"config.json: per_layer_config has {brief({layer: own})}; supported: head_dim and "
                f"num_key_value_heads of layers 0 to {len(full) - 1}"
            )
        sizes[int(layer)] = own.get("head_dim", usual[0]), own.get("num_key_value_heads", heads)
    return sizes


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("enable_moe_block", c.enable_moe_block, (False,))
    both_ways = c.use_bidirectional_attention
    choose("use_bidirectional_attention", both_ways, (None, "all", "vision"))
    count, plain = c.num_hidden_layers, llama.describe(replace(c, rope_parameters=None))
    within = kinds_of(c.layer_types, count, lambda i: (i + 1) % 6 != 0)
    within[-1:] = [False] * bool(within)  # the last layer is full in any case
    sizes, own = sizes_of(c, [not of for of in within]), count - c.num_kv_shared_layers
    last = {kind: i for i, kind in enumerate(within[: max(own, 0)])}
    if own < count and {*within} != {*last}:
        raise FormatError(f"config.json: num_kv_shared_layers {count - own} leave no keys to share")
    positions = {**vars(c), "rope_scaling": None, "rope_parameters": c.rope_parameters or POSITIONS}

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind, (head, heads) = SLIDING if within[layer] else FULL, sizes[layer]
        window = c.sliding_window if within[layer] else None
        if both_ways == "all" and window is not None:
            window = window // 2 + 1  # of both sides together
        return replace(
            a,
            head_dim=head,
            kv_heads=heads,
            rotary=rotary_of_kind(positions, head, kind, POSITIONS[kind]["rope_theta"]),
            norm=plain.norm,
            norm_v=True,
            keys_are_values=c.attention_k_eq_v and not within[layer],
            keys_of=None if layer < own else last[within[layer]],
            lends=own < count and layer in last.values(),
            scale=1.0,
            window=window,
            causal=both_ways != "all",
        )

    def mlp(layer: int) -> MLPSpec:
        wide = 2 if c.use_double_wide_mlp and layer >= own else 1
        return MLPSpec(c.intermediate_size * wide, c.hidden_activation)

    streams = LayerInputsSpec(
        c.vocab_size_per_layer_input, c.hidden_size_per_layer_input, c.hidden_activation
    )
    return replace(
        with_mlps(each_attention(plain, changed), mlp),
        names=NAMES,
        embedding_scale=c.hidden_size**0.5,
        logits_softcap=c.final_logit_softcapping,
        streams=streams,
    )


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor makes keys or values of a layer that reads those of an earlier one."""
    match = re.search(r"layers\.(\d{1,4})\.self_attn\.[kv]_(proj|norm)\.", name)
    layers, shared = config.get("num_hidden_layers"), config.get("num_kv_shared_layers", 0)
    if match is None or not isinstance(layers, int) or not isinstance(shared, int):
        return False
    return int(match[1]) >= layers - shared


FAMILY = Family(
    model_types=("gemma4_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    unused=unused,
    gguf_types=("gemma4",),
    gguf=gemma4(NAMES),
)
