"""Mamba2 (Dao and Gu, 2024): state spaces by heads, each with one decay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.families.text import mamba
from rushlight.models.gguf.scans import ssm
from rushlight.models.layers.blocks.state_space import Mamba2Spec, limits_of
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec, LayerSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("Mamba2ForCausalLM",)


@dataclass
class Config(mamba.Config):
    """The keys of config.json that the model depends on."""

    num_heads: int = 128
    head_dim: int = 64
    n_groups: int = 8
    state_size: int = 128
    time_step_limit: Any = None
    chunk_size: int = 256  # changes no number
    norm_before_gate: bool = False
    tie_word_embeddings: bool | None = False
    model_type: str = "mamba2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    if c.inner != c.num_heads * c.head_dim:
        raise FormatError(
            f"config.json: num_heads {c.num_heads} of head_dim {c.head_dim} are not expand "
            f"{c.expand:g} times hidden_size {c.hidden_size}"
        )
    if c.norm_before_gate:
        raise FormatError("config.json: norm_before_gate true is not supported; supported: false")
    block = Mamba2Spec(
        c.hidden_size,
        c.num_heads,
        c.head_dim,
        c.n_groups,
        c.state_size,
        c.conv_kernel,
        c.use_bias,
        c.use_conv_bias,
        c.hidden_act,
        limits_of(c.time_step_limit),
        c.layer_norm_epsilon,
    )
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        mamba.CONTEXT,
        (LayerSpec(block, None),) * c.num_hidden_layers,
        NormSpec("rms", c.layer_norm_epsilon),
        tied=bool(c.tie_word_embeddings),
        names=mamba.NAMES,
    )


def adjust(config: dict[str, Any]) -> None:
    """A file has the scan's width and the number of heads."""
    mamba.adjust(config)
    config["head_dim"] = config.get("inner", 0) // max(config.get("num_heads", 0), 1)
    config["time_step_rank"] = "auto"


FAMILY = Family(
    model_types=("mamba2",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="backbone.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("mamba2",),
    gguf=ssm("mamba2", "Mamba2ForCausalLM", mamba.NAMES, adjust),
)
