"""T5Gemma (Zhang et al., 2025): an encoder and a decoder made of Gemma 2."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma2
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seq2seq.pair import (
    GEMMA_NAMES,
    CrossBlock,
    CrossSpec,
    DecoderPair,
    PairSpec,
    part_of,
    whole_layers,
)

ARCHITECTURES = ("T5GemmaForConditionalGeneration", "T5GemmaModel")


@dataclass
class Part(gemma2.Config):
    """The keys of the encoder's, or of the decoder's configuration."""

    pad_token_id: int | None = 0
    cross_attention_hidden_size: Any = None  # the encoder's width, whatever it says
    model_type: str = "t5_gemma_module"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    encoder: Any = field(default_factory=dict)
    decoder: Any = field(default_factory=dict)
    tie_word_embeddings: bool = True
    model_type: str = "t5gemma"
    neutral = {
        "classifier_dropout_rate": (),
        "vocab_size": (),
        "cross_attention_hidden_size": (),  # set by transformers
    }


def _unmasked(layer: int, a: AttentionSpec) -> AttentionSpec:
    # A token sees those at the distance of the window, too.
    return replace(a, causal=False, window=None if a.window is None else a.window + 1)


def _describe(c: Part) -> DecoderSpec:
    return replace(gemma2.describe(c), names=GEMMA_NAMES)


def build(config: dict[str, Any], names: Collection[str]) -> DecoderPair:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    source = part_of(c, "encoder", Part, "t5_gemma_module")
    target = part_of(c, "decoder", Part, "t5_gemma_module")
    encoder, decoder = _describe(source), _describe(target)
    if not decoder.layers:
        raise FormatError("config.json: decoder.num_hidden_layers is 0; at least 1")
    first: Any = decoder.layers[0].attention
    cross = CrossSpec(source.hidden_size, replace(first, rotary=None, window=None))
    return DecoderPair(
        c,
        PairSpec(
            each_attention(encoder, _unmasked),
            whole_layers(decoder, CrossBlock(decoder, cross)),
            tied=c.tie_word_embeddings,
            padding=source.pad_token_id,
        ),
    )


FAMILY = Family(
    model_types=("t5gemma",),
    tasks=("text2text-generation", "translation", "summarization"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
)
