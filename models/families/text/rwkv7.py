"""RWKV 7 (Peng et al., 2025): a recurrence with a delta rule in place of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers import rwkv_files
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.rwkv import RWKVSpec

MODEL_TYPES = ("rwkv7",)
TENSORS = ("blocks.0.att.r_k",)
TASKS = ("text-generation", "chat")
ARCHITECTURES = ("RWKV7ForCausalLM",)
_UNUSED = tuple(f"blocks.0.att.v{i}" for i in range(3))


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    decay_low_rank_dim: int
    a_low_rank_dim: int
    v_low_rank_dim: int
    gate_low_rank_dim: int
    head_dim: int = 64
    intermediate_size: int | None = None
    norm_eps: float = 1e-5
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "rwkv7"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    return rwkv_files.decoder(c, RWKVSpec(
        7, c.hidden_size, c.hidden_size // max(c.head_dim, 1), c.head_dim,
        4 * c.hidden_size if c.intermediate_size is None else c.intermediate_size,
        (c.decay_low_rank_dim, c.a_low_rank_dim, c.v_low_rank_dim, c.gate_low_rank_dim),
        eps=c.norm_eps,
    ))  # fmt: skip


build = decoder_builder(Config, describe, ARCHITECTURES)


def adopt(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that the model has; the first layer's v0, v1 and v2 take no part."""
    return {n: t for n, t in rwkv_files.adopt(tensors).items() if n not in _UNUSED}


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """config.json of a checkpoint without one."""
    shapes = rwkv_files.Shapes(tensors)
    ranks = {n: shapes(f"blocks.0.att.{n}1")[1] for n in "wag"}
    # A model of one layer reads no v1.
    v = shapes("blocks.1.att.v1")[1] if shapes.layers > 1 else ranks["a"]
    return shapes.config(
        "rwkv7", head_dim=shapes("blocks.0.att.r_k")[1], decay_low_rank_dim=ranks["w"],
        a_low_rank_dim=ranks["a"], v_low_rank_dim=v, gate_low_rank_dim=ranks["g"],
    )  # fmt: skip
