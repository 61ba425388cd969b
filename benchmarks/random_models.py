"""GGUF files of random weights in the shapes of models of a billion parameters, quantized.

They measure speed where kernels count more than overhead. The tokenizer is SmolLM2's, or
`byte_tokenizer` where that is not at hand. The blocks of a type are drawn from a few thousand that
the encoder made of normal numbers, as quantizing a billion of them would take minutes and change no
speed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from smollm2 import NAME

from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.encoding import encode
from rushlight.core.io.weights.gguf_writer import Row, write_gguf
from rushlight.core.tensor.tensor import Tensor
from rushlight.models import load
from rushlight.models.families import family_of
from rushlight.models.gguf.export import as_gguf
from rushlight.models.gguf.recipes import FILE_TYPES, choose_types
from rushlight.models.gguf.weights import Weight

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 49152,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
}
# Of 2.5 billion weights about one is used for a token: 8 of 32 experts.
MIXTURE: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "head_dim": 128,
    "num_key_value_heads": 4,
    "num_experts": 32,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "norm_topk_prob": True,
}
SHAPES = {"llama, 1.1 B": LLAMA, "qwen3_moe, 2.5 B": MIXTURE}
PIECE = 1 << 22  # elements that are drawn at a time


def byte_tokenizer(count: int) -> bytes:
    """A tokenizer.json of `count` tokens without merges: every byte of a text is a token."""
    alphabet = [_letter(byte) for byte in range(256)]
    vocabulary = {letter: i for i, letter in enumerate(alphabet)}
    vocabulary |= {f"token{i}": i for i in range(len(vocabulary), count)}
    split = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": {**split, "trim_offsets": False},
            "decoder": {**split, "trim_offsets": False},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        }
    ).encode()


def _letter(byte: int) -> str:
    """The letter that stands for a byte in vocabularies of GPT-2 (Radford et al., 2019)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in shown:
        return chr(byte)
    return chr(256 + [b for b in range(256) if b not in shown].index(byte))


def write(config: dict[str, Any], kind: str, out: Path, tokenizer: bytes | None = None) -> None:
    """Write a model of this config.json as a GGUF file of one of llama.cpp's file types.

    tokenizer: the text of a tokenizer.json; None for SmolLM2's.
    """
    files = {
        "config.json": json.dumps(config).encode(),
        "tokenizer.json": tokenizer or cast(Any, load(NAME)).tokenizer.to_json(),
        "tokenizer_config.json": b"{}",
        "generation_config.json": json.dumps({"eos_token_id": 2}).encode(),
    }
    family = family_of(config["model_type"], "model_type")
    model: Any = family.build(config, [])
    names = {name: p.shape for name, p in model.named_parameters()}
    unread = [Weight(n, float32, shape, _refuse) for n, shape in names.items()]
    metadata, weights = as_gguf(files, unread, "random")
    stored = {w.name: (w.dtype, w.shape) for w in weights}
    chosen = choose_types(kind, metadata, stored)
    known = {
        "general.quantization_version": np.uint32(2),
        "general.file_type": np.uint32(FILE_TYPES[kind][0]),
    }
    rng = np.random.default_rng(0)
    pools: dict[tuple[DType, float], Any] = {}
    rows = [
        Row(w.name, chosen[w.name], w.shape, partial(_drawn, w, chosen[w.name], pools, rng))
        for w in weights
    ]
    write_gguf(out, metadata | known, rows)


def _refuse() -> Tensor:
    raise RuntimeError("random weights are drawn, not read")


def _drawn(
    weight: Weight, dtype: DType, pools: dict[tuple[DType, float], Any], rng: Any
) -> Iterator[Any]:
    """The bytes of a weight: ones for norms, else a normal distribution."""
    count = math.prod(weight.shape)
    if len(weight.shape) == 1:
        yield np.ones(count, np.float32).data
        return
    added = weight.name.endswith(("attn_output.weight", "ffn_down.weight", "ffn_down_exps.weight"))
    deviation = 1.0 if "token_embd" in weight.name else (0.05 if added else 1.0) / math.sqrt(2048)
    for first in range(0, count, PIECE):
        size = min(PIECE, count - first)
        if dtype.kind != "q":
            values = rng.standard_normal(size, np.float32) * deviation
            yield np.ascontiguousarray(values.astype(dtype.numpy)).data
            continue
        if (dtype, deviation) not in pools:
            values = rng.standard_normal((512, 2048), np.float32) * deviation
            blocks = encode(dtype, values).reshape(-1, dtype.nbytes(dtype.block))
            pools[dtype, deviation] = blocks
        pool = pools[dtype, deviation]
        yield pool[rng.integers(0, len(pool), size // dtype.block)].reshape(-1).data
