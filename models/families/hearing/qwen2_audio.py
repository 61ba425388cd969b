"""Qwen2-Audio (Chu et al., 2024): Whisper's encoder with pooled states before a Qwen2."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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

ARCHITECTURES = ("Qwen2AudioForConditionalGeneration",)
_MARKER, _BEFORE, _AFTER = "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    audio_config: Any = None
    text_config: Any = None
    audio_token_index: int = 151646
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "qwen2_audio"

    neutral = {"ignore_index": ()}  # of training


class Projector(nn.Module):
    """One product."""

    def __init__(self, width: int, out: int) -> None:
        self.linear = nn.Linear(width, out)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., out)."""
        out: Tensor = self.linear(x)
        return out


def rows(frames: int) -> int:
    """How many placeholders so many frames of features have."""
    return max(0, ((frames - 1) // 2 - 1) // 2 + 1)


def asked(language: str | None) -> Messages:
    """The messages that ask for a transcript."""
    words = "Detect the language and recognize the speech:" + (
        f" <|{language}|>" if language else ""
    )
    return [{"role": "user", "content": [{"type": "audio"}, {"type": "text", "text": words}]}]


def laid(messages: Sequence[Mapping[str, Any]], marker: str) -> str:
    """A conversation in ChatML, whose sounds are counted: that of files without a template."""
    text, count = "", 0
    if messages and messages[0].get("role") != "system":
        text = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    for message in messages:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text += f"<|im_start|>{message.get('role')}\n"
        for part in parts:
            if part.get("type") == "audio":
                count += 1
                text += f"Audio {count}: {_BEFORE}{marker}{_AFTER}\n"
            else:
                text += str(part.get("text", ""))
        text += "<|im_end|>\n"
    return f"{text}<|im_start|>assistant\n"


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    with nn.layers_on("meta"):
        audio, tower = whisper_tower(config, "qwen2_audio_encoder", pooled=True)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        frames = host_numbers(inputs["frames"])
        states = model.model.audio_tower(inputs["features"], frames)
        out: Tensor = model.model.multi_modal_projector(trimmed(states, [rows(n) for n in frames]))
        return out

    def processor(files: Mapping[str, bytes], _: Any) -> Any:
        settings = settings_of(files, {"feature_size": audio.num_mel_bins, "n_fft": 400})
        seconds = whole_setting(settings, "chunk_length", 30)
        return WindowProcessor(audio.num_mel_bins, seconds, 1, rows, _MARKER)

    def hearing(spec: DecoderSpec) -> Hearing:
        parts: dict[str, Any] = {
            "model.audio_tower": tower,
            "model.multi_modal_projector": Projector(tower.spec.width, spec.width),
        }
        return Hearing(
            c.audio_token_index, _MARKER, parts, look, processor,
            inline=_BEFORE + _MARKER + _AFTER, asked=asked, laid=laid,
        )  # fmt: skip

    return hearing_decoder(config, names, c, hearing)


FAMILY = Family(
    model_types=("qwen2_audio",),
    tasks=("audio-text-to-text", "automatic-speech-recognition", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=HEARING_NAMES,
)
