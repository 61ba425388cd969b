"""Voxtral (Mistral AI, 2025): Whisper's encoder, four states a token, before a Llama."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
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
from rushlight.models.layers.hearing.towers import whisper_tower
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.towers import TwoProducts

ARCHITECTURES = ("VoxtralForConditionalGeneration",)
_MARKER, _BEFORE = "[AUDIO]", "[BEGIN_AUDIO]"
# What text_config means by what it leaves out.
_TEXT = {
    "vocab_size": 131072, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 30,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "rope_theta": 100000000.0, "head_dim": 128,
}  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    audio_config: Any = None
    text_config: Any = None
    audio_token_id: int | None = None
    projector_hidden_act: str = "gelu"
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    hidden_size: int | None = None  # that of text_config
    model_type: str = "voxtral"

    # Of the encoder, whose keys are in audio_config.
    neutral = dict.fromkeys(
        ("d_model", "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers"), ()
    )


def asked(language: str | None) -> Messages:
    """The prompt that asks for a transcript: one of Mistral's for this alone."""
    spoken = f"lang:{language}" if language else ""
    return [
        {"role": "user", "content": [
            {"type": "text", "text": "[INST]"}, {"type": "audio"},
            {"type": "text", "text": f"[/INST]{spoken}[TRANSCRIBE]"}]},
    ]  # fmt: skip


def laid(messages: Sequence[Mapping[str, Any]], marker: str) -> str:
    """A conversation as Mistral's tokenizer of the model lays it out."""
    text = "<s>"
    for message in messages:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = "".join(
            _BEFORE + marker if part.get("type") == "audio" else str(part.get("text", ""))
            for part in parts
        )
        if message.get("role") == "system":
            text += f"[SYSTEM_PROMPT]{words}[/SYSTEM_PROMPT]"
        elif message.get("role") == "assistant":
            text += f"{words}</s>"
        else:
            text += f"[INST]{words}[/INST]"
    return text


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    token = 24 if c.audio_token_id is None else c.audio_token_id
    with nn.layers_on("meta"):
        audio, tower = whisper_tower(config, "voxtral_encoder", pooled=False)
    merged, places = audio.intermediate_size, audio.max_source_positions
    if places * audio.hidden_size % merged:
        raise FormatError(
            f"config.json: audio_config: {places} states of {audio.hidden_size} numbers are no "
            f"whole number of rows of intermediate_size {merged}"
        )
    count = places * audio.hidden_size // merged

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        states = model.model.audio_tower(inputs["features"])
        out: Tensor = model.model.multi_modal_projector(states.reshape(-1, merged))
        return out

    def processor(files: Mapping[str, bytes], _: Any) -> Any:
        settings = settings_of(files, {"feature_size": audio.num_mel_bins, "n_fft": 400})
        seconds = whole_setting(settings, "chunk_length", 30)
        return WindowProcessor(
            audio.num_mel_bins, seconds, 1 << 20, lambda _: count, _MARKER, together=True
        )

    def hearing(spec: DecoderSpec) -> Hearing:
        parts: dict[str, Any] = {
            "model.audio_tower": tower,
            "model.multi_modal_projector": TwoProducts(
                merged, spec.width, spec.width, c.projector_hidden_act, False
            ),
        }
        return Hearing(
            token, _MARKER, parts, look, processor, inline=_BEFORE + _MARKER, asked=asked,
            laid=laid, raw=True,
        )  # fmt: skip

    return hearing_decoder(config, names, c, hearing, text=lambda within: {**_TEXT, **within})


FAMILY = Family(
    model_types=("voxtral",),
    tasks=("audio-text-to-text", "automatic-speech-recognition", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=HEARING_NAMES,
)
