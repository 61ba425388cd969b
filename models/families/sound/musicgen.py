"""MusicGen (Copet et al., 2023): music from a text, by codes of EnCodec."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families import family_of
from rushlight.models.families.family import Family
from rushlight.models.families.sound import encodec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seq2seq.text_encoder import TextEncoder
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.sound.encodec import EncodecModel
from rushlight.models.layers.sound.musicgen import MusicModel
from rushlight.models.layers.sound.seanet import rename_tensors

ARCHITECTURES = ("MusicgenForConditionalGeneration",)


@dataclass
class Config:
    """The keys of config.json."""

    text_encoder: Any = None
    audio_encoder: Any = None
    decoder: Any = None
    model_type: str = "musicgen"


@dataclass
class Decoder:
    """The keys of config.json's decoder."""

    neutral = {"layerdrop": (), "max_position_embeddings": (), "scale_embedding": (False,)}

    vocab_size: int = 2048
    num_hidden_layers: int = 24
    ffn_dim: int = 4096
    num_attention_heads: int = 16
    activation_function: str = "gelu"
    hidden_size: int = 1024
    num_codebooks: int = 4
    audio_channels: int = 1
    pad_token_id: int | None = 2048
    cross_attention_hidden_size: int | None = None
    model_type: str = "musicgen_decoder"


def build(config: dict[str, Any], names: Collection[str]) -> MusicModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    inner = read_config(Decoder, part_of(config, "decoder", "musicgen_decoder"))
    return MusicModel(c, inner, *both_of(config, inner))


def both_of(config: dict[str, Any], inner: Any) -> tuple[TextEncoder, EncodecModel]:
    """The encoder of texts and the codec of config.json, beside a decoder of keys `inner`.

    FormatError for parts that are not supported, or do not fit one another.
    """
    choose("activation_function", inner.activation_function, tuple(ACTIVATIONS))
    choose("audio_channels", inner.audio_channels, (1, 2))
    text_config = part_of(config, "text_encoder", "t5")
    kind = text_config["model_type"]
    choose("text_encoder.model_type", kind, ("t5",))
    audio_config = part_of(config, "audio_encoder", "encodec")
    choose("audio_encoder.model_type", audio_config["model_type"], ("encodec",))
    t5 = family_of("t5", "config.json: text_encoder.model_type")
    text = t5.build(text_config | {"architectures": ["T5EncoderModel"]}, [])
    audio = encodec.build(audio_config, [])
    assert isinstance(text, TextEncoder) and isinstance(audio, EncodecModel)
    if inner.hidden_size % max(inner.num_attention_heads, 1) or inner.hidden_size < 4:
        raise FormatError(
            f"config.json: decoder.hidden_size {inner.hidden_size} is not a multiple of "
            f"num_attention_heads {inner.num_attention_heads}"
        )
    if inner.num_codebooks != audio.codebooks * inner.audio_channels or not (
        0 <= (inner.pad_token_id or 0) <= inner.vocab_size
    ):
        raise FormatError(
            f"config.json: decoder.num_codebooks {inner.num_codebooks} does not fit audio_channels "
            f"{inner.audio_channels} and the codec's {audio.codebooks} codebooks, or pad_token_id "
            f"{inner.pad_token_id} is no code"
        )
    return text, audio


def part_of(config: dict[str, Any], key: str, kind: str) -> dict[str, Any]:
    """The configuration in a key; those of `kind` where it names no model_type."""
    value = config.get(key)
    if not isinstance(value, dict):
        raise FormatError(f"config.json: {key} is {brief(value)}; it must be an object")
    return {"model_type": kind, **value, "architectures": None}


FAMILY = Family(
    model_types=("musicgen",),
    tasks=("text-to-audio",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=without(("inited", "cluster_size", "embed_avg")),
)
