"""A GGUF file as a checkpoint in the Hugging Face layout, by the family's `Architecture`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.gguf_tokenizer import from_gguf as tokenizer_files
from rushlight.core.io.text.gguf_tokenizer import stop_ids
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families import family_of
from rushlight.models.gguf.architecture import KEYS, Architecture

Metadata = Mapping[str, Any]


def as_checkpoint(
    metadata: Metadata, tensors: Mapping[str, Tensor]
) -> tuple[dict[str, bytes], dict[str, Tensor]]:
    """(small files, tensors) as in a folder of the Hugging Face layout.

    Raises LoadError for an unsupported architecture and for an unknown tensor.
    """
    name = metadata.get("general.architecture")
    family = family_of(name, "general.architecture", "GGUF_TYPES")
    architecture: Architecture = family.GGUF
    found = {n: t for n, t in tensors.items() if n != "rope_freqs.weight"}
    renamed = {architecture.renamed(n): t for n, t in found.items()}
    config = _config(str(name), architecture, metadata, tensors, renamed)
    for n, t in renamed.items():
        transform = architecture.transforms.get(n.split(".")[-2])
        if transform is not None:
            renamed[n] = transform(t, config)
    read = {"architectures", *(field.name for field in fields(family.Config))}
    config = {key: value for key, value in config.items() if key in read}
    files = {}
    # A model without a vocabulary works on token ids only.
    if metadata.get("tokenizer.ggml.model", "none") not in ("none", "no_vocab"):
        files["tokenizer.json"], files["tokenizer_config.json"] = tokenizer_files(metadata)
        config["eos_token_id"] = sorted(stop_ids(metadata))
    files["config.json"] = json.dumps(config).encode()
    return files, renamed


def _config(
    name: str,
    architecture: Architecture,
    metadata: Metadata,
    tensors: Mapping[str, Tensor],
    renamed: Mapping[str, Tensor],
) -> dict[str, Any]:
    decoder, attention, mlp = architecture.decoder, architecture.attention, architecture.mlp

    def biased(part: str) -> bool:
        return any(n.endswith(f"{part}.bias") for n in renamed)

    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "architectures": [architecture.architecture],
        "tie_word_embeddings": f"{decoder.head}.weight" not in renamed,
    }
    config["attention_bias"] = biased(attention.qkv or attention.q)
    config["mlp_bias"] = biased(mlp.gate_up or mlp.up)
    for key, stored in {**KEYS, **architecture.keys}.items():
        value = metadata.get(f"{name}.{stored}")
        if value is not None:
            config[key] = value.tolist() if isinstance(value, np.ndarray) else value
    # The embedding's rows give the size of the vocabulary; the metadata may differ.
    embedding = renamed.get(f"{decoder.base}.{decoder.embedding}.weight")
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
        # The converter stores llama3's scaling as a divisor for every frequency.
        return {"rope_type": "factors", "factors": tensors["rope_freqs.weight"].float().tolist()}
    kind = metadata.get(f"{name}.rope.scaling.type")
    if kind in (None, "none"):
        return None
    return {"rope_type": kind, "factor": metadata.get(f"{name}.rope.scaling.factor")}
