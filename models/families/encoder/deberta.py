"""DeBERTa of version 1 (He et al., 2020): disentangled attention, q, k and v of a head together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.encoder import deberta_v2
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.disentangled import DisentangledSpec
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder

ARCHITECTURES = ("DebertaModel",)
BASE_PREFIX = "deberta."
HEADS, NEWER = deberta_v2.HEADS, deberta_v2.NEWER
NAMES = EncoderNames(
    projection="embeddings.embed_proj",
    qkv="attention.self.in_proj",
    q_bias="attention.self.q_bias",
    v_bias="attention.self.v_bias",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-7
    embedding_size: int = 0
    relative_attention: bool = False
    max_relative_positions: int = 0
    position_biased_input: bool = True
    pos_att_type: Any = None
    talking_head: bool = False
    pooler_hidden_act: str = "gelu"
    pooler_hidden_size: int = 0
    legacy: bool = True
    model_type: str = "deberta"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    named: Any = c.pos_att_type or []
    if isinstance(named, str):
        named = [part.strip() for part in named.lower().split("|")]
    choose("talking_head", c.talking_head, (False,))
    choose("pooler_hidden_size", c.pooler_hidden_size, (c.hidden_size, 0))
    parts = tuple(kind for kind in ("c2p", "p2c") if kind in named)
    span = max(c.max_relative_positions, 0) or c.max_position_embeddings
    head = max(c.hidden_size // max(c.num_attention_heads, 1), 1)
    return bert_spec(
        c,
        pooler=False,
        embedding=c.embedding_size,
        project_first=True,
        absolute=c.position_biased_input,
        disentangled=DisentangledSpec(span, 0, parts, older=True) if c.relative_attention else None,
        scale=(head * (1 + len(named))) ** -0.5,
        by_head=True,
        biases=(False, True, True, True),
        names=NAMES,
    )


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether the model does without a tensor: a base model's masked words."""
    return name.startswith("lm_predictions.") and not config.get("architectures")


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    config = {n: v for n, v in config.items() if v != -1}  # -1 is the default
    heads = NEWER if config.get("legacy") is False else HEADS
    heads = replace(heads, inner_act=str(config.get("pooler_hidden_act", "gelu")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("deberta",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    unused=unused,
)
