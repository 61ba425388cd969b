"""YOSO (Zeng et al., 2021): BERT whose attention is the chance that hashes of tokens are equal.

The expectation is computed, not drawn: what the published checkpoints ask for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.expected_hashes import HashLayer
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("YosoModel",)
BASE_PREFIX = "yoso."
HEADS = HeadNames(inner="classifier.dense", text="classifier.out_proj")


@dataclass
class Config(BertConfig):
    """The keys of config.json; those of drawn hashes change nothing."""

    neutral = {
        **BertConfig.neutral,
        **dict.fromkeys(("num_hash", "use_fast_hash", "lsh_backward"), ()),
    }

    max_position_embeddings: int = 4096
    type_vocab_size: int = 1
    use_expectation: bool = True
    hash_code_len: int = 9
    conv_window: int | None = None
    model_type: str = "yoso"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("use_expectation", c.use_expectation, (True,))
    size, bits = c.conv_window, c.hash_code_len
    if size is not None and (size % 2 == 0 or not 0 < size < 4096):
        raise FormatError(f"config.json: conv_window is {size}; it must be odd, up to 4095")
    if not 1 <= bits <= 64:
        raise FormatError(f"config.json: hash_code_len is {bits}; it must be 1 to 64")
    return bert_spec(c, pooler=False, first=2, layer=BlockOf(HashLayer, bits, size))


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    heads = replace(HEADS, inner_act=str(config.get("hidden_act", "gelu")))
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


FAMILY = Family(
    model_types=("yoso",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
