"""X-MOD (Pfeiffer et al., 2022): XLM-RoBERTa with an adapter for each language in every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.languages import LanguageLayer, LanguagesSpec
from rushlight.models.layers.encoder import BlockOf, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import ROBERTA

ARCHITECTURES = ("XmodModel",)
BASE_PREFIX = "roberta."
HEADS = ROBERTA
NAMES = EncoderNames(norm="encoder.LayerNorm")


@dataclass
class Config(roberta.Config):
    """The keys of config.json; default_language: that of the texts, one of languages."""

    languages: Any = ("en_XX",)
    default_language: str | None = None
    adapter_reduction_factor: int = 2
    adapter_layer_norm: bool = False
    adapter_reuse_layer_norm: bool = True
    ln_before_adapter: bool = True
    pre_norm: bool = False
    model_type: str = "xmod"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    names, used, factor = c.languages, c.default_language, c.adapter_reduction_factor
    known = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not known or any(not name or "." in name for name in names):
        raise FormatError(f"config.json: languages is {brief(names)}; it must be a list of names")
    if used not in names:
        raise FormatError(
            f"config.json: default_language is {brief(used)}; it must say the texts' language, one "
            f"of {', '.join(names)}"
        )
    if not 1 <= factor <= c.hidden_size:
        raise FormatError(f"config.json: adapter_reduction_factor is {factor}, out of range")
    languages = LanguagesSpec(
        tuple(names),
        str(used),
        c.hidden_size // factor,
        c.adapter_layer_norm,
        c.adapter_reuse_layer_norm,
        c.ln_before_adapter,
    )
    return replace(
        roberta.describe(c, pooler),
        place="before" if c.pre_norm else "after",
        layer=BlockOf(LanguageLayer, languages),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("xmod",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
