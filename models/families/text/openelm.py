"""OpenELM (Mehta et al., 2024): heads and inner sizes of each layer, norms of q and k."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.ops import cat
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture, listed
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import FLOATS, decoder_builder, numbers_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.parts import Split

ARCHITECTURES = ("OpenELMForCausalLM",)
NAMES = DecoderNames(
    base="transformer",
    embedding="token_embeddings",
    before_attention="attn_norm",
    attention="attn",
    before_mlp="ffn_norm",
    mlp="ffn",
)
ATTENTION = AttentionNames(qkv="qkv_proj", out="out_proj")
MLP = MLPNames(gate="gate", up="up", down="proj_2", router="")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("inner",)
    neutral = dict.fromkeys(("qkv_multipliers", "num_gqa_groups", "rope_max_length"), ())

    vocab_size: int
    model_dim: int
    num_transformer_layers: int
    head_dim: int
    num_query_heads: Any
    num_kv_heads: Any
    ffn_multipliers: Any = None
    ffn_dim_divisor: int = 256
    ffn_with_glu: bool = True
    inner: Any = None  # in GGUF files
    max_context_length: int = 2048
    activation_fn_name: str = "swish"
    normalization_layer_name: str = "rms_norm"
    normalize_qk_projections: bool = True
    rope_freq_constant: float = 10000
    share_input_output_layers: bool = True
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "openelm"


def inner_of(c: Config) -> list[int]:
    """The inner size of each layer's MLP: multiples of `ffn_dim_divisor` near the wanted ones."""
    count, every = c.num_transformer_layers, max(c.ffn_dim_divisor, 1)
    if c.inner is not None:
        return numbers_of("inner", c.inner, count)
    sizes = []
    for part in numbers_of("ffn_multipliers", c.ffn_multipliers, count, FLOATS):
        wanted = part * c.model_dim
        near = max(every, int(wanted + every / 2) // every * every)
        sizes.append(near + every if near < 0.9 * wanted else near)
    return sizes


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("ffn_with_glu", c.ffn_with_glu, (True,))
    choose("normalization_layer_name", c.normalization_layer_name, ("rms_norm",))
    count, norm = c.num_transformer_layers, NormSpec("rms", 1e-6)
    c.tie_word_embeddings = c.share_input_output_layers
    sizes = [numbers_of(name, vars(c)[name], count) for name in ("num_query_heads", "num_kv_heads")]
    plain = AttentionSpec(
        1,
        1,
        c.head_dim,
        fused="stacked",
        norm=norm if c.normalize_qk_projections else None,
        rotary=rotary_of({"rope_theta": c.rope_freq_constant}, c.head_dim),
        names=ATTENTION,
    )
    layers = tuple(
        LayerSpec(
            replace(plain, heads=heads, kv_heads=kv),
            MLPSpec(inner, c.activation_fn_name, names=MLP),
        )
        for heads, kv, inner in zip(*sizes, inner_of(c), strict=True)
    )
    return DecoderSpec(
        c.vocab_size,
        c.model_dim,
        c.max_context_length,
        layers,
        norm,
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


def tell(model: Any) -> dict[str, Any]:
    """The sizes of each layer."""
    layers = model.spec.layers
    return {
        "feed_forward_length": np.array([layer.mlp.inner for layer in layers], np.int32),
        "attention.head_count": np.array([e.attention.heads for e in layers], np.int32),
        "attention.head_count_kv": np.array([e.attention.kv_heads for e in layers], np.int32),
        "attention.layer_norm_rms_epsilon": np.float32(1e-6),
    }


def adjust(c: dict[str, Any]) -> None:
    """A file has a list of each size."""
    for ours, theirs in LISTS.items():
        c[ours] = listed(theirs, c.get(f"each_{ours}"), int, [])
    c["share_input_output_layers"] = c["tie_word_embeddings"]


LISTS = {
    "num_query_heads": "attention.head_count",
    "num_kv_heads": "attention.head_count_kv",
    "inner": "feed_forward_length",
}
GGUF = Architecture(
    "openelm",
    "OpenELMForCausalLM",
    keys={
        "hidden_size": "",
        "intermediate_size": "",
        "num_hidden_layers": "",
        "num_attention_heads": "",
        "num_key_value_heads": "",
        "max_position_embeddings": "",
        "rope_theta": "",
        "model_dim": "embedding_length",
        "num_transformer_layers": "block_count",
        "max_context_length": "context_length",
        "rope_freq_constant": "rope.freq_base",
        **{f"each_{ours}": theirs for ours, theirs in LISTS.items()},
    },
    adjust=adjust,
    metadata=tell,
    decoder=NAMES,
    attention=ATTENTION,
    mlp=MLP,
)

# A matrix with the rows of gate, then those of up.
HALVES = Split(
    {
        "ffn.gate.weight": lambda t: t[: t.shape[0] // 2].contiguous(),
        "ffn.up.weight": lambda t: t[t.shape[0] // 2 :].contiguous(),
    },
    lambda gate, up: cat([gate, up]),
)

FAMILY = Family(
    model_types=("openelm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={"ffn.proj_1.weight": HALVES},
    gguf_types=("openelm",),
    gguf=GGUF,
)
