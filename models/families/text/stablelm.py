"""StableLM (Bellagente et al., 2024): LLaMA with layer norms and partial rotary positions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("StableLmForCausalLM",)
# The norm of each head is stored as a tensor of its own.
NAMES = AttentionNames(q_norm="q_layernorm.norms", k_norm="k_layernorm.norms")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    layer_norm_eps: float = 1e-5
    partial_rotary_factor: float | None = None
    use_qkv_bias: bool = False
    qk_layernorm: bool = False
    use_parallel_residual: bool = False
    max_position_embeddings: int = 4096
    model_type: str = "stablelm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    normed = NormSpec("layer", c.layer_norm_eps) if c.qk_layernorm else None
    parallel = c.use_parallel_residual
    names = DecoderNames(before_mlp=None if parallel else "post_attention_layernorm")
    return replace(
        each_attention(
            plain,
            lambda _, a: replace(
                a,
                bias=c.use_qkv_bias,
                out_bias=False,
                norm=normed,
                norm_over="each",
                names=NAMES,
                rotary=rotary_of(vars(c), a.head_dim, share=0.25),
            ),
        ),
        norm=NormSpec("layer", c.layer_norm_eps),
        parallel=parallel,
        names=names,
    )


GGUF = Architecture(
    "stablelm",
    "StableLmForCausalLM",
    keys={
        "layer_norm_eps": "attention.layer_norm_epsilon",
        "use_parallel_residual": "use_parallel_residual",
    },
    attention=NAMES,
    adjust=lambda config: config.update(
        use_qkv_bias=config["attention_bias"], qk_layernorm=config["attention_norms"]
    ),
)

FAMILY = Family(
    model_types=("stablelm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("stablelm", "orion"),  # of Orion each head is rotated as a whole
    gguf=GGUF,
)
