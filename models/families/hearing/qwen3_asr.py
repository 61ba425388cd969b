"""Qwen3-ASR (Qwen, 2026): an encoder of chunks of a second in front of a Qwen3."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.hearing.decoder import (
    HEARING_NAMES,
    Hearing,
    Messages,
    hearing_decoder,
)
from rushlight.models.layers.hearing.features import ChunkProcessor, settings_of
from rushlight.models.layers.hearing.towers import (
    ChunkTower,
    after_convolutions,
    host_numbers,
    part_of,
    tower_spec,
)
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.towers import TwoProducts

ARCHITECTURES = ("Qwen3ASRForConditionalGeneration",)
_MARKER, _SAID = "<|audio_pad|>", "<asr_text>"
# What the model calls languages.
_LANGUAGES = dict(
    pair.split(":")
    for pair in (
        "ar:Arabic yue:Cantonese zh:Chinese cs:Czech da:Danish nl:Dutch en:English fil:Filipino "
        "fi:Finnish fr:French de:German el:Greek hi:Hindi hu:Hungarian id:Indonesian it:Italian "
        "ja:Japanese ko:Korean mk:Macedonian ms:Malay fa:Persian pl:Polish pt:Portuguese "
        "ro:Romanian ru:Russian es:Spanish sv:Swedish th:Thai tr:Turkish vi:Vietnamese"
    ).split()
)


@dataclass
class AudioConfig:
    """The keys of audio_config."""

    d_model: int = 1024
    encoder_layers: int = 24
    encoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    num_mel_bins: int = 128
    n_window: int = 50
    n_window_infer: int = 800
    output_dim: int = 3584
    downsample_hidden_size: int = 480
    max_position_embeddings: int = 13
    model_type: str = "qwen3_asr_encoder"

    neutral = {"scale_embedding": ()}  # which the reference does not multiply by


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    audio_config: Any = None
    text_config: Any = None
    audio_token_id: int = 151676
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "qwen3_asr"

    neutral = {"timestamp_token_id": (), "token_classification_bias": ()}  # of the aligner


def asked(language: str | None) -> Messages:
    """The messages that ask for a transcript."""
    return [{"role": "user", "content": [{"type": "audio"}]}]


def opened(language: str | None) -> str:
    """What begins an answer in a language; ValueError for one that the model does not know."""
    if language is None:
        return ""
    name = _LANGUAGES.get(language, language.capitalize())
    if name not in _LANGUAGES.values():
        raise ValueError(
            f"language {language!r} is not supported; supported: {', '.join(_LANGUAGES)}"
        )
    return f"language {name}{_SAID}"


def heard(text: str) -> tuple[str, str | None]:
    """What was said, and the language that the answer names."""
    before, mark, after = text.partition(_SAID)
    if not mark:
        return text.strip(), None
    name = before.strip().removeprefix("language ").strip()
    codes = [code for code, known in _LANGUAGES.items() if known == name]
    return after.strip(), codes[0] if codes else None


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    a = read_config(AudioConfig, part_of(config, "audio_config", "qwen3_asr_encoder"))
    choose("audio_config: activation_function", a.activation_function, tuple(ACTIVATIONS))
    at_least_one(a, "n_window", "num_mel_bins", "downsample_hidden_size", "output_dim")
    chunk = 2 * a.n_window
    if a.n_window_infer % chunk or a.n_window_infer < chunk or a.d_model % 2 or a.d_model < 4:
        raise FormatError(
            f"config.json: audio_config: n_window_infer {a.n_window_infer} must be a multiple of "
            f"twice n_window, {chunk}, and d_model {a.d_model} even"
        )
    # The reference counts 13 states of each full chunk, whatever its length.
    counted = tuple(n for n in range(1, 60) if after_convolutions(2 * n) == 13)
    choose("audio_config: n_window", a.n_window, counted)
    spec = tower_spec(
        a.d_model, a.encoder_layers, a.encoder_attention_heads, a.encoder_ffn_dim,
        a.activation_function, key_bias=True,
    )  # fmt: skip
    with nn.layers_on("meta"):
        tower = ChunkTower(
            spec, a.num_mel_bins, chunk, a.n_window_infer // chunk, a.downsample_hidden_size,
            a.max_position_embeddings,
        )  # fmt: skip

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        frames = host_numbers(inputs["frames"])
        each = zip(inputs["features"].split(1), frames, strict=True)
        states = cat([model.model.audio_tower(mels, count) for mels, count in each])
        out: Tensor = model.model.multi_modal_projector(states)
        return out

    def processor(files: Mapping[str, bytes], _: Any) -> Any:
        settings = settings_of(
            files, {"feature_size": a.num_mel_bins, "n_fft": 400, "n_window": a.n_window}
        )
        least = settings.get("min_length", 8000)
        if type(least) is not int or not 0 <= least <= 1 << 24:
            raise FormatError(
                f"the processor's min_length is {brief(least)}; it must be a whole number"
            )
        return ChunkProcessor(a.num_mel_bins, chunk, max(least, 400), tower.rows, _MARKER)

    def hearing(spec: DecoderSpec) -> Hearing:
        choose("audio_config: output_dim", a.output_dim, (spec.width,))
        parts: dict[str, Any] = {
            "model.audio_tower": tower,
            "model.multi_modal_projector": TwoProducts(
                a.d_model, a.d_model, a.output_dim, a.activation_function
            ),
        }
        return Hearing(
            c.audio_token_id, _MARKER, parts, look, processor,
            inline=f"<|audio_start|>{_MARKER}<|audio_end|>", asked=asked, opened=opened,
            heard=heard,
        )  # fmt: skip

    return hearing_decoder(config, names, c, hearing)


FAMILY = Family(
    model_types=("qwen3_asr",),
    tasks=("audio-text-to-text", "automatic-speech-recognition", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=HEARING_NAMES,
)
