"""Falcon (Almazrouei et al., 2023), 7B's layout and 40B's: parallel parts, shared keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.families.text import bloom
from rushlight.models.gguf.architecture import STACKED, Architecture, Regroup
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("FalconForCausalLM",)
NAMES = replace(bloom.NAMES, embedding_norm=None, before_mlp=None)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("stacked",)

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_kv_heads: int | None = None
    num_ln_in_parallel_attn: int | None = None
    layer_norm_epsilon: float = 1e-5
    alibi: bool = False
    new_decoder_architecture: bool = False
    multi_query: bool = True
    parallel_attn: bool = True
    bias: bool = False
    max_position_embeddings: int = 2048
    ffn_hidden_size: int | None = None
    activation: str = "gelu"
    rope_theta: float = 10000.0
    rope_scaling: Any = None
    rope_parameters: Any = None
    tie_word_embeddings: bool | None = True
    stacked: bool = False  # rows of q, of k, of v: in GGUF files
    eos_token_id: Any = None
    model_type: str = "falcon"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    heads, new = c.num_attention_heads, c.new_decoder_architecture
    head = c.hidden_size // max(heads, 1)
    kv = (c.num_kv_heads or heads) if new else 1 if c.multi_query else heads
    attention = AttentionSpec(
        heads,
        kv,
        head,
        bias=c.bias,
        out_bias=c.bias,
        fused="stacked" if c.stacked else "grouped",
        rotary=None if c.alibi else rotary_of(vars(c), head),
        alibi=8.0 if c.alibi else None,
        alibi_rounded=True,
        names=bloom.ATTENTION,
    )
    mlp = MLPSpec(
        c.ffn_hidden_size or 4 * c.hidden_size,
        c.activation,
        gated=False,
        bias=c.bias,
        names=bloom.MLP,
    )
    parallel, two = new or c.parallel_attn, new and c.num_ln_in_parallel_attn in (None, 2)
    after = None if parallel else "post_attention_layernorm"
    before = ("ln_attn", "ln_mlp") if two else ("input_layernorm", after)
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        (LayerSpec(attention, mlp),) * c.num_hidden_layers,
        NormSpec("layer", c.layer_norm_epsilon),
        parallel=parallel,
        tied=bool(c.tie_word_embeddings),
        names=replace(NAMES, before_attention=before[0], before_mlp=before[1]),
    )


def gguf() -> Architecture:
    """Of two norms the first is that of the MLP."""

    def adjust(c: dict[str, Any]) -> None:
        two = "ln_attn.weight" in c["inside"]
        c.update(
            new_decoder_architecture=two or c["num_key_value_heads"] > 1,
            stacked=True,
            num_kv_heads=c["num_key_value_heads"],
            num_ln_in_parallel_attn=1 + two,
        )

    def same(c: Any, *both: Tensor) -> tuple[Tensor, ...]:
        return both

    return Architecture(
        "falcon",
        "FalconForCausalLM",
        keys={
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
            "ffn_hidden_size": "feed_forward_length",
        },
        adjust=adjust,
        decoder=NAMES,
        attention=bloom.ATTENTION,
        mlp=bloom.MLP,
        transforms={bloom.ATTENTION.qkv: STACKED},
        parts={"blk.{}.attn_norm_2": f"{NAMES.base}.{NAMES.layers}.{{}}.ln_attn"},
        regroups=tuple(
            Regroup(
                (f"ln_attn.{end}", f"ln_mlp.{end}"),
                (f"ln_attn.{end}", f"{NAMES.before_attention}.{end}"),
                same,
                same,
            )
            for end in ("weight", "bias")
        ),
    )


FAMILY = Family(
    model_types=("falcon",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("falcon",),
    gguf=gguf(),
)
