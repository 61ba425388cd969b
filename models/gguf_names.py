"""From GGUF to a checkpoint in the Hugging Face layout: names, configuration and transforms.

One table per architecture says which tensor is which, which metadata key is which key of
config.json, and what has to be undone of what llama.cpp's converter did. Blocks stay blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.errors import FormatError, LoadError
from rushlight.core.io.gguf_tokenizer import from_gguf as tokenizer_files
from rushlight.core.io.gguf_tokenizer import stop_ids
from rushlight.core.layout import Layout
from rushlight.core.tensor import Tensor

Metadata = Mapping[str, Any]
Transform = Callable[[Tensor, dict[str, Any]], Tensor]


def _halves(heads: str) -> Transform:
    """Undo the converter's row order of q and k: pairs of rows back into two halves per head."""

    def undo(t: Tensor, config: dict[str, Any]) -> Tensor:
        n = config[heads]
        rows = t.shape[0]
        if n < 1 or rows % (2 * n):
            raise FormatError(f"{rows} rows of q or k do not split into {n} heads of pairs")
        # Row 2 j + s of a head in the file is row s * half + j in the checkpoint. As strides, so
        # that blocks are moved where they lie, on any device.
        half, width = rows // n // 2, t.numel() // rows
        ends = ((t.shape[1],), (1,)) if t.ndim == 2 else ((), ())
        order = Layout(
            (n, 2, half, *ends[0]), (2 * half * width, width, 2 * width, *ends[1]), t.layout.offset
        )
        return Tensor(t.storage, t.dtype, order).clone().reshape(t.shape)

    return undo


@dataclass(frozen=True)
class Architecture:
    """How one of llama.cpp's architectures maps to a model_type here.

    keys: key of config.json -> metadata key without the architecture's prefix. names: pattern of
    the file's tensor names -> name in the checkpoint. transforms: ending of a name -> transform.
    """

    model_type: str
    architectures: tuple[str, ...]
    keys: Mapping[str, str]
    names: Mapping[str, str]
    transforms: Mapping[str, Transform]


_LLAMA_NAMES = {
    r"token_embd\.weight": "model.embed_tokens.weight",
    r"output_norm\.weight": "model.norm.weight",
    r"output\.weight": "lm_head.weight",
    r"blk\.(\d+)\.attn_norm\.weight": r"model.layers.\1.input_layernorm.weight",
    r"blk\.(\d+)\.ffn_norm\.weight": r"model.layers.\1.post_attention_layernorm.weight",
    r"blk\.(\d+)\.attn_([qkv])\.(weight|bias)": r"model.layers.\1.self_attn.\2_proj.\3",
    r"blk\.(\d+)\.attn_output\.(weight|bias)": r"model.layers.\1.self_attn.o_proj.\2",
    r"blk\.(\d+)\.ffn_(gate|up|down)\.(weight|bias)": r"model.layers.\1.mlp.\2_proj.\3",
}

ARCHITECTURES = {
    "llama": Architecture(
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        keys={
            "hidden_size": "embedding_length",
            "intermediate_size": "feed_forward_length",
            "num_hidden_layers": "block_count",
            "num_attention_heads": "attention.head_count",
            "num_key_value_heads": "attention.head_count_kv",
            "head_dim": "attention.key_length",
            "max_position_embeddings": "context_length",
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "rope_theta": "rope.freq_base",
            "vocab_size": "vocab_size",
        },
        names=_LLAMA_NAMES,
        transforms={
            "q_proj.weight": _halves("num_attention_heads"),
            "q_proj.bias": _halves("num_attention_heads"),
            "k_proj.weight": _halves("num_key_value_heads"),
            "k_proj.bias": _halves("num_key_value_heads"),
        },
    ),
}


def as_checkpoint(
    metadata: Metadata, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, bytes], dict[str, Tensor]]:
    """(small files, tensors) as a folder of the Hugging Face layout would give them.

    Raises LoadError for an architecture that is not there and for a tensor it does not know.
    """
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise LoadError(
            f"general.architecture {name!r:.100} is not there",
            hint=f"there are: {', '.join(ARCHITECTURES)}",
        )
    architecture = ARCHITECTURES[name]
    found = {n: t for n, t in tensors.items() if n != "rope_freqs.weight"}
    renamed = {_renamed(n, architecture): t for n, t in found.items()}
    config = _config(name, architecture, metadata, tensors, renamed)
    for n, t in renamed.items():
        for ending, transform in architecture.transforms.items():
            if n.endswith(ending):
                renamed[n] = transform(t, config)
    files = {}
    # Without a vocabulary the model takes and gives token ids.
    if metadata.get("tokenizer.ggml.model", "none") not in ("none", "no_vocab"):
        files["tokenizer.json"], files["tokenizer_config.json"] = tokenizer_files(metadata)
        config["eos_token_id"] = sorted(stop_ids(metadata))
    files["config.json"] = json.dumps(config).encode()
    return files, renamed


def _renamed(name: str, architecture: Architecture) -> str:
    for pattern, target in architecture.names.items():
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(target)
    raise LoadError(
        f"the file holds a tensor {name!r:.100}, which {architecture.model_type} has not"
    )


def _config(
    name: str,
    architecture: Architecture,
    metadata: Metadata,
    tensors: Mapping[str, Tensor],
    renamed: Mapping[str, Tensor],
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "architectures": list(architecture.architectures),
        "tie_word_embeddings": "lm_head.weight" not in renamed,
        "attention_bias": any(n.endswith("q_proj.bias") for n in renamed),
        "mlp_bias": any(n.endswith("up_proj.bias") for n in renamed),
    }
    for key, stored in architecture.keys.items():
        value = metadata.get(f"{name}.{stored}")
        if value is not None:
            config[key] = value.tolist() if isinstance(value, np.ndarray) else value
    # The rows of the embedding are the vocabulary, whatever the metadata says.
    embedding = renamed.get("model.embed_tokens.weight")
    if embedding is not None and embedding.ndim == 2:
        config["vocab_size"] = embedding.shape[0]
    config.setdefault("num_key_value_heads", config.get("num_attention_heads"))
    for key in ("num_attention_heads", "num_key_value_heads"):
        if not isinstance(config.get(key), int):
            raise FormatError(f"{name}: {key} is {config.get(key)!r:.100}; it must be one number")
    scaling = _scaling(name, metadata, tensors)
    if scaling:
        config["rope_scaling"] = scaling
    return config


def _scaling(name: str, metadata: Metadata, tensors: Mapping[str, Tensor]) -> dict[str, Any] | None:
    if "rope_freqs.weight" in tensors:
        # What the converter made of llama3's scaling: a divisor for every frequency.
        return {"rope_type": "factors", "factors": tensors["rope_freqs.weight"].float().tolist()}
    kind = metadata.get(f"{name}.rope.scaling.type")
    if kind in (None, "none"):
        return None
    return {"rope_type": kind, "factor": metadata.get(f"{name}.rope.scaling.factor")}
