"""Encoder-decoders of two models (Rothe et al., 2019): an encoder, and BERT or RoBERTa."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families import family_of
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import Encoder
from rushlight.models.layers.seq2seq.two_models import HeadOfWords, TwoModels, decoder_of

ARCHITECTURES = ("EncoderDecoderModel",)
DECODERS = ("bert", "roberta", "xlm-roberta", "camembert")
# Said of decoders alone.
_ROLE = {
    "is_decoder": True,
    "add_cross_attention": True,
    "is_causal": True,
    "cross_attention_hidden_size": None,
}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    encoder: Any = field(default_factory=dict)
    decoder: Any = field(default_factory=dict)
    tie_word_embeddings: bool = True
    model_type: str = "encoder-decoder"
    neutral = {"hidden_size": (), "vocab_size": (), "cross_attention_hidden_size": ()}


def _object(c: Config, name: str) -> dict[str, Any]:
    given = getattr(c, name)
    if not isinstance(given, Mapping):
        raise FormatError(f"config.json: {name} is {brief(given)}; it must be an object")
    return {key: value for key, value in given.items() if key != "architectures"}


def _encoder(c: Config, names: Collection[str]) -> Encoder:
    told = _object(c, "encoder")
    within = [n.removeprefix("encoder.") for n in names if n.startswith("encoder.")]
    model = family_of(told.get("model_type"), "config.json: encoder.model_type").build(told, within)
    if not isinstance(model, Encoder):
        raise FormatError(f"config.json: encoder.model_type {told['model_type']!r} is no encoder")
    return model


def build(config: dict[str, Any], names: Collection[str]) -> TwoModels:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = _object(c, "decoder")
    for key, value in _ROLE.items():
        choose(f"decoder.{key}", told.pop(key, value), (value,))
    kind = told.get("model_type")
    choose("decoder.model_type", kind, tuple(DECODERS))
    family: Any = family_of(kind, "config.json: decoder.model_type")
    like: Any = family.build(told, [])
    if like.spec.rotary or not like.spec.absolute or like.spec.gated:
        raise FormatError("config.json: decoder has other parts than BERT, which is not supported")
    base = f"decoder.{family.base_prefix.removesuffix('.')}"
    beside = any(name == f"decoder.{family.heads.bias}" for name in names)
    head = HeadOfWords(family.heads, tied=like.config.tie_word_embeddings, beside=beside)
    return TwoModels(c, _encoder(c, names), decoder_of(like.spec, base), head)


FAMILY = Family(
    model_types=("encoder-decoder",),
    tasks=("text2text-generation", "summarization", "translation"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
