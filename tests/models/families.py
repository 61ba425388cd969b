"""The table of families: a tiny configuration of each, and its parameters by a seed.

The rows lie in families/, a file for each family, which may say of what `KIND` its models are. A
row's goldens lie in data/families/ROW.safetensors; tests/parity/make_family_goldens.py makes them
with the published implementation. tools/new_family.py makes the row of a new family.
"""

from __future__ import annotations

import functools
import runpy
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

CHATGLM: dict[str, Any] = {
    "model_type": "chatglm", "padded_vocab_size": 131, "hidden_size": 48, "num_layers": 3,
    "num_attention_heads": 6, "ffn_hidden_size": 56, "kv_channels": 12, "seq_length": 64,
    "layernorm_epsilon": 1e-5, "rmsnorm": True, "multi_query_attention": True,
    "multi_query_group_num": 2, "add_bias_linear": False, "add_qkv_bias": True, "rope_ratio": 50,
    "original_rope": True, "post_layer_norm": True, "tie_word_embeddings": False,
}  # fmt: skip
REPLIT: dict[str, Any] = {
    "model_type": "replit_lm", "vocab_size": 131, "d_model": 48, "n_layers": 2, "n_heads": 6,
    "max_seq_len": 32, "mlp_ratio": 2, "alibi": True, "alibi_bias_max": 6, "attn_qk_ln": False,
    "attn_clip_qkv": 0.5, "softmax_scale": None, "no_bias": True, "logit_scale": None,
}  # fmt: skip
# Odd sizes, so that nothing agrees by accident. Windows are shorter than the prompt.
SIZES: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "eos_token_id": None,
    "pad_token_id": None,
}
GPT: dict[str, Any] = {
    "vocab_size": 131,
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 32,
    "eos_token_id": None,
    "bos_token_id": None,
}
NEOX: dict[str, Any] = {k: v for k, v in SIZES.items() if k != "num_key_value_heads"}
FALCON: dict[str, Any] = {k: v for k, v in NEOX.items() if k != "intermediate_size"}
BLOOM: dict[str, Any] = {"vocab_size": 131, "hidden_size": 48, "n_layer": 3, "eos_token_id": None}
GEMMA3N: dict[str, Any] = {
    "head_dim": 10,
    "vocab_size_per_layer_input": 120,
    "hidden_size_per_layer_input": 6,
    "altup_num_inputs": 3,
    "laurel_rank": 5,
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 500.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 900.0,
}
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 2000.0}
# Rows are longer than the original context of the first, shorter than that of the second.
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.1, 1.2, 1.3, 1.5],
    "long_factor": [2.0, 2.5, 3.0, 4.0],
}
MAMBA: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "eos_token_id": None,
    "pad_token_id": None,
}
RWKV: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "intermediate_size": 56,
}


def sized(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, **SIZES, **changes}


def latent(kind: str, **changes: Any) -> dict[str, Any]:
    sizes = {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 7,
        "qk_rope_head_dim": 6,
        "v_head_dim": 9,
        "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
    }
    return sized(kind, **sizes | changes)


def falcon(**changes: Any) -> dict[str, Any]:
    return {"model_type": "falcon", **FALCON, **changes}


def t5(kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "model_type": kind,
        "vocab_size": 97,
        "d_model": 32,
        "d_kv": 6,
        "d_ff": 40,
        "num_layers": 2,
        "num_heads": 4,
        **changes,
    }


def bart(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, "vocab_size": 97, "d_model": 32, "encoder_layers": 2,
            "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
            "encoder_ffn_dim": 40, "decoder_ffn_dim": 36, "max_position_embeddings": 24,
            "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": None,
            "decoder_start_token_id": 3, **changes}  # fmt: skip


def whisper(**changes: Any) -> dict[str, Any]:
    return {"model_type": "whisper", "vocab_size": 97, "d_model": 24, "encoder_layers": 1,
            "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 3,
            "encoder_ffn_dim": 40, "decoder_ffn_dim": 28, "num_mel_bins": 10,
            "max_source_positions": 11, "max_target_positions": 20, "pad_token_id": 96,
            "bos_token_id": 95, "eos_token_id": 95, "decoder_start_token_id": 94,
            "suppress_tokens": None, "begin_suppress_tokens": None, **changes}  # fmt: skip


