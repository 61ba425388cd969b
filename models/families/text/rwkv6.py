"""RWKV 6 (Peng et al., 2024): a recurrence whose decays depend on the token, for attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.recurrences import rwkv
from rushlight.models.layers.blocks import rwkv_files
from rushlight.models.layers.blocks.rwkv import RWKVSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Rwkv6ForCausalLM",)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = dict.fromkeys(("num_attention_heads", "rescale_every", "model_version"), ())

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    attention_hidden_size: int | None = None
    head_size: int = 64
    head_size_divisor: int = 8
    intermediate_size: int | None = None
    time_mix_extra_dim: int | None = None
    time_decay_extra_dim: int | None = None
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool | None = False
    halved_every: int = 0  # layers, after which matrices of GGUF files are halved
    eos_token_id: Any = None
    model_type: str = "rwkv6"


def described(c: Config, version: int, **more: Any) -> DecoderSpec:
    """The decoder of a configuration, with what a layer of the version needs besides."""
    width = c.hidden_size if c.attention_hidden_size is None else c.attention_hidden_size
    inner = c.intermediate_size
    inner = int(c.hidden_size * 3.5) // 32 * 32 if inner is None else inner
    return rwkv_files.decoder(
        c,
        RWKVSpec(
            version,
            c.hidden_size,
            width // max(c.head_size, 1),
            c.head_size,
            inner,
            eps=c.layer_norm_epsilon,
            group_eps=1e-5 * c.head_size_divisor**2,
            **more,
        ),
    )


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    mix, decay = c.time_mix_extra_dim, c.time_decay_extra_dim
    least = 64 if c.hidden_size == 4096 else 32  # as the published code has it
    mix, decay = least if mix is None else mix, 2 * least if decay is None else decay
    return described(c, 6, ranks=(decay, mix), halved=c.halved_every)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """config.json of a checkpoint without one."""
    shapes = rwkv_files.Shapes(tensors)
    heads, size = shapes("blocks.0.att.time_faaaa")
    return shapes.config(
        "rwkv6",
        attention_hidden_size=heads * size,
        head_size=size,
        time_mix_extra_dim=shapes("blocks.0.att.time_maa_w1")[1] // 5,
        time_decay_extra_dim=shapes("blocks.0.att.time_decay_w1")[1],
    )


def gguf() -> Architecture:
    """llama.cpp's names of the mixtures, and its order of them."""
    return rwkv(
        "rwkv6",
        "Rwkv6ForCausalLM",
        keys={
            "layer_norm_epsilon": "attention.layer_norm_epsilon",
            "head_size": "wkv.head_size",
            "time_mix_extra_dim": "time_mix_extra_dim",
            "time_decay_extra_dim": "time_decay_extra_dim",
            "halved_every": "rescale_every_n_layers",
        },
        names={
            "time_mix_gate": "att.gate",
            "channel_mix_receptance": "ffn.receptance",
            **{f"channel_mix_lerp_{n}.weight": f"ffn.time_maa_{n}" for n in "kr"},
            "time_mix_first.weight": "att.time_faaaa",
            "time_mix_decay.weight": "att.time_decay",
            **{f"time_mix_decay_w{i}.weight": f"att.time_decay_w{i}" for i in (1, 2)},
            **{f"time_mix_w{i}.weight": f"att.time_maa_w{i}" for i in (1, 2)},
            **{f"time_mix_lerp_{n}.weight": f"att.time_maa_{n}" for n in "xwkvrg"},
        },
        turned=("time_maa_w1", "time_maa_w2", "time_decay_w1", "time_decay_w2"),
        vectors=("att.time_maa_x", "att.time_decay", "ffn.time_maa_k", "ffn.time_maa_r"),
        mixed=[f"att.time_maa_{n}" for n in "wkvrg"],
    )


FAMILY = Family(
    model_types=("rwkv6",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    rename_tensors=rwkv_files.rename_tensors,
    tensors=("blocks.0.att.time_maa_x",),
    config_of=config_of,
    gguf_types=("rwkv6",),
    gguf=gguf(),
)
