"""BitNet b1.58 (Microsoft, 2025): LLaMA with norms before the last matrix of each part.

Its weights are -1, 0 and 1 times a number, which ordinary matrices hold as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("BitNetForCausalLM",)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 5
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    hidden_act: str = "relu2"
    model_type: str = "bitnet"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, norm=plain.norm)
    return with_mlps(
        each_attention(plain, lambda _, a: replace(a, out_norm=plain.norm)), lambda _: mlp
    )


GGUF = Architecture(
    "bitnet",
    "BitNetForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    fixed={"hidden_act": "silu"},
    parts={
        "blk.{}.attn_sub_norm": "model.layers.{}.self_attn.attn_sub_norm",
        "blk.{}.ffn_sub_norm": "model.layers.{}.mlp.ffn_sub_norm",
    },
)

FAMILY = Family(
    model_types=("bitnet",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("bitnet",),
    gguf=GGUF,
)
