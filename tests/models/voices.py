"""The table of models that speak: transformers' class and config.json of each row.

Goldens lie in data/voices/ROW.safetensors; tests/parity/make_voice_goldens.py makes them.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

VITS: dict[str, Any] = {
    "model_type": "vits", "vocab_size": 19, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 2, "window_size": 3, "ffn_dim": 20, "flow_size": 10,
    "num_speakers": 3, "speaker_embedding_size": 5, "upsample_initial_channel": 12,
    "upsample_rates": [3, 2], "upsample_kernel_sizes": [7, 4], "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [2, 1]], "duration_predictor_flow_bins": 4,
    "duration_predictor_num_flows": 3, "prior_encoder_num_flows": 2,
    "prior_encoder_num_wavenet_layers": 2, "posterior_encoder_num_wavenet_layers": 1,
    "spectrogram_bins": 7, "noise_scale": 0.5, "noise_scale_duration": 0.7, "speaking_rate": 0.4,
    "sampling_rate": 8000, "wavenet_dilation_rate": 2,
}  # fmt: skip
FAST: dict[str, Any] = {
    "hidden_size": 24, "vocab_size": 17, "num_mel_bins": 6, "encoder_layers": 2,
    "encoder_linear_units": 14, "decoder_layers": 1, "decoder_linear_units": 10,
    "decoder_num_attention_heads": 3, "speech_decoder_postnet_layers": 2,
    "speech_decoder_postnet_units": 7, "encoder_kernel_size": 5, "decoder_kernel_size": 3,
    "duration_predictor_channels": 11, "energy_predictor_channels": 9,
    "pitch_predictor_channels": 8, "pitch_predictor_layers": 2, "pitch_embed_kernel_size": 3,
    "encoder_normalize_before": True, "encoder_concat_after": True, "reduction_factor": 2,
    "speaking_speed": 1.5, "convolution_bias": False,
}  # fmt: skip
HIFIGAN: dict[str, Any] = {
    "model_in_dim": 6, "upsample_initial_channel": 8, "upsample_rates": [3, 2],
    "upsample_kernel_sizes": [5, 4], "resblock_kernel_sizes": [3],
    "resblock_dilation_sizes": [[1, 2]],
}  # fmt: skip
SPEECHT5: dict[str, Any] = {
    "model_type": "speecht5", "vocab_size": 21, "hidden_size": 24, "encoder_layers": 2,
    "encoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_layers": 2,
    "decoder_ffn_dim": 14, "decoder_attention_heads": 4, "num_mel_bins": 6,
    "speech_decoder_prenet_units": 10, "speech_decoder_prenet_dropout": 0.4,
    "speaker_embedding_dim": 5, "speech_decoder_postnet_layers": 3,
    "speech_decoder_postnet_units": 7, "speech_decoder_postnet_kernel": 3,
    "encoder_max_relative_position": 4, "layer_norm_eps": 1e-3, "hidden_act": "relu",
    "max_text_positions": 30,
}  # fmt: skip
# Its code is on the hub; make_kokoro_goldens.py has its arithmetic.
KOKORO: dict[str, Any] = {
    "hidden_dim": 16, "n_layer": 2, "n_token": 59, "max_dur": 9, "style_dim": 5, "dropout": 0.2,
    "text_encoder_kernel_size": 3, "decoder_width": 14, "decoder_beside": 6,
    "plbert": {
        "hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 10, "dropout": 0.1,
        "max_position_embeddings": 40, "num_hidden_layers": 2, "embedding_size": 8,
    },
    "istftnet": {
        "upsample_rates": [3, 2], "upsample_kernel_sizes": [5, 4], "gen_istft_hop_size": 2,
        "gen_istft_n_fft": 8, "resblock_kernel_sizes": [3, 5], "upsample_initial_channel": 12,
        "resblock_dilation_sizes": [[1, 2, 3], [1, 3, 5]],
    },
    "vocab": {
        sign: i + 1
        for i, sign in enumerate(" ,.!?;AIOQTWYabdefhijklmnoprstuvwzæðŋɐɑɔəɛɜɡɪɹʃʊʌʒʤʧθᵻˈˌ")
    },
}  # fmt: skip
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "vits": ("VitsModel", VITS),
    "vits-plain": (
        "VitsModel",
        VITS
        | {"use_stochastic_duration_prediction": False, "num_speakers": 1, "window_size": 9}
        | {"speaker_embedding_size": 0, "use_bias": False, "hidden_act": "gelu"}
        | {"ffn_kernel_size": 4, "leaky_relu_slope": 0.2, "layer_norm_eps": 1e-3}
        | {"duration_predictor_filter_channels": 14, "duration_predictor_tail_bound": 3.0},
    ),
    "fastspeech2": (
        "FastSpeech2ConformerWithHifiGan",
        {
            "model_type": "fastspeech2_conformer_with_hifigan",
            "model_config": FAST,
            "vocoder_config": HIFIGAN,
        },
    ),
    "fastspeech2-after": (
        "FastSpeech2ConformerWithHifiGan",
        {
            "model_type": "fastspeech2_conformer_with_hifigan",
            "model_config": FAST
            | {"encoder_normalize_before": False, "encoder_concat_after": False}
            | {"decoder_normalize_before": True, "decoder_concat_after": True}
            | {"use_macaron_style_in_conformer": False, "reduction_factor": 1}
            | {"speaking_speed": 1.0, "convolution_bias": True},
            "vocoder_config": HIFIGAN | {"normalize_before": False, "leaky_relu_slope": 0.3},
        },
    ),
    "speecht5": ("SpeechT5ForTextToSpeech", SPEECHT5),
    "speecht5-single": (
        "SpeechT5ForTextToSpeech",
        SPEECHT5 | {"reduction_factor": 1, "speech_decoder_prenet_layers": 1, "hidden_act": "gelu"},
    ),
}
TOKENS = 7  # fewer than a window of 9 reaches


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name: random numbers that depend on nothing else."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    scale = 0.15 if len(shape) > 1 else 0.3
    values = draws.normal(size=shape) * scale
    if name.endswith(("original0", "norm.weight", "layer_norm.weight", "vocoder.scale")):
        values = 1 + values
    if name.endswith(("weight_g", "gamma", "LayerNorm.weight")) or name[:-2].endswith(
        ("alpha1", "alpha2")
    ):
        values = 1 + values
    if name.endswith("F0_proj.bias"):
        values = 9 + values
    if "generator.conv_post.weight_g" in name:
        values = values / 9
    if name.endswith("duration_proj.linear_layer.weight"):
        values = 20 * values
    if ".weight_ih_l0" in name or name == "bert_encoder.weight":
        values = 5 * values
    if name.endswith("F0_proj.weight"):
        values = 60 * values
    if name.endswith("running_var"):
        values = 0.5 + abs(values)
    if name.endswith("duration_predictor.linear.bias"):
        values = 1 + values
    if name.endswith("prob_out.bias"):
        values = values - 13
    if name.endswith("prob_out.weight"):
        values = 30 * values
    return np.asarray(values).astype(np.float32)


def ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """The tokens of two texts."""
    return np.random.default_rng(0).integers(1, vocab, (2, TOKENS))


def mask_of() -> npt.NDArray[np.int64]:
    """Which are no padding: all of the first text, and four of the second."""
    return np.asarray([[1] * TOKENS, [1] * 4 + [0] * (TOKENS - 4)])


def noise_of(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Normal numbers, the same for a shape."""
    return np.random.default_rng(len(shape) + shape[1]).standard_normal(shape, np.float32)


def speaker_of(size: int) -> npt.NDArray[np.float32]:
    """The vector of who speaks."""
    return np.random.default_rng(5).standard_normal(size, np.float32)


def frames_of(bins: int) -> npt.NDArray[np.float32]:
    """Frames that two texts are said to have so far, of which the first are zeros."""
    frames = np.random.default_rng(6).standard_normal((2, 5, bins), np.float32)
    frames[:, 0] = 0
    return frames


def drops_of(layer: int, n: int, units: int) -> npt.NDArray[np.float32]:
    """Normal numbers (n, units) that say what is dropped before the decoder."""
    rows = [np.random.default_rng(100 * layer + at).standard_normal(units) for at in range(n)]
    return np.asarray(rows, np.float32)
