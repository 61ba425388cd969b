"""Mamba (Gu and Dao, 2023): selective state spaces in place of attention, and no MLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.gguf.scans import ssm
from rushlight.models.layers.blocks.state_space import MambaSpec, rank_of
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("MambaForCausalLM",)
NAMES = DecoderNames(
    base="backbone",
    embedding="embeddings",
    before_attention="norm",
    attention="mixer",
    before_mlp=None,
    norm="norm_f",
)
CONTEXT = 1 << 20  # there are no positions, so no length is too long


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    state_size: int = 16
    expand: float = 2
    conv_kernel: int = 4
    time_step_rank: Any = "auto"
    layer_norm_epsilon: float = 1e-5
    hidden_act: str = "silu"
    use_bias: bool = False
    use_conv_bias: bool = True
    tie_word_embeddings: bool | None = True
    intermediate_size: int | None = None
    eos_token_id: Any = None
    model_type: str = "mamba"
    num_attention_heads = 0  # as GGUF has it
    max_position_embeddings = CONTEXT

    @property
    def inner(self) -> int:
        """The width of the scan."""
        return self.intermediate_size or int(self.expand * self.hidden_size)

    @property
    def rank(self) -> int:
        """The rank of the matrix that gives time steps."""
        return rank_of(self.time_step_rank, self.hidden_size)


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    block = MambaSpec(
        c.hidden_size,
        c.inner,
        c.state_size,
        c.rank,
        c.conv_kernel,
        c.use_bias,
        c.use_conv_bias,
        c.hidden_act,
    )
    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        CONTEXT,
        (LayerSpec(block, None),) * c.num_hidden_layers,
        NormSpec("rms", c.layer_norm_epsilon),
        tied=bool(c.tie_word_embeddings),
        names=NAMES,
    )


def adjust(config: dict[str, Any]) -> None:
    """A file has the scan's width itself."""
    config["expand"] = config.get("inner", 0) / max(config["hidden_size"], 1)
    config["time_step_rank"] = config.get("rank")


FAMILY = Family(
    model_types=("mamba",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="backbone.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("mamba",),
    gguf=ssm("mamba", "MambaForCausalLM", NAMES, adjust),
)
