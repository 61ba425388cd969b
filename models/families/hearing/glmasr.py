"""GLM-ASR (Z.ai, 2025): a Whisper with rotary positions, four states a token, before a Llama."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
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
from rushlight.models.layers.hearing.features import WindowProcessor, settings_of, whole_setting
from rushlight.models.layers.hearing.towers import (
    MelTower,
    host_numbers,
    part_of,
    tower_spec,
    trimmed,
)
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.towers import TwoProducts

ARCHITECTURES = ("GlmAsrForConditionalGeneration",)
_TOGETHER = 4  # states of the tower that are one token
# What text_config means by what it leaves out.
_TEXT = {
    "vocab_size": 59264, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-05, "eos_token_id": [59246, 59253, 59255],
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}  # fmt: skip


@dataclass
class AudioConfig:
    """The keys of audio_config."""

    hidden_size: int = 1280
    intermediate_size: int = 5120
    num_hidden_layers: int = 32
    num_attention_heads: int = 20
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "gelu"
    max_position_embeddings: int = 1500
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float | None = None
    partial_rotary_factor: float | None = None
    num_mel_bins: int = 128
    model_type: str = "glmasr_encoder"

    neutral = dict.fromkeys(("attention_bias", "mlp_bias"), ())


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    audio_config: Any = None
    text_config: Any = None
    audio_token_id: int = 59260
    projector_hidden_act: str = "gelu"
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "glmasr"


def rows(frames: int) -> int:
    """How many placeholders so many frames of features have."""
    return max(0, ((frames - 1) // 2 + 1) // _TOGETHER)


def asked(language: str | None) -> Messages:
    """The messages that ask for a transcript."""
    words = {"type": "text", "text": "Please transcribe this audio into text"}
    return [{"role": "user", "content": [{"type": "audio"}, words]}]


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    a = read_config(AudioConfig, part_of(config, "audio_config", "glmasr_encoder"))
    choose("audio_config: hidden_act", a.hidden_act, tuple(ACTIVATIONS))
    choose(
        "audio_config: num_key_value_heads", a.num_key_value_heads, (None, a.num_attention_heads)
    )
    at_least_one(a, "num_mel_bins", "num_attention_heads")
    head = a.hidden_size // a.num_attention_heads
    choose("audio_config: head_dim", a.head_dim, (None, head))
    merged = a.intermediate_size
    if merged != _TOGETHER * a.hidden_size:
        raise FormatError(
            f"config.json: audio_config: intermediate_size {merged} is not {_TOGETHER} times "
            f"hidden_size {a.hidden_size}, which the model needs"
        )
    rotary = rotary_of(vars(a), head, 0.5)
    sizes = (a.hidden_size, a.num_hidden_layers, a.num_attention_heads, merged, a.hidden_act)
    with nn.layers_on("meta"):
        tower = MelTower(tower_spec(*sizes, rotary), a.num_mel_bins, norm="norm")

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        frames = host_numbers(inputs["frames"])
        states = model.model.audio_tower(inputs["features"])
        even = states.shape[1] // _TOGETHER * _TOGETHER
        states = states[:, :even].reshape(states.shape[0], -1, merged)
        out: Tensor = model.model.multi_modal_projector(trimmed(states, [rows(n) for n in frames]))
        return out

    def processor(files: Mapping[str, bytes], _: Any) -> Any:
        settings = settings_of(
            files, {"feature_size": a.num_mel_bins, "n_fft": 400, "audio_token": "<|pad|>"}
        )
        seconds = whole_setting(settings, "chunk_length", 30)
        most = max(1, whole_setting(settings, "max_audio_len", 655) // seconds)
        return WindowProcessor(a.num_mel_bins, seconds, most, rows, "<|pad|>")

    def hearing(spec: DecoderSpec) -> Hearing:
        parts: dict[str, Any] = {
            "model.audio_tower": tower,
            "model.multi_modal_projector": TwoProducts(
                merged, 2 * spec.width, spec.width, c.projector_hidden_act
            ),
        }
        return Hearing(
            c.audio_token_id, "<|pad|>", parts, look, processor,
            inline="<|begin_of_audio|><|pad|><|end_of_audio|>", asked=asked,
        )  # fmt: skip

    return hearing_decoder(config, names, c, hearing, text=lambda within: {**_TEXT, **within})


FAMILY = Family(
    model_types=("glmasr",),
    tasks=("audio-text-to-text", "automatic-speech-recognition", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=HEARING_NAMES,
)
