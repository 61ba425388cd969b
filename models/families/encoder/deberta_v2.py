"""DeBERTa of versions 2 and 3 (He et al., 2021): disentangled attention, a convolution beside."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.disentangled import DisentangledSpec
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("DebertaV2Model",)
BASE_PREFIX = "deberta."
HEADS = HeadNames(inner="pooler.dense")
# For legacy: false, which has another head of masked words.
_LM = "lm_predictions.lm_head."
NEWER = HeadNames(
    _LM + "dense", _LM + "LayerNorm", _LM + "decoder", _LM + "bias", inner="pooler.dense"
)
_SELF = "attention.self."
NAMES = EncoderNames(
    projection="embeddings.embed_proj",
    q=_SELF + "query_proj",
    k=_SELF + "key_proj",
    v=_SELF + "value_proj",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-7
    embedding_size: int = 0
    attention_head_size: int = 0
    relative_attention: bool = False
    max_relative_positions: int = 0
    position_buckets: int = 0
    norm_rel_ebd: str = "none"
    share_att_key: bool = False
    position_biased_input: bool = True
    pos_att_type: Any = None
    conv_kernel_size: int = 0
    conv_act: str = "tanh"
    conv_groups: int = 1
    pooler_hidden_act: str = "gelu"
    pooler_hidden_size: int = 0
    legacy: bool = True


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    named_kinds, count = c.pos_att_type or [], max(c.num_attention_heads, 1)
    named = (
        named_kinds.lower().replace(" ", "").split("|")
        if isinstance(named_kinds, str)
        else named_kinds
    )
    choose("attention_head_size", c.attention_head_size * count, (c.hidden_size, 0))
    choose("pooler_hidden_size", c.pooler_hidden_size, (c.hidden_size, 0))
    parts = tuple(kind for kind in ("c2p", "p2c") if kind in named)
    far = max(c.max_relative_positions, 0) or c.max_position_embeddings
    sides = (c.position_buckets, far) if c.position_buckets else (far, 0)
    disentangled = DisentangledSpec(*sides, parts, c.share_att_key, "layer_norm" in c.norm_rel_ebd)
    return bert_spec(
        c,
        pooler=False,
        embedding=c.embedding_size,
        project_first=True,
        names=NAMES,
        absolute=c.position_biased_input,
        disentangled=disentangled if c.relative_attention else None,
        scale=(max(c.hidden_size // count, 1) * (1 + len(parts))) ** -0.5,
        conv=(c.conv_kernel_size, c.conv_groups, c.conv_act) if c.conv_kernel_size else None,
    )


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether the model does without a tensor: a discriminator, or a base model's masked words."""
    return name.startswith(("mask_predictions.", _LM)[: 1 + (not config.get("architectures"))])


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    config = {n: v for n, v in config.items() if v != -1}  # -1 is the default
    heads = NEWER if config.get("legacy") is False else HEADS
    heads = replace(heads, inner_act=str(config.get("pooler_hidden_act", "gelu")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("deberta-v2",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    unused=unused,
)
