"""EXAONE 3 and 3.5 (LG AI Research, 2024): LLaMA whose checkpoints have names like GPT-2's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec

# transformers computes it as LLaMA.
ARCHITECTURES = ("ExaoneForCausalLM", "LlamaForCausalLM")
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    layers="h",
    before_attention="ln_1",
    attention="attn.attention",
    before_mlp="ln_2",
    norm="ln_f",
)
ATTENTION = AttentionNames(out="out_proj")
MLP = MLPNames(gate="c_fc_0", up="c_fc_1", down="c_proj")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 4096
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    model_type: str = "exaone"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = each_attention(llama.describe(c), lambda _, a: replace(a, names=ATTENTION))
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias, names=MLP)
    return replace(with_mlps(plain, lambda _: mlp), names=NAMES)


GGUF = Architecture(
    "exaone",
    "ExaoneForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("exaone",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("exaone",),
    gguf=GGUF,
)
