"""The table of families: a tiny configuration of each, and its parameters by a seed.

A row's goldens lie in data/families/ROW.safetensors; tests/parity/make_family_goldens.py makes them
with the published implementation. The row of a new family is an entry here and that file.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

# transformers' class of the model, and what config.json says; token ids are below vocab_size.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {
        "model_type": "bert", "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 40, "max_position_embeddings": 16,
    }),
    "llama": ("LlamaForCausalLM", {
        "model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "tie_word_embeddings": False, "eos_token_id": None,
    }),
}  # fmt: skip
LENGTH = 13


def ids_of(vocab: int) -> npt.NDArray[np.int64]:
    """Two rows of token ids."""
    return np.random.default_rng(3).integers(0, vocab, (2, LENGTH))


def mask_of() -> npt.NDArray[np.bool_]:
    """The second row has five places of padding: on the left."""
    return np.arange(LENGTH) >= np.array([[0], [5]])


def values_of(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The parameter of this name: random numbers that depend on nothing else."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    found = draws.normal(size=shape) * (0.25 if len(shape) > 1 else 0.5)
    return found.astype(np.float32)
