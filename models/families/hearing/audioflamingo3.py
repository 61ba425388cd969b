"""Audio Flamingo 3 (Goel et al., 2025): Whisper's encoder in windows of 30 s before a Qwen2."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.hearing.decoder import (
    HEARING_NAMES,
    Hearing,
    Messages,
    hearing_decoder,
)
from rushlight.models.layers.hearing.features import WindowProcessor, settings_of, whole_setting
from rushlight.models.layers.hearing.towers import host_numbers, trimmed, whisper_tower
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.towers import TwoProducts

ARCHITECTURES = ("AudioFlamingo3ForConditionalGeneration",)
_BEGINS = (
    "The spoken content of the audio is",
    "The transcription of the audio is",
    "The content of the input audio is",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    audio_config: Any = None
    text_config: Any = None
    audio_token_id: int = 151669
    projector_hidden_act: str = "gelu"
    projector_bias: bool = True
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "audioflamingo3"

    # Of the encoder, whose keys are in audio_config.
    neutral = dict.fromkeys(
        ("d_model", "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers"), ()
    )


def rows(frames: int) -> int:
    """How many placeholders so many frames of features have."""
    return max(0, ((frames - 1) // 2 - 1) // 2 + 1)


def asked(language: str | None) -> Messages:
    """The messages that ask for a transcript."""
    words = {"type": "text", "text": "Transcribe the input speech."}
    return [{"role": "user", "content": [words, {"type": "audio"}]}]


def heard(text: str) -> tuple[str, str | None]:
    """What an answer says was spoken, without the words around it."""
    text = text.strip()
    begin = next((begin for begin in _BEGINS if text.startswith(begin)), "")
    if begin:
        text = text.removeprefix(begin).strip().removesuffix(".").strip()
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1].strip()
    return text, None


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    with nn.layers_on("meta"):
        audio, tower = whisper_tower(config, "audioflamingo3_encoder", pooled=True)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        frames = host_numbers(inputs["frames"])
        states = model.model.audio_tower(inputs["features"], frames)
        out: Tensor = model.model.multi_modal_projector(trimmed(states, [rows(n) for n in frames]))
        return out

    def processor(files: Mapping[str, bytes], _: Any) -> Any:
        settings = settings_of(
            files, {"feature_size": audio.num_mel_bins, "n_fft": 400, "audio_token": "<sound>"}
        )
        seconds = whole_setting(settings, "chunk_length", 30)
        most = max(1, whole_setting(settings, "max_audio_len", 600) // seconds)
        return WindowProcessor(audio.num_mel_bins, seconds, most, rows, "<sound>")

    def hearing(spec: DecoderSpec) -> Hearing:
        parts: dict[str, Any] = {
            "model.audio_tower": tower,
            "model.multi_modal_projector": TwoProducts(
                tower.spec.width, spec.width, spec.width, c.projector_hidden_act, c.projector_bias
            ),
        }
        return Hearing(
            c.audio_token_id, "<sound>", parts, look, processor, asked=asked, heard=heard
        )

    return hearing_decoder(config, names, c, hearing)


FAMILY = Family(
    model_types=("audioflamingo3",),
    tasks=("audio-text-to-text", "automatic-speech-recognition", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=HEARING_NAMES,
)
