"""Zamba (Zyphra, 2024): Mamba layers with heads, and one transformer that several layers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import zamba2
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.blocks.state_space import rank_of
from rushlight.models.layers.blocks.zamba import HeadedMambaSpec, TransformerSpec, ZambaSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("ZambaForCausalLM",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = {"use_mamba_kernels": ()}

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 16
    intermediate_size: int = 14848
    attention_hidden_size: int | None = None
    attention_head_dim: int | None = None
    max_position_embeddings: int = 4096
    layers_block_type: Any = None
    attn_layer_period: int = 6
    attn_layer_offset: int = 4
    mamba_d_state: int = 16
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_dt_rank: Any = "auto"
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    n_mamba_heads: int = 2
    hidden_act: str = "gelu"
    hidden_mamba_act: str = "silu"
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "zamba"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    width, heads, count = c.hidden_size, c.num_attention_heads, c.num_hidden_layers
    if c.attention_hidden_size not in (None, 2 * width):
        raise FormatError(
            f"config.json: attention_hidden_size {c.attention_hidden_size} is not supported; "
            f"supported: {2 * width}, twice hidden_size"
        )
    period = max(c.attn_layer_period, 1)
    default = [zamba2.SCAN, zamba2.SCAN, zamba2.HYBRID] + [
        zamba2.HYBRID if i % period == c.attn_layer_offset else zamba2.SCAN
        for i in range(count - 3)
    ]
    given = c.layers_block_type
    count = len(default if given is None else given)
    hybrid = zamba2.hybrid_layers(given, default, count)
    head = c.attention_head_dim or 2 * width // max(heads, 1)
    transformer = TransformerSpec(
        AttentionSpec(
            heads, c.num_key_value_heads or heads, head, scale=(max(head, 1) / 2) ** -0.5
        ),
        c.intermediate_size,
        c.hidden_act,
        shared=bool(c.tie_word_embeddings),  # the reference ties both or neither
    )
    scan = HeadedMambaSpec(
        width,
        int(c.mamba_expand * width),
        c.n_mamba_heads,
        c.mamba_d_state,
        rank_of(c.mamba_dt_rank, width),
        c.mamba_d_conv,
        c.mamba_proj_bias,
        c.mamba_conv_bias,
        c.hidden_mamba_act,
    )
    return zamba2.decoder(c, ZambaSpec(width, scan, transformer, hybrid, count, c.rms_norm_eps))


FAMILY = Family(
    model_types=("zamba",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=zamba2.sharing(decoder_builder(Config, describe, ARCHITECTURES, both_ways=False)),
)
