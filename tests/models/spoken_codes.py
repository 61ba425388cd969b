"""The table of voices that make codes or frames one after another: class and config.json of each.

Goldens lie in data/voices/ROW.safetensors; tests/parity/make_spoken_codes.py makes them.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

POCKET_CODEC: dict[str, Any] = {
    "model_type": "pocket_tts_audio_tokenizer", "hidden_size": 16, "num_filters": 4,
    "upsampling_ratios": [3, 2], "sampling_rate": 2400, "upsample_groups": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 12, "sliding_window": 9, "latent_stride": 4, "latent_dim": 6,
}  # fmt: skip
POCKET: dict[str, Any] = {
    "model_type": "pocket_tts", "vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 20, "latent_dim": 6,
    "audio_prompt_token_id": 36, "audio_latent_token_id": 37, "audio_prompt_bos_token_id": 38,
    "audio_bos_token_id": 39, "frame_rate": 4.0, "attention_bias": True,
    "flow_head_config": {
        "hidden_size": 10, "num_hidden_layers": 2, "latent_dim": 6, "condition_dim": 24,
        "frequency_embedding_size": 8,
    },
}  # fmt: skip
DAC: dict[str, Any] = {
    "model_type": "dac", "encoder_hidden_size": 4, "downsampling_ratios": [2, 3],
    "decoder_hidden_size": 16, "n_codebooks": 3, "codebook_size": 16, "codebook_dim": 4,
    "sampling_rate": 2400,
}  # fmt: skip
DIA: dict[str, Any] = {
    "model_type": "dia", "delay_pattern": [0, 2, 3],
    "encoder_config": {
        "max_position_embeddings": 64, "num_hidden_layers": 2, "hidden_size": 20,
        "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8, "intermediate_size": 14,
    },
    "decoder_config": {
        "max_position_embeddings": 40, "num_hidden_layers": 2, "hidden_size": 24,
        "intermediate_size": 22, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "cross_num_attention_heads": 4, "cross_num_key_value_heads": 2, "cross_head_dim": 4,
        "cross_hidden_size": 20, "vocab_size": 20, "num_channels": 3, "hidden_act": "relu",
        "eos_token_id": 16, "pad_token_id": 17, "bos_token_id": 18,
    },
}  # fmt: skip
MIMI: dict[str, Any] = {
    "model_type": "mimi", "hidden_size": 16, "num_filters": 4, "upsampling_ratios": [3, 2],
    "sampling_rate": 2400, "codebook_size": 16, "codebook_dim": 8, "num_quantizers": 3,
    "vector_quantization_hidden_dimension": 8, "upsample_groups": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 12,
    "sliding_window": 9,
}  # fmt: skip
CSM: dict[str, Any] = {
    "model_type": "csm", "num_codebooks": 3, "vocab_size": 16, "text_vocab_size": 40,
    "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 40, "codebook_pad_token_id": 15,
    "pad_token_id": 39, "audio_token_id": 39, "audio_eos_token_id": 38, "bos_token_id": 1,
    "depth_decoder_config": {
        "num_codebooks": 3, "backbone_hidden_size": 24, "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 14, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 4, "mlp_bias": True,
    },
    "codec_config": MIMI,
}  # fmt: skip
_GPT: dict[str, Any] = {
    "block_size": 40, "num_layers": 2, "num_heads": 3, "hidden_size": 24, "bias": False,
}  # fmt: skip
BARK: dict[str, Any] = {
    "model_type": "bark",
    "semantic_config": _GPT | {"input_vocab_size": 48, "output_vocab_size": 14},
    "coarse_acoustics_config": _GPT | {"input_vocab_size": 48, "output_vocab_size": 48},
    "fine_acoustics_config": _GPT
    | {"input_vocab_size": 17, "output_vocab_size": 17, "n_codes_total": 4, "n_codes_given": 1},
    "codec_config": {
        "model_type": "encodec", "target_bandwidths": [6.4], "sampling_rate": 2400,
        "hidden_size": 12, "num_filters": 4, "num_residual_layers": 1,
        "upsampling_ratios": [3, 2], "codebook_size": 16, "num_lstm_layers": 1,
    },
}  # fmt: skip
BARK_GENERATION: dict[str, Any] = {
    "semantic_config": {
        "eos_token_id": 10, "text_encoding_offset": 12, "text_pad_token": 46,
        "semantic_infer_token": 47, "semantic_vocab_size": 10, "max_input_semantic_length": 9,
        "semantic_rate_hz": 5.0, "max_new_tokens": 12,
    },
    "coarse_acoustics_config": {
        "coarse_semantic_pad_token": 46, "coarse_rate_hz": 7.5, "n_coarse_codebooks": 2,
        "coarse_infer_token": 47, "max_coarse_input_length": 8, "max_coarse_history": 12,
        "sliding_window_len": 6,
    },
    "fine_acoustics_config": {
        "max_fine_history_length": 4, "max_fine_input_length": 8, "n_fine_codebooks": 4,
    },
    "codebook_size": 16,
}  # fmt: skip
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "pocket": ("PocketTTSForConditionalGeneration", POCKET),
    "pocket-drifting": (
        "PocketTTSForConditionalGeneration",
        POCKET
        | {"flow_head_config": POCKET["flow_head_config"] | {"flow_type": "drifting"}}
        | {"hidden_act": "relu", "attention_bias": False, "num_key_value_heads": 4},
    ),
    "dia": ("DiaForConditionalGeneration", DIA),
    "csm": ("CsmForConditionalGeneration", CSM),
    "csm-apart": (
        "CsmForConditionalGeneration",
        CSM | {"tie_codebooks_embeddings": False, "attention_bias": True, "mlp_bias": True},
    ),
    "bark": ("BarkModel", BARK),
}
# The codec of a row that lies beside its checkpoint: its class and config.json.
CODECS: dict[str, tuple[str, dict[str, Any]]] = {
    "pocket_tts": ("PocketTTSAudioTokenizerModel", POCKET_CODEC),
    "dia": ("DacModel", DAC),
}


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name: random numbers that depend on nothing else."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    kind = name.rpartition(".")[2]
    values = draw.standard_normal(shape).astype(np.float32)
    if kind in ("alpha", "cluster_usage", "latent_std", "freqs"):
        return np.asarray(abs(values) + 0.3, np.float32)
    if len(shape) < 2:
        offset = 1.0 if kind in ("weight", "scale") else 0.0
        return np.asarray(values * 0.1 + offset, np.float32)
    if "embed" in name or kind == "embed_sum":
        return values
    return values * np.float32(1.2 / math.sqrt(math.prod(shape[1:])))


def noise_of(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Normal numbers, the same for a shape."""
    return np.random.default_rng(len(shape) + shape[-1]).standard_normal(shape, np.float32)


def ids_of(vocab: int, n: int = 7) -> npt.NDArray[np.int64]:
    """The tokens (1, n) of a text."""
    return np.random.default_rng(0).integers(3, vocab, (1, n))


def frames_of(size: int) -> npt.NDArray[np.float32]:
    """The frames (1, 5, size) of who speaks."""
    return np.random.default_rng(6).standard_normal((1, 5, size), np.float32)


def codes_of(frames: int, books: int, size: int) -> npt.NDArray[np.int64]:
    """Codes (1, frames, books) below `size`."""
    return np.random.default_rng(8).integers(1, size, (1, frames, books))


def prompt_of() -> dict[str, npt.NDArray[np.int64]]:
    """The codes of who speaks, for Bark."""
    draw = np.random.default_rng(0)
    shapes = {"semantic_prompt": (7,), "coarse_prompt": (2, 10), "fine_prompt": (4, 10)}
    return {name: draw.integers(0, 10, shape) for name, shape in shapes.items()}
