"""Nyströmformer (Xiong et al., 2021): BERT with a convolution over values beside the attention.

Attention is full, as the published checkpoints have as many landmarks as places in a segment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.value_conv import ValueConvLayer
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("NystromformerModel",)
BASE_PREFIX = "nystromformer."
HEADS = HeadNames(inner="classifier.dense", text="classifier.out_proj")


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    hidden_act: str = "gelu_new"
    max_position_embeddings: int = 510
    layer_norm_eps: float = 1e-5
    num_landmarks: int = 64
    segment_means_seq_len: int = 64
    conv_kernel_size: int | None = 65
    inv_coeff_init_option: bool = False
    model_type: str = "nystromformer"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("num_landmarks", c.num_landmarks, (c.segment_means_seq_len,))
    choose("inv_coeff_init_option", c.inv_coeff_init_option, (False,))
    size = c.conv_kernel_size
    if size is not None and (size % 2 == 0 or size > 4095):
        raise FormatError(f"config.json: conv_kernel_size is {size}; it must be odd, up to 4095")
    spec = bert_spec(c, pooler=False, first=2)
    if size is None:
        return spec
    return replace(spec, layer=BlockOf(ValueConvLayer, size))


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    heads = replace(HEADS, inner_act=str(config.get("hidden_act", "gelu_new")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("nystromformer",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
