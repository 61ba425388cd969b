"""Hunyuan's dense models (Tencent, 2025): LLaMA with norms of q and k after their rotation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("HunYuanDenseV1ForCausalLM",)
NAMES = AttentionNames(q_norm="query_layernorm", k_norm="key_layernorm")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    eod_token_id: int | None = None
    model_type: str = "hunyuan_v1_dense"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    values = _stretched(c, plain)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        return replace(
            a,
            rotary=rotary_of(values, a.head_dim),
            norm=NormSpec("rms", c.rms_norm_eps),
            norm_last=True,
            names=NAMES,
        )

    return each_attention(plain, changed)


def _stretched(c: Config, plain: DecoderSpec) -> dict[str, Any]:
    """The configuration with the fixed `alpha` of its "dynamic" scaling made a part of theta."""
    values, scaling = dict(vars(c)), c.rope_scaling or c.rope_parameters
    alpha = scaling.get("alpha") if isinstance(scaling, dict) else None
    if not alpha or scaling.get("rope_type", scaling.get("type")) != "dynamic":
        return values
    if not isinstance(alpha, int | float) or not 1 <= alpha < 1e9:
        raise FormatError(f"config.json: rope alpha is {brief(alpha)}; it must be 1 or more")
    head = c.head_dim or c.hidden_size // max(c.num_attention_heads, 1)
    values |= {"rope_scaling": None, "rope_parameters": None}
    theta = rotary_of(values | {"rope_theta": scaling.get("rope_theta", c.rope_theta)}, head).theta
    return values | {"rope_theta": theta * alpha ** (head / max(head - 2, 1))}


GGUF = Architecture(
    "hunyuan_v1_dense",
    "HunYuanDenseV1ForCausalLM",
    attention=NAMES,
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    fixed={"attention_bias": False},
)

FAMILY = Family(
    model_types=("hunyuan_v1_dense",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("hunyuan-dense",),
    gguf=GGUF,
)
