"""The table of families of sound: tiny configurations, parameters and inputs by a seed.

A row's goldens lie in data/sounds/ROW.safetensors; tests/parity/make_sound_goldens.py makes them
with the published implementation. A row: the class of transformers, and its config.json.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Row = tuple[str, dict[str, Any]]
_AST: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "patch_size": 6,
    "frequency_stride": 5,
    "time_stride": 4,
    "max_length": 30,
    "num_mel_bins": 16,
    "num_labels": 6,
}
_CLAP: dict[str, Any] = {
    "text_config": {
        "vocab_size": 31,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 20,
        "max_position_embeddings": 12,
    },
    "audio_config": {
        "window_size": 4,
        "num_mel_bins": 16,
        "spec_size": 64,
        "patch_size": 4,
        "patch_stride": [4, 4],
        "depths": [2, 2],
        "num_attention_heads": [2, 4],
        "patch_embeds_hidden_size": 12,
        "hidden_size": 24,
        "aff_block_r": 2,
    },
    "projection_dim": 10,
}
_ENCODEC: dict[str, Any] = {
    "target_bandwidths": [1.0, 2.0, 4.0],
    "sampling_rate": 8000,
    "hidden_size": 12,
    "num_filters": 4,
    "num_residual_layers": 2,
    "upsampling_ratios": [5, 4, 2],
    "codebook_size": 32,
    "num_lstm_layers": 2,
}
_DAC: dict[str, Any] = {
    "encoder_hidden_size": 4,
    "downsampling_ratios": [2, 3, 4],
    "decoder_hidden_size": 32,
    "n_codebooks": 3,
    "codebook_size": 32,
    "codebook_dim": 4,
    "sampling_rate": 8000,
}
_MIMI: dict[str, Any] = {
    "hidden_size": 16,
    "num_filters": 4,
    "upsampling_ratios": [4, 3, 2],
    "sampling_rate": 8000,
    "codebook_size": 16,
    "codebook_dim": 8,
    "vector_quantization_hidden_dimension": 8,
    "num_quantizers": 4,
    "upsample_groups": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "sliding_window": 9,
    "attention_bias": True,
    "num_residual_layers": 2,
    "use_conv_shortcut": True,
}
_POCKET: dict[str, Any] = {
    "hidden_size": 16,
    "num_filters": 4,
    "upsampling_ratios": [4, 3, 2],
    "sampling_rate": 8000,
    "latent_stride": 3,
    "latent_dim": 6,
    "upsample_groups": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "sliding_window": 9,
    "attention_bias": True,
    "use_conv_shortcut": True,
}
# Its goldens are made by make_snac_goldens.py.
SNAC: dict[str, Any] = {
    "sampling_rate": 8000,
    "encoder_dim": 4,
    "encoder_rates": [2, 3, 4],
    "decoder_dim": 32,
    "decoder_rates": [4, 3, 2],
    "attn_window_size": None,
    "codebook_size": 32,
    "codebook_dim": 4,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}
_MUSICGEN: dict[str, Any] = {
    "text_encoder": {
        "model_type": "t5",
        "vocab_size": 31,
        "d_model": 12,
        "d_kv": 4,
        "d_ff": 16,
        "num_layers": 2,
        "num_heads": 3,
    },
    "audio_encoder": {
        "model_type": "encodec",
        **_ENCODEC,
        "target_bandwidths": [4.0],
        "num_residual_layers": 1,
        "use_causal_conv": False,
    },
    "decoder": {
        "model_type": "musicgen_decoder",
        "vocab_size": 32,
        "pad_token_id": 32,
        "bos_token_id": 32,
        "num_hidden_layers": 2,
        "ffn_dim": 20,
        "num_attention_heads": 4,
        "hidden_size": 16,
        "num_codebooks": 4,
    },
}
ROWS: dict[str, Row] = {
    "wavtokenizer": (
        "WavTokenizerModel",
        {
            "sampling_rate": 8000,
            "num_filters": 4,
            "upsampling_ratios": [4, 3, 2],
            "hidden_size": 12,
            "codebook_size": 32,
            "codebook_dim": 12,
            "decoder_hidden_size": 16,
            "decoder_intermediate_size": 20,
            "decoder_num_layers": 2,
            "adanorm_num_embeddings": 3,
            "decoder_attention_num_groups": 4,
        },
    ),
    "melody": (
        "MusicgenMelodyForConditionalGeneration",
        _MUSICGEN
        | {"num_chroma": 5, "chroma_length": 7}
        | {"decoder": _MUSICGEN["decoder"] | {"model_type": "musicgen_melody_decoder"}},
    ),
    "musicgen": ("MusicgenForConditionalGeneration", _MUSICGEN),
    "mimi": ("MimiModel", _MIMI),
    "pocket": ("PocketTTSAudioTokenizerModel", _POCKET),
    "dac": ("DacModel", _DAC),
    "encodec": ("EncodecModel", _ENCODEC),
    "encodec-chunks": (
        "EncodecModel",
        _ENCODEC
        | {
            "audio_channels": 2,
            "normalize": True,
            "chunk_length_s": 0.1,
            "overlap": 0.05,
            "norm_type": "time_group_norm",
            "use_causal_conv": False,
            "use_conv_shortcut": False,
            "num_residual_layers": 1,
        },
    ),
    "clap": ("ClapModel", _CLAP),
    "clap-fused": (
        "ClapModel",
        _CLAP | {"audio_config": _CLAP["audio_config"] | {"enable_fusion": True}},
    ),
    "ast": ("ASTForAudioClassification", _AST),
}


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The parameter `name` of a row: variances are positive, products keep their size."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    kind = name.rpartition(".")[2]
    if kind in ("running_var", "alpha", "cluster_usage"):
        return draw.uniform(0.5, 1.5, shape).astype(np.float32)
    values = draw.standard_normal(shape).astype(np.float32)
    if len(shape) < 2:
        offset = 0.0 if kind in ("running_mean", "bias") or not shape else 1.0
        return np.asarray(values * 0.1 + offset, np.float32)
    if kind in ("embed", "embed_sum"):
        return values
    added = kind == "weight" or (kind == "original0" and ".conv." not in name)
    gain = 0.6 if len(shape) == 3 and added else 1.2  # many layers are added up
    return values * np.float32(gain / math.sqrt(math.prod(shape[1:])))


def ids_of() -> npt.NDArray[np.int64]:
    """Ids (3, 6) of texts, filled with 1."""
    ids = np.random.default_rng(5).integers(3, 29, (3, 6))
    for row, length in enumerate((6, 3, 5)):
        ids[row, length:] = 1
    return ids


def codes_of(batch: int, books: int, n: int, size: int) -> npt.NDArray[np.int64]:
    """Codes (batch, books, n) below `size`."""
    return np.random.default_rng(8).integers(0, size, (batch, books, n))


def sound_of(seconds: float, rate: int, channels: int = 1) -> npt.NDArray[np.float32]:
    """Tones that rise and some noise (channels, n)."""
    n = int(seconds * rate)
    at, draw = np.arange(n) / rate, np.random.default_rng(11)
    rows = [
        0.3 * np.sin(2 * np.pi * (200 + 90 * c + 150 * at) * at) + 0.05 * draw.standard_normal(n)
        for c in range(channels)
    ]
    return np.asarray(rows, np.float32)


def chroma_of(batch: int, tones: int) -> npt.NDArray[np.float32]:
    """How loud tones are in frames of melodies (batch, 3, tones)."""
    return np.random.default_rng(7).random((batch, 3, tones), np.float32)
