"""EuroBERT (Boizard et al., 2025): Llama's layers, read in both directions, with BERT's heads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("EuroBertModel",)
BASE_PREFIX = "model."
HEADS = HeadNames("", "", "lm_head", "lm_head.bias", inner="dense", inner_act="gelu")
NAMES = EncoderNames(
    words="embed_tokens",
    embedding_norm="",
    layers="layers",
    q="self_attn.q_proj",
    k="self_attn.k_proj",
    v="self_attn.v_proj",
    out="self_attn.o_proj",
    attention_norm="input_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
    mlp_norm="post_attention_layernorm",
    norm="norm",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json; those of norms and token types that others share are not used."""

    neutral = {**BertConfig.neutral, "mask_token_id": ()}

    hidden_act: str = "silu"
    max_position_embeddings: int = 8192
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rms_norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    classifier_pooling: str = "late"
    model_type: str = "eurobert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    head = c.head_dim or c.hidden_size // max(c.num_attention_heads, 1)
    fewer = c.num_key_value_heads not in (None, c.num_attention_heads)
    return EncoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        NormSpec("rms", c.rms_norm_eps),
        "before",
        types=0,
        pooler=False,
        absolute=False,
        kv_heads=c.num_key_value_heads or 0 if fewer else 0,
        head=head,
        rotary=(rotary_of(asdict(c), head),) * c.num_hidden_layers,
        gated=True,
        biases=(c.attention_bias, c.attention_bias, c.mlp_bias, c.mlp_bias),
        names=NAMES,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    pooled = config.get("classifier_pooling", "late")
    choose("classifier_pooling", pooled, ("late", "mean", "bos"))
    heads = replace(
        HEADS,
        late=pooled == "late",
        mean=pooled == "mean",
        biases=(True, config.get("mlp_bias") is True),
    )
    config = {"tie_word_embeddings": False} | config
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


GGUF = encoder_architecture(
    "eurobert",
    "EuroBertModel",
    NAMES,
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon", "type_vocab_size": ""},
    before=True,
)

FAMILY = Family(
    model_types=("eurobert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    gguf_types=("eurobert",),
    gguf=GGUF,
)
