"""Granite Speech (IBM, 2025): conformers and a Q-Former in front of a Granite.

Published checkpoints have a LoRA adapter for prompts with sounds in a file of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
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
from rushlight.models.layers.hearing.features import PairProcessor, settings_of, whole_setting
from rushlight.models.layers.hearing.granite import GraniteTower, WindowQueries
from rushlight.models.layers.hearing.towers import host_numbers, part_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.qformer import QFormerSpec

ARCHITECTURES = ("GraniteSpeechForConditionalGeneration",)
_MARKER = "<|audio|>"


@dataclass
class EncoderConfig:
    """The keys of encoder_config."""

    input_dim: int = 160
    num_layers: int = 10
    hidden_dim: int = 1024
    feedforward_mult: int = 4
    num_heads: int = 8
    dim_head: int | None = None
    output_dim: int = 42
    context_size: int = 200
    max_pos_emb: int = 512
    conv_kernel_size: int = 15
    conv_expansion_factor: int = 2
    model_type: str = "granite_speech_encoder"

    neutral = {"audio_token_id": ()}  # of the whole


@dataclass
class ProjectorConfig:
    """The keys of projector_config."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    cross_attention_frequency: int = 2
    encoder_hidden_size: int = 1408
    use_qformer_text_input: bool = False
    model_type: str = "blip_2_qformer"

    neutral = dict.fromkeys(
        ("vocab_size", "max_position_embeddings", "embedding_size",
         "use_decoder_only_language_model"), ()
    )  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    encoder_config: Any = None
    projector_config: Any = None
    text_config: Any = None
    audio_token_index: int = 49155
    downsample_rate: int = 5
    window_size: int = 15
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "granite_speech"

    neutral = {"has_lora_adapter": ()}  # an adapter is a file of its own


def asked(language: str | None) -> Messages:
    """The messages that ask for a transcript."""
    words = {"type": "text", "text": "can you transcribe the speech into a written format?"}
    return [{"role": "user", "content": [{"type": "audio"}, words]}]


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    e = read_config(EncoderConfig, part_of(config, "encoder_config", "granite_speech_encoder"))
    p = read_config(ProjectorConfig, part_of(config, "projector_config", "blip_2_qformer"))
    choose("projector_config: hidden_act", p.hidden_act, tuple(ACTIVATIONS))
    choose("projector_config: use_qformer_text_input", p.use_qformer_text_input, (False,))
    at_least_one(p, "num_attention_heads", "cross_attention_frequency")
    at_least_one(c, "downsample_rate", "window_size")
    queries = c.window_size // c.downsample_rate
    choose("window_size", c.window_size, (max(queries, 1) * c.downsample_rate,))
    former = QFormerSpec(
        p.hidden_size, p.num_hidden_layers, p.num_attention_heads, p.intermediate_size,
        e.hidden_dim, p.cross_attention_frequency, p.hidden_act, p.layer_norm_eps,
    )  # fmt: skip
    with nn.layers_on("meta"):
        tower = GraniteTower(e)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        frames = host_numbers(inputs["frames"])
        each = zip(inputs["features"].split(1), frames, strict=True)
        base = model.model
        return cat([base.projector(base.encoder(pairs[:, :count])) for pairs, count in each])

    def processor(files: Mapping[str, bytes], _: Any) -> Any:
        settings = settings_of(
            files,
            {"projector_window_size": c.window_size, "projector_downsample_rate": c.downsample_rate,
             "n_mels": e.input_dim // 2, "audio_token": _MARKER},
        )  # fmt: skip
        spectrum = {**settings, **(settings.get("melspec_kwargs") or {})}
        n_fft, window = (
            whole_setting(spectrum, name, usual)
            for name, usual in (("n_fft", 512), ("win_length", 400))
        )
        choose("the processor's win_length", window, (min(window, n_fft),))
        return PairProcessor(e.input_dim // 2, n_fft, window, c.window_size, queries, _MARKER)

    def hearing(spec: DecoderSpec) -> Hearing:
        choose("projector_config: encoder_hidden_size", p.encoder_hidden_size, (e.hidden_dim,))
        parts: dict[str, Any] = {
            "model.encoder": tower,
            "model.projector": WindowQueries(former, c.window_size, queries, spec.width),
        }
        return Hearing(c.audio_token_index, _MARKER, parts, look, processor, asked=asked)

    return hearing_decoder(config, names, c, hearing)


FAMILY = Family(
    model_types=("granite_speech",),
    tasks=("audio-text-to-text", "automatic-speech-recognition", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=HEARING_NAMES,
)
