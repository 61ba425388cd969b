"""MPT (MosaicML, 2023) and replit-code: ALiBi, no biases, fused projections that are clipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

MODEL_TYPES = ("mpt",)
TASKS = ("text-generation", "chat")
ARCHITECTURES = ("MptForCausalLM", "MPTForCausalLM")
BASE_PREFIX = "transformer."
NAMES = DecoderNames(
    base="transformer", embedding="wte", layers="blocks", before_attention="norm_1",
    attention="attn", before_mlp="norm_2", mlp="ffn", norm="norm_f",
)  # fmt: skip
# Keys of attn_config and their supported values.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "attn_type": ("multihead_attention",), "prefix_lm": (False,), "qk_ln": (False,),
    "alibi": (True,), "alibi_bias_max": (8,), "attn_uses_sequence_id": (False,),
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
    logit_scale: float | None = None
    no_bias: bool = True
    learned_pos_emb: bool = True  # where there is no ALiBi
    emb_pdrop: float = 0.0
    embedding_fraction: float = 1.0
    norm_type: str = "low_precision_layernorm"
    init_config: Any = None
    init_device: str = "cpu"
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "mpt"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    given = c.attn_config if isinstance(c.attn_config, dict) else {}
    for key, values in SUPPORTED.items():
        if given.get(key, values[0]) not in values:
            raise FormatError(
                f"config.json: attn_config.{key} {brief(given[key])} is not supported; supported: "
                f"{values[0]}"
            )
    attention = AttentionSpec(
        c.n_heads, c.n_heads, c.d_model // max(c.n_heads, 1), fused="stacked", alibi=True,
        scale=given.get("softmax_scale"), clip=given.get("clip_qkv") or None,
        names=AttentionNames(qkv="Wqkv", out="out_proj"),
    )  # fmt: skip
    mlp = MLPSpec(
        c.expansion_ratio * c.d_model, "gelu", gated=False,
        names=MLPNames(up="up_proj", down="down_proj"),
    )  # fmt: skip
    return DecoderSpec(
        c.vocab_size, c.d_model, c.max_seq_len, (LayerSpec(attention, mlp),) * c.n_layers,
        NormSpec("layer", c.layer_norm_epsilon, bias=False), tied=bool(c.tie_word_embeddings),
        logits_scale=1.0 if c.logit_scale is None else c.logit_scale, names=NAMES,
    )  # fmt: skip


build = decoder_builder(Config, describe, ARCHITECTURES)
