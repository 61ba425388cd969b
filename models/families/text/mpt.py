"""MPT (MosaicML, 2023) and replit-code 1.5: ALiBi or learned positions, a fused projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import check_keys, choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import replit
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPNames

ARCHITECTURES = ("MptForCausalLM", "MPTForCausalLM")
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    positions="wpe",
    layers="blocks",
    before_attention="norm_1",
    attention="attn",
    before_mlp="norm_2",
    mlp="ffn",
    norm="norm_f",
)
MLP = MLPNames(up="up_proj", down="down_proj")
MANY, GROUPS, ONE = "multihead_attention", "grouped_query_attention", "multiquery_attention"
KEYS: dict[str, tuple[str, tuple[Any, ...]]] = {  # of attn_config: types, supported values
    "attn_type": ("str", (MANY, GROUPS, ONE)),
    "prefix_lm": ("bool", (False,)),
    "attn_uses_sequence_id": ("bool", (False,)),
    "alibi_bias_max": ("int", (8,)),
    "alibi": ("bool", ()),
    "qk_ln": ("bool", ()),
    "kv_n_heads": ("int", ()),
    "clip_qkv": ("float", ()),
    "softmax_scale": ("float", ()),
    "sliding_window_size": ("", (-1,)),
}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    max_seq_len: int = 2048
    expansion_ratio: int = 4
    attn_config: Any = None
    alibi_bias_max: float = 8.0  # this and the next in GGUF files; else in attn_config
    clip_qkv: float | None = None
    layer_norm_epsilon: float = 1e-5
    logit_scale: Any = None  # which transformers' own class does not read
    architectures: Any = None
    no_bias: bool = True
    learned_pos_emb: bool = True  # where there is no ALiBi
    norm_type: str = "low_precision_layernorm"  # all compute the same here
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "mpt"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    attn_config = c.attn_config if isinstance(c.attn_config, dict) else {}
    check_keys("attn_config", attn_config, KEYS, free=("fused_qkv", "rope_"))
    choose("alibi_bias_max", c.alibi_bias_max, (8,))
    c.logit_scale = None if c.architectures == ["MptForCausalLM"] else c.logit_scale
    c.clip_qkv = float(attn_config.get("clip_qkv") or c.clip_qkv or 0) or None
    kv = {MANY: None, ONE: 1}.get(attn_config.get("attn_type", MANY), attn_config.get("kv_n_heads"))
    attn_config = attn_config | {"kv_n_heads": kv, "clip_qkv": c.clip_qkv}
    return replit.described(c, attn_config, c.expansion_ratio * c.d_model, MLP, NAMES)


GGUF = Architecture(
    "mpt",
    "MptForCausalLM",
    keys={
        "d_model": "embedding_length",
        "n_layers": "block_count",
        "n_heads": "attention.head_count",
        "max_seq_len": "context_length",
        "layer_norm_epsilon": "attention.layer_norm_epsilon",
        "alibi_bias_max": "attention.max_alibi_bias",
        "clip_qkv": "attention.clamp_kqv",
    },
    adjust=lambda config: config.update(
        no_bias=not config["attention_bias"],
        expansion_ratio=config.get("intermediate_size", 0) // max(config["d_model"], 1),
    ),
    decoder=NAMES,
    attention=replit.ATTENTION,
    mlp=MLP,
)

FAMILY = Family(
    model_types=("mpt",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("mpt",),
    gguf=GGUF,
)
