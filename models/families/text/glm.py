"""GLM-4 (GLM Team, 2024; 0414 too): LLaMA with half of each head rotated, in neighbouring pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("GlmForCausalLM", "Glm4ForCausalLM")
# The later version has norms around each part.
AROUND = DecoderNames(after_attention="post_self_attn_layernorm", after_mlp="post_mlp_layernorm")
MLP = MLPNames(gate_up="gate_up_proj")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    head_dim: int | None = 128
    rms_norm_eps: float = 0.00000015625
    partial_rotary_factor: float | None = None
    attention_bias: bool = True
    max_position_embeddings: int = 131072
    model_type: str = "glm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, names=MLP)
    plain = each_attention(
        plain,
        lambda _, a: replace(
            a,
            out_bias=False,
            rotary=replace(rotary_of(vars(c), a.head_dim, share=0.5), interleaved=True),
        ),
    )
    return replace(
        plain,
        layers=tuple(replace(layer, mlp=mlp) for layer in plain.layers),
        names=AROUND if c.model_type == "glm4" else plain.names,
    )


GGUF = Architecture(
    "glm4",
    "Glm4ForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    decoder=AROUND,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("glm", "glm4"),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("glm4",),
    gguf=GGUF,
)
