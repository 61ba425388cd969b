"""LLaMA (Touvron et al., 2023) and relatives: pre-norm, rotary, grouped-query, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture, halves
from rushlight.models.gguf.encoders import embedding_architecture
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("LlamaForCausalLM",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool | None = None
    hidden_act: str = "silu"
    eos_token_id: Any = None
    model_type: str = "llama"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    head = c.head_dim or c.hidden_size // max(c.num_attention_heads, 1)
    attention = AttentionSpec(
        c.num_attention_heads,
        c.num_key_value_heads or c.num_attention_heads,
        head,
        bias=c.attention_bias,
        out_bias=c.attention_bias,
        rotary=rotary_of(vars(c), head),
    )
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(attention, mlp),) * c.num_hidden_layers,
        norm=NormSpec("rms", c.rms_norm_eps),
        tied=bool(c.tie_word_embeddings),
    )


# llama.cpp's converter reorders the rows of q and k for its order of rotary pairs.
GGUF = Architecture(
    "llama",
    "LlamaForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    transforms={"q_proj": halves("num_attention_heads"), "k_proj": halves("num_key_value_heads")},
)


def smaller(config: dict[str, Any]) -> None:
    """Baichuan's larger model has no rotary positions; llama.cpp knows models by their layers."""
    if config["num_hidden_layers"] != 32:
        raise FormatError(
            f"baichuan.block_count is {config['num_hidden_layers']}, which is not supported; "
            "supported: 32, of the model with rotary positions"
        )


EMBEDDING = embedding_architecture(GGUF, "LlamaModel")

FAMILY = Family(
    model_types=("llama",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("llama", "llama-embed", "baichuan", "internlm2", "xverse"),
    gguf=GGUF,
    gguf_others={
        "llama-embed": EMBEDDING,
        "baichuan": replace(GGUF, adjust=smaller),
    },
)
