"""MPT (MosaicML, 2023) and replit-code 1.5: ALiBi or learned positions, a fused projection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config import checked, choose, harmless
from rushlight.models.families.text import replit
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPNames

MODEL_TYPES = ("mpt",)
TASKS = ("text-generation", "chat")
ARCHITECTURES = ("MptForCausalLM", "MPTForCausalLM")
BASE_PREFIX = "transformer."
NAMES = DecoderNames(
    base="transformer", embedding="wte", positions="wpe", layers="blocks",
    before_attention="norm_1", attention="attn", before_mlp="norm_2", mlp="ffn", norm="norm_f",
)  # fmt: skip
MLP = MLPNames(up="up_proj", down="down_proj")
MANY, GROUPS, ONE = "multihead_attention", "grouped_query_attention", "multiquery_attention"
# Keys of attn_config, their types and supported values.
KEYS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "attn_type": ("str", (MANY, GROUPS, ONE)), "prefix_lm": ("bool", (False,)),
    "attn_uses_sequence_id": ("bool", (False,)), "alibi_bias_max": ("int", (8,)),
    "alibi": ("bool", ()), "qk_ln": ("bool", ()), "kv_n_heads": ("int", ()),
    "clip_qkv": ("float", ()), "softmax_scale": ("float", ()), "sliding_window_size": ("", (-1,)),
}  # fmt: skip


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
    layer_norm_epsilon: float = 1e-5
    logit_scale: Any = None
    no_bias: bool = True
    learned_pos_emb: bool = True  # where there is no ALiBi
    emb_pdrop: float = 0.0
    norm_type: str = "low_precision_layernorm"
    fc_type: Any = None
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "mpt"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    given = c.attn_config if isinstance(c.attn_config, dict) else {}
    for key, value in given.items():
        if key in KEYS and value is not None:
            kind, values = KEYS[key]
            checked(f"config.json: attn_config.{key}", key, kind, value)
            choose(f"attn_config.{key}", value, values or (value,))
        elif value and not harmless(key, value) and not key.startswith(("fused_qkv", "rope_")):
            raise FormatError(f"config.json: attn_config.{key} {brief(value)} is not supported")
    kind = given.get("attn_type", MANY)
    kv = {MANY: None, ONE: 1}.get(kind, given.get("kv_n_heads"))
    return replit.described(
        c, given | {"kv_n_heads": kv}, c.expansion_ratio * c.d_model, MLP, NAMES
    )


build = decoder_builder(Config, describe, ARCHITECTURES)
