"""Apertus 1.5 (Swiss AI, 2026), its decoder: Apertus that reads more words than it writes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import apertus
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Apertus1p5TextForCausalLM",)


@dataclass
class Config(apertus.Config):
    """The keys of config.json that the model depends on."""

    neutral = {"hop_length": ()}  # of sounds

    output_vocab_size: int | None = None
    model_type: str = "apertus1p5_text"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    rows = c.output_vocab_size
    if rows is not None and not 1 <= rows <= c.vocab_size:
        raise FormatError(
            f"config.json: output_vocab_size is {rows}; it must be 1 to vocab_size {c.vocab_size}"
        )
    if rows not in (None, c.vocab_size) and c.tie_word_embeddings:
        raise FormatError(
            f"config.json: output_vocab_size is {rows} with tie_word_embeddings, but vocab_size is "
            f"{c.vocab_size}; a shared weight has as many rows"
        )
    return replace(apertus.describe(c), head_rows=rows)


FAMILY = Family(
    model_types=("apertus1p5_text",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
