"""ALBERT (Lan et al., 2019): narrow embeddings, and layers that share their parameters."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("AlbertModel",)
BASE_PREFIX = "albert."
HEADS = HeadNames(
    "predictions.dense",
    "predictions.LayerNorm",
    "predictions.decoder",
    "predictions.bias",
)
NAMES = EncoderNames(
    projection="encoder.embedding_hidden_mapping_in",
    layers="encoder.albert_layer_groups",
    q="attention.query",
    k="attention.key",
    v="attention.value",
    out="attention.dense",
    attention_norm="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    mlp_norm="full_layer_layer_norm",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    embedding_size: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    classifier_dropout_prob: float = 0.1


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    layers, groups, inner = c.num_hidden_layers, c.num_hidden_groups, c.inner_group_num
    if not 1 <= groups <= max(layers, 1) or not 1 <= inner <= 64:
        raise FormatError(
            f"config.json: num_hidden_groups {groups} and inner_group_num {inner} do not fit "
            f"{layers} layers"
        )
    order = [
        f"{i * groups // layers}.albert_layers.{j}" for i in range(layers) for j in range(inner)
    ]
    return bert_spec(
        c,
        pooler=pooler,
        plain_pooler=True,
        embedding=c.embedding_size,
        order=tuple(order),
        project=True,
        names=NAMES,
    )


FAMILY = Family(
    model_types=("albert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
