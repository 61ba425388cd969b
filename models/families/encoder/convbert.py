"""ConvBERT (Jiang et al., 2020): ELECTRA with convolutions beside the attention of each layer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.encoder import electra
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.span_conv import SpanConvLayer, halved
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder

ARCHITECTURES = ("ConvBertModel",)
BASE_PREFIX = "convbert."
HEADS = electra.HEADS


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    embedding_size: int = 768
    head_ratio: int = 2
    conv_kernel_size: int = 9
    num_groups: int = 1
    model_type: str = "convbert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    size, groups, ratio = c.conv_kernel_size, c.num_groups, c.head_ratio
    heads = c.num_attention_heads // ratio or 1 if ratio else 0
    if not heads or c.hidden_size % (2 * heads):
        raise FormatError(
            f"config.json: head_ratio {ratio} leaves {heads} heads, which must have an even share "
            f"of hidden_size {c.hidden_size}"
        )
    if size % 2 == 0 or size > 255 or groups < 1:
        raise FormatError(
            f"config.json: conv_kernel_size {size} and num_groups {groups} are not supported; "
            "supported: an odd size up to 255, and groups from 1"
        )
    return halved(
        bert_spec(
            c,
            pooler=False,
            embedding=c.embedding_size,
            layer=BlockOf(SpanConvLayer, size, groups),
        ),
        ratio,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    heads = replace(HEADS, inner_act=str(config.get("hidden_act", "gelu")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("convbert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
