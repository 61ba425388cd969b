"""MobileBERT (Sun et al., 2020): BERT whose many layers are narrow, with wide states between."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.bottleneck import (
    BottleneckLayer,
    BottleneckSpec,
    NeighbourEmbeddings,
)
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("MobileBertModel",)
BASE_PREFIX = "mobilebert."
HEADS = HeadNames(rest="cls.predictions.dense")
NORMS: dict[str, Literal["affine", "layer"]] = {"no_norm": "affine", "layer_norm": "layer"}


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    # `build` reads the first; the reference computes the second.
    neutral = {"classifier_activation": (), "true_hidden_size": (), "is_causal": ()}

    hidden_act: str = "relu"
    hidden_dropout_prob: float = 0.0
    embedding_size: int = 128
    trigram_input: bool = True
    use_bottleneck: bool = True
    intra_bottleneck_size: int = 128
    use_bottleneck_attention: bool = False
    key_query_shared_bottleneck: bool = True
    num_feedforward_networks: int = 4
    normalization_type: str = "no_norm"
    model_type: str = "mobilebert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("normalization_type", c.normalization_type, tuple(NORMS))
    choose("num_feedforward_networks", c.num_feedforward_networks, range(1, 65))
    narrow = BottleneckSpec(
        c.intra_bottleneck_size if c.use_bottleneck else 0,
        c.key_query_shared_bottleneck,
        c.use_bottleneck_attention,
        c.num_feedforward_networks,
        c.trigram_input,
    )
    size = narrow.size or c.hidden_size
    if size != c.hidden_size and not (narrow.shared or narrow.everywhere):
        choose("key_query_shared_bottleneck", False, (True,))
    return bert_spec(
        c,
        pooler=pooler,
        embedding=c.embedding_size,
        norm=NormSpec(NORMS[c.normalization_type], c.layer_norm_eps),
        head=max(size // max(c.num_attention_heads, 1), 1),
        input=BlockOf(NeighbourEmbeddings, narrow),
        layer=BlockOf(BottleneckLayer, narrow),
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    if head_of(config, ARCHITECTURES) == "ForSequenceClassification":
        choose("classifier_activation", config.get("classifier_activation", True), (True,))
    heads = replace(HEADS, size=config.get("hidden_size", 512))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("mobilebert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