def wav2vec2(**changes: Any) -> dict[str, Any]:
    return {"model_type": "wav2vec2", "vocab_size": 13, "hidden_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 3, "intermediate_size": 40, "conv_dim": [10, 12, 14],
            "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2], "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 4, **changes}  # fmt: skip


def waves(kind: str, **changes: Any) -> dict[str, Any]:
    """Of a model of samples like wav2vec 2.0."""
    return {**wav2vec2(num_hidden_layers=2), "model_type": kind, **changes}


def parakeet(kind: str, **changes: Any) -> dict[str, Any]:
    """Of a fast conformer; `encoder` among the changes are keys of its encoder."""
    encoder = {"model_type": "parakeet_encoder", "hidden_size": 24, "num_hidden_layers": 2,
               "num_attention_heads": 3, "intermediate_size": 40, "conv_kernel_size": 5,
               "subsampling_factor": 4, "subsampling_conv_channels": 6, "num_mel_bins": 8,
               **changes.pop("encoder", {})}  # fmt: skip
    return {"model_type": kind, "vocab_size": 13, "encoder_config": encoder, **changes}


def moonshine(**changes: Any) -> dict[str, Any]:
    return {
        "model_type": "moonshine",
        "vocab_size": 37,
        "hidden_size": 32,
        "intermediate_size": 40,
        "encoder_num_hidden_layers": 1,
        "decoder_num_hidden_layers": 2,
        "encoder_num_attention_heads": 4,
        "decoder_num_attention_heads": 4,
        "max_position_embeddings": 24,
        **changes,
    }


def bergamot(**changes: Any) -> dict[str, Any]:
    return {
        "model_type": "bergamot",
        "vocab_size": 41,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "attention_heads": 4,
        "ffn_dim": 64,
        **changes,
    }


