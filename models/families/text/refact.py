"""Refact (Small Magellanic Cloud AI, 2023): ALiBi, one head of keys, RMS norms, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.ops import cat
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.parts import Split, gate_and_up_rows

ARCHITECTURES = ("GPTRefactForCausalLM",)
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    layers="h",
    before_attention="ln_1",
    attention="attn",
    before_mlp="ln_2",
    norm="ln_f",
)
ATTENTION, MLP = AttentionNames(q="q", k="k", v="v", out="c_proj"), MLPNames(down="c_proj")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    n_positions: int = 4096
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "gpt_refact"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    head = c.n_embd // max(c.n_head, 1)
    attention = AttentionSpec(c.n_head, 1, head, alibi=8.0, names=ATTENTION)
    mlp = MLPSpec(-(-(8 * c.n_embd // 3) // 256) * 256, names=MLP)
    return DecoderSpec(
        c.vocab_size,
        c.n_embd,
        c.n_positions,
        (LayerSpec(attention, mlp),) * c.n_layer,
        NormSpec("rms", c.layer_norm_epsilon),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


GGUF = Architecture(
    "gpt_refact",
    "GPTRefactForCausalLM",
    {
        "n_embd": "embedding_length",
        "n_layer": "block_count",
        "n_head": "attention.head_count",
        "n_positions": "context_length",
        "layer_norm_epsilon": "attention.layer_norm_rms_epsilon",
    },
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLP,
)

# A matrix with the rows of keys, then those of values.
KEYS_AND_VALUES = Split(
    {
        "attn.k.weight": lambda t: t[: t.shape[0] // 2].contiguous(),
        "attn.v.weight": lambda t: t[t.shape[0] // 2 :].contiguous(),
    },
    lambda k, v: cat([k, v]),
)

FAMILY = Family(
    model_types=("gpt_refact",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={
        "attn.kv.weight": KEYS_AND_VALUES,
        **gate_and_up_rows("mlp.gate_up_proj.weight", "mlp."),
    },
    gguf_types=("refact",),
    gguf=GGUF,
)
