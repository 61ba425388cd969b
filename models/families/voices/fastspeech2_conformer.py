"""FastSpeech 2 (Ren et al., 2020) with Conformers and HiFi-GAN: speech of sounds, as ESPnet's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.speech.fastspeech import FastSpeechModel
from rushlight.models.layers.speech.hifigan import VocoderSpec

ARCHITECTURES = ("FastSpeech2ConformerWithHifiGan",)
# Of training.
_NEUTRAL = """encoder_dropout_rate encoder_positional_dropout_rate encoder_attention_dropout_rate
    decoder_dropout_rate decoder_positional_dropout_rate decoder_attention_dropout_rate
    duration_predictor_dropout_rate energy_predictor_dropout energy_embed_dropout
    pitch_predictor_dropout pitch_embed_dropout speech_decoder_postnet_dropout
    stop_gradient_from_energy_predictor stop_gradient_from_pitch_predictor use_masking
    use_weighted_masking max_source_positions is_encoder_decoder""".split()
# Made of others, and of the models that share the Conformer's code.
_MADE = dict.fromkeys("encoder_config decoder_config conv_kernel_size hidden_act".split(), ())


@dataclass
class MelConfig:
    """The keys of model_config: of the network that makes the spectrogram."""

    neutral = dict.fromkeys(_NEUTRAL, ()) | _MADE

    hidden_size: int = 384
    vocab_size: int = 78
    num_mel_bins: int = 80
    encoder_num_attention_heads: int = 2
    encoder_layers: int = 4
    encoder_linear_units: int = 1536
    decoder_layers: int = 4
    decoder_num_attention_heads: int = 2
    decoder_linear_units: int = 1536
    speech_decoder_postnet_layers: int = 5
    speech_decoder_postnet_units: int = 256
    speech_decoder_postnet_kernel: int = 5
    positionwise_conv_kernel_size: int = 3
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    encoder_concat_after: bool = False
    decoder_concat_after: bool = False
    reduction_factor: int = 1
    speaking_speed: float = 1.0  # how slow, where other voices say how fast
    use_macaron_style_in_conformer: bool = True
    use_cnn_in_conformer: bool = True
    encoder_kernel_size: int = 7
    decoder_kernel_size: int = 31
    duration_predictor_layers: int = 2
    duration_predictor_channels: int = 256
    duration_predictor_kernel_size: int = 3
    energy_predictor_layers: int = 2
    energy_predictor_channels: int = 256
    energy_predictor_kernel_size: int = 3
    energy_embed_kernel_size: int = 1
    pitch_predictor_layers: int = 5
    pitch_predictor_channels: int = 256
    pitch_predictor_kernel_size: int = 5
    pitch_embed_kernel_size: int = 1
    num_speakers: int | None = None
    num_languages: int | None = None
    speaker_embed_dim: int | None = None
    convolution_bias: bool = True
    model_type: str = "fastspeech2_conformer"


@dataclass
class VocoderConfig:
    """The keys of vocoder_config: of HiFi-GAN."""

    own = ("sampling_rate",)
    neutral = _MADE

    model_in_dim: int = 80
    upsample_initial_channel: int = 512
    upsample_rates: list[Any] = field(default_factory=lambda: [8, 8, 2, 2])
    upsample_kernel_sizes: list[Any] = field(default_factory=lambda: [16, 16, 4, 4])
    resblock_kernel_sizes: list[Any] = field(default_factory=lambda: [3, 7, 11])
    resblock_dilation_sizes: list[Any] | None = None
    leaky_relu_slope: float = 0.1
    normalize_before: bool = True
    sampling_rate: int = 22050
    model_type: str = "fastspeech2_conformer_hifigan"


@dataclass
class Config:
    """The keys of config.json: those of both parts."""

    neutral = _MADE

    model_config: dict[str, Any] | None = None
    vocoder_config: dict[str, Any] | None = None
    model_type: str = "fastspeech2_conformer_with_hifigan"


def build(config: dict[str, Any], names: Collection[str]) -> FastSpeechModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    whole = read_config(Config, config, ARCHITECTURES)
    parts = (
        {"model_type": kind.model_type, **(told or {})}
        for kind, told in ((MelConfig, whole.model_config), (VocoderConfig, whole.vocoder_config))
    )
    mel, vocoder = read_config(MelConfig, next(parts)), read_config(VocoderConfig, next(parts))
    # The reference does not run without the convolution, and speakers need their vectors.
    choose("use_cnn_in_conformer", mel.use_cnn_in_conformer, (True,))
    for name in ("num_speakers", "num_languages"):
        choose(name, getattr(mel, name), (None, 0, 1))
    choose("speaker_embed_dim", mel.speaker_embed_dim, (None, 0))
    at_least_one(
        mel,
        *(name for name, kind in MelConfig.__annotations__.items() if kind == "int"),
    )
    odd = [n for n in MelConfig.__annotations__ if n.endswith(("kernel", "kernel_size"))]
    for name in odd:
        if getattr(mel, name) % 2 == 0:
            raise FormatError(f"config.json: {name} is {getattr(mel, name)}; it must be odd")
    for side in ("encoder", "decoder"):
        heads = getattr(mel, f"{side}_num_attention_heads")
        if mel.hidden_size % heads:
            raise FormatError(
                f"config.json: hidden_size {mel.hidden_size} is not a multiple of "
                f"{side}_num_attention_heads {heads}"
            )
    if vocoder.model_in_dim != mel.num_mel_bins or not mel.speaking_speed > 0:
        raise FormatError(
            f"config.json: model_in_dim {vocoder.model_in_dim} must be num_mel_bins "
            f"{mel.num_mel_bins}, and speaking_speed {mel.speaking_speed} above 0"
        )
    rows = vocoder.resblock_dilation_sizes or [[1, 3, 5]] * 3
    flat = [*vocoder.upsample_rates, *vocoder.upsample_kernel_sizes]
    flat += vocoder.resblock_kernel_sizes
    if not all(isinstance(row, list) for row in rows) or not all(
        type(size) is int and size < 1 << 16 for size in (*flat, *(d for row in rows for d in row))
    ):
        raise FormatError("config.json: upsample and resblock sizes must be whole numbers in lists")
    spec = VocoderSpec(
        vocoder.model_in_dim,
        vocoder.upsample_initial_channel,
        tuple(vocoder.upsample_rates),
        tuple(vocoder.upsample_kernel_sizes),
        tuple(vocoder.resblock_kernel_sizes),
        tuple(map(tuple, rows)),
        vocoder.leaky_relu_slope,
        last_bias=True,
    )
    model = FastSpeechModel(mel, spec, vocoder.normalize_before, vocoder.sampling_rate)
    mel.model_type = whole.model_type
    return model


FAMILY = Family(
    model_types=("fastspeech2_conformer_with_hifigan",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