def gpt(kind: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": kind, **GPT, **changes}


def griffin(**changes: Any) -> dict[str, Any]:
    sizes = {k: v for k, v in SIZES.items() if k != "max_position_embeddings"}
    return {
        "model_type": "recurrent_gemma",
        **sizes,
        "attention_window_size": 5,
        "tie_word_embeddings": True,
        **changes,
    }


def opt(**changes: Any) -> dict[str, Any]:
    sizes = {k: v for k, v in NEOX.items() if k != "intermediate_size"}
    return {"model_type": "opt", **sizes, "ffn_dim": 56, "tie_word_embeddings": True, **changes}


def encoder(kind: str, **changes: Any) -> dict[str, Any]:
    sizes = {
        "vocab_size": 50,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "max_position_embeddings": 20,
    }
    return {"model_type": kind, **sizes, **changes}


def modern(**changes: Any) -> dict[str, Any]:
    return encoder("modernbert", pad_token_id=0, **changes)


_FILES: list[dict[str, Any]] = [
    runpy.run_path(str(file)) for file in sorted((Path(__file__).parent / "families").glob("*.py"))
]
# transformers' class of the model, or one of tests/parity/remote_*.py, and what config.json
# says; token ids are below vocab_size.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {}
# What the models of a model_type take: "text_to_text" and "speech" have the ids of a decoder, too,
# "speech" and "waves" features or samples of audio. "recurrent" is of states that padding would
# change in the published code: there padded rows are read alone. "alone" is of encoders of which
# this is true; they count the places of padding.
_KINDS: dict[str, str] = {}
# Heads of encoders: their rows' goldens are logits, in data/heads.
HEADS: dict[str, tuple[str, dict[str, Any]]] = {}
_LABELS = {"id2label": {0: "O", 1: "B-A", 2: "I-A", 3: "B-B", 4: "I-B"}}
for _file in _FILES:
    _rows = _file["rows"](SimpleNamespace(**globals()))
    ROWS |= _rows
    _KINDS |= {config["model_type"]: _file.get("KIND", "") for _, config in _rows.values()}
    for _row, (_name, _heads) in _file.get("HEADS", {}).items():
        for _head in _heads.split():
            HEADS[f"{_row}-{_head.lower()}"] = (
                f"{_name}For{_head}",
                ROWS[_row][1] | (_LABELS if "Class" in _head else {}),
            )
HEADS["deberta-v2-newer"] = ("DebertaV2ForMaskedLM", ROWS["deberta-v2"][1] | {"legacy": False})
HEADS["modernbert-biases-sequenceclassification"][1].update(
    classifier_pooling="mean", classifier_bias=True, classifier_activation="silu"
)
HEADS["bert-untied"] = ("BertForMaskedLM", ROWS["bert"][1] | {"tie_word_embeddings": False})
# Rows that a GGUF file can say, one or more of each family with names of GGUF.
GGUF: tuple[str, ...] = tuple(row for file in _FILES for row in file.get("GGUF", ()))
LENGTH = 13
# Ends of the names of stored tensors that the reference computes with as they are: decays.
COMPUTED = (".slope_rate", ".query_decay", ".key_decay", ".diagonal_decay")


def _of_kind(name: str) -> tuple[str, ...]:
    return tuple(kind for kind, known in _KINDS.items() if known == name)


TEXT_TO_TEXT, SPEECH, WAVES, RECURRENT, ALONE = (
    _of_kind(name) for name in ("text_to_text", "speech", "waves", "recurrent", "alone")
)
# With a cache transformers' decoder of these sees later tokens, too.
UNCACHED = ("fsmt",)
# What these compute depends on the length of a row, with its padding.
BY_LENGTH = ("bigbird_pegasus", "canine", "funnel")
# Their hidden states are what the model within one with a head gives.
WITHIN = ("perceiver",)
_SAMPLES = {"moonshine": 3001, "moonshine_streaming": 3160}


def features_of(config: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Two rows of features (2, mels, frames) of the whole context, or of samples (2, n)."""
    usual = 701 if "conv_dim" in config else 0
    shape: tuple[int, ...] = (2, _SAMPLES.get(config.get("model_type", ""), usual))
    if "feature_projection_input_dim" in config:
        shape = 2, 23, config["feature_projection_input_dim"]
    elif "input_feat_per_channel" in config:
        shape = 2, 37, config["input_feat_per_channel"]
    elif "subsampling_factor" in config.get("encoder_config", {}):
        shape = 2, 43, config["encoder_config"]["num_mel_bins"]
    elif not shape[1]:
        shape = 2, config["num_mel_bins"], 2 * config["max_source_positions"]
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def wave_mask_of(samples: int) -> npt.NDArray[np.bool_]:
    """The second row of samples ends with padding: on the right."""
    return np.arange(samples) < np.array([[samples], [samples * 2 // 3]])


def decoder_mask_of() -> npt.NDArray[np.bool_]:
    """The second row of the decoder has two places of padding: on the right."""
    return np.arange(9) < np.array([[9], [7]])


def vocab_of(config: dict[str, Any]) -> int:
    """The number of token ids."""
    names = ("padded_vocab_size", "vocab_size", "src_vocab_size")
    found: int = next(config[name] for name in names if config.get(name))
    return found


def decoder_vocab_of(config: dict[str, Any]) -> int:
    """The number of a decoder's token ids."""
    names = ("decoder_vocab_size", "tgt_vocab_size")
    return next((config[name] for name in names if config.get(name)), 0) or vocab_of(config)


def ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """Two rows of token ids."""
    return np.random.default_rng(3).integers(0, vocab, (2, LENGTH))


def decoder_ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """Two rows of token ids for a decoder."""
    return np.random.default_rng(4).integers(0, vocab, (2, 9))


def mask_of() -> npt.NDArray[np.bool_]:
    """The second row has five places of padding: on the left."""
    return np.arange(LENGTH) >= np.array([[0], [5]])


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The parameter of this name: random numbers that depend on nothing else; the caller's own."""
    return _drawn(name, tuple(shape)).copy()


@functools.lru_cache(8192)  # all are 33 MB; a test builds its model again and again, by other keys
def _drawn(name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if name.endswith("num_batches_tracked"):
        return np.full(shape, 7, np.int64)
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    found = draws.normal(size=shape) * (0.25 if len(shape) > 1 else 0.5)
    found = np.abs(found) + 0.5 if name.endswith("running_var") else found
    return np.asarray(found).astype(np.float32)  # of one number, too
