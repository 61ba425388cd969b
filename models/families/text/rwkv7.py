"""RWKV 7 (Peng et al., 2025): a recurrence with a delta rule in place of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.recurrences import rwkv
from rushlight.models.layers.blocks import rwkv_files
from rushlight.models.layers.blocks.rwkv import RWKVSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("RWKV7ForCausalLM",)


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
    head_dim: int | None = 64
    num_heads: int | None = None
    hidden_ratio: float | None = 4
    intermediate_size: int | None = None
    value_dim: Any = None
    hidden_act: str = "sqrelu"
    norm_eps: float = 1e-5
    group_norm_eps: float | None = None
    tie_word_embeddings: bool | None = False
    max_position_embeddings: Any = None  # changes no number
    eos_token_id: Any = None
    model_type: str = "rwkv7"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("hidden_act", c.hidden_act, ("sqrelu",))
    choose("value_dim", c.value_dim, (None, c.hidden_size, [c.hidden_size] * c.num_hidden_layers))
    size = c.hidden_size // max(c.num_heads or 1, 1) if c.head_dim is None else c.head_dim
    inner = -(-int(c.hidden_size * (4 if c.hidden_ratio is None else c.hidden_ratio)) // 32) * 32
    group = size * c.norm_eps if c.group_norm_eps is None else c.group_norm_eps
    return rwkv_files.decoder(
        c,
        RWKVSpec(
            7,
            c.hidden_size,
            c.hidden_size // max(size, 1),
            size,
            inner if c.intermediate_size is None else c.intermediate_size,
            (c.decay_low_rank_dim, c.a_low_rank_dim, c.v_low_rank_dim, c.gate_low_rank_dim),
            eps=c.norm_eps,
            group_eps=group,
        ),
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that the model has; the first layer's v0, v1 and v2 take no part."""
    return {
        n: t for n, t in rwkv_files.rename_tensors(tensors).items() if n[:-1] != "blocks.0.att.v"
    }


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """config.json of a checkpoint without one."""
    shapes = rwkv_files.Shapes(tensors)
    names = {"decay": "w", "a": "a", "gate": "g"}
    low = {f"{name}_low_rank_dim": shapes(f"blocks.0.att.{n}1")[1] for name, n in names.items()}
    v = shapes("blocks.1.att.v1")[1] if shapes.layers > 1 else 1  # no first layer reads it
    size = shapes("blocks.0.att.r_k")[1]
    return shapes.config("rwkv7", head_dim=size, group_norm_eps=64e-5, v_low_rank_dim=v, **low)


def gguf() -> Architecture:
    """The first layer's v0, v1 and v2 are in a file, though they take no part."""

    def unread(model: Any) -> dict[str, tuple[int, ...]]:
        attention = model.spec.layers[0].attention
        channels, rank = attention.heads * attention.size, attention.ranks[1]
        shapes = (channels,), (rank, attention.width), (channels, rank)
        return {f"blk.0.time_mix_v{i}.weight": shape for i, shape in enumerate(shapes)}

    return rwkv(
        "rwkv7",
        "RWKV7ForCausalLM",
        keys={
            "norm_eps": "attention.layer_norm_epsilon",
            "head_dim": "wkv.head_size",
            "decay_low_rank_dim": "attention.decay_lora_rank",
            "a_low_rank_dim": "attention.iclr_lora_rank",
            "v_low_rank_dim": "attention.value_residual_mix_lora_rank",
            "gate_low_rank_dim": "attention.gate_lora_rank",
        },
        names={
            "channel_mix_lerp_k.weight": "ffn.x_k",
            **{f"time_mix_{n}.weight": f"att.{n}" for n in ("k_k", "k_a", "r_k")},
            **{f"time_mix_{n}{i}.weight": f"att.{n}{i}" for n in "wavg" for i in range(3)},
        },
        turned=[f"{n}{i}" for n in "wavg" for i in (1, 2)],
        vectors=("att.w0", "att.a0", "att.v0", "att.k_k", "att.k_a", "ffn.x_k"),
        mixed=[f"att.x_{n}" for n in "rwkvag"],
        fixed={"group_norm_eps": 64e-5},
        filled=unread,
    )


FAMILY = Family(
    model_types=("rwkv7",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    refused=("attn", "norm_bias", "norm_first"),
    rename_tensors=rename_tensors,
    tensors=("blocks.0.att.r_k",),
    config_of=config_of,
    gguf_types=("rwkv7",),
    gguf=gguf(),
)
