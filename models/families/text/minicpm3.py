"""MiniCPM3 (OpenBMB, 2024): MiniCPM's scales on DeepSeek V2's latent attention, without experts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.latent import STORED, head_sizes, tell_sizes
from rushlight.models.layers.blocks.latent import LatentSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.positions.rotary import magnified, rotary_of

ARCHITECTURES = ("MiniCPM3ForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 32768
    rms_norm_eps: float = 1e-5
    kv_lora_rank: int = 256
    q_lora_rank: int | None = 768
    qk_nope_head_dim: int = 64
    qk_rope_head_dim: int = 32
    v_head_dim: int | None = None
    scale_emb: float = 12
    scale_depth: float | None = 1.4
    dim_model_base: int | None = 256
    model_type: str = "minicpm3"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    rotated, c.head_dim = c.qk_rope_head_dim, None
    rotary = rotary_of(vars(c), rotated)
    attention = LatentSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.kv_lora_rank,
        c.q_lora_rank,
        c.qk_nope_head_dim,
        c.v_head_dim or c.hidden_size // max(c.num_attention_heads, 1),
        rotary,
        magnified(vars(c)) / math.sqrt(max(c.qk_nope_head_dim + rotated, 1)),
        c.attention_bias,
    )
    layer = LayerSpec(
        attention, MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias), rotary=rotary
    )
    depth = 1.0 if c.scale_depth is None else c.scale_depth / math.sqrt(c.num_hidden_layers)
    return replace(
        llama.describe(c),
        layers=(layer,) * c.num_hidden_layers,
        embedding_scale=c.scale_emb,
        residual_scale=depth,
        logits_scale=(c.dim_model_base or c.hidden_size) / c.hidden_size,
    )


# The scales are llama.cpp's own: those of the published model, which are Config's too.
GGUF = Architecture(
    "minicpm3",
    "MiniCPM3ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "head_dim": "",
        "key": "attention.key_length",
        "value": "attention.value_length",
        "kv_lora_rank": "attention.kv_lora_rank",
        "q_lora_rank": "attention.q_lora_rank",
        "qk_rope_head_dim": "rope.dimension_count",
    },
    adjust=head_sizes,
    metadata=tell_sizes,
    parts=STORED | {"blk.{}.attn_kv_b": "model.layers.{}.self_attn.kv_b_proj"},
)

FAMILY = Family(
    model_types=("minicpm3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    gguf_types=("minicpm3",),
    gguf=GGUF,
)
