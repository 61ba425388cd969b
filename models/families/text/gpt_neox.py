"""GPT-NeoX (Black et al., 2022), Pythia: parallel parts, two layer norms, partial rotary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import STACKED, Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("GPTNeoXForCausalLM",)
NAMES = DecoderNames(
    base="gpt_neox",
    embedding="embed_in",
    attention="attention",
    norm="final_layer_norm",
    head="embed_out",
)
ATTENTION = AttentionNames(qkv="query_key_value", out="dense")
MLP = MLPNames(up="dense_h_to_4h", down="dense_4h_to_h")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("stacked",)

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int = 2048
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    rotary_pct: float = 0.25
    rotary_emb_base: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    partial_rotary_factor: float | None = None  # in rope_parameters, and in GGUF files
    use_parallel_residual: bool = True
    attention_bias: bool = True
    stacked: bool = False  # rows of q, of k, of v: in GGUF files
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "gpt_neox"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads = c.num_attention_heads
    head = c.hidden_size // max(heads, 1)
    values = {**vars(c), "rope_theta": c.rotary_emb_base}
    attention = AttentionSpec(
        heads,
        heads,
        head,
        bias=c.attention_bias,
        out_bias=c.attention_bias,
        names=ATTENTION,
        rotary=rotary_of(values, head, share=c.rotary_pct),
        fused="stacked" if c.stacked else "grouped",
    )
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False, bias=True, names=MLP)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(attention, mlp),) * c.num_hidden_layers,
        NormSpec("layer", c.layer_norm_eps),
        parallel=c.use_parallel_residual,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


GGUF = Architecture(
    "gpt_neox",
    "GPTNeoXForCausalLM",
    keys={
        "layer_norm_eps": "attention.layer_norm_epsilon",
        "rotary_emb_base": "rope.freq_base",
        "use_parallel_residual": "use_parallel_residual",
    },
    transforms={"query_key_value": STACKED},
    fixed={"stacked": True, "attention_bias": True},
    adjust=lambda c: c.update(rotary_pct=c.pop("partial_rotary_factor", 0.25)),
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("gpt_neox",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="gpt_neox.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("gptneox",),
    gguf=GGUF,
)
