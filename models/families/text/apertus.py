"""Apertus (Swiss AI, 2025): LLaMA with norms of heads, and an MLP by xIELU without a gate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.building import decoder_builder, each_attention, with_mlps
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("ApertusForCausalLM",)
NAMES = DecoderNames(before_attention="attention_layernorm", before_mlp="feedforward_layernorm")
SCALING = {
    "rope_type": "llama3",
    "rope_theta": 12000000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    rope_theta: float = 12000000.0
    max_position_embeddings: int = 65536
    hidden_act: str = "xielu"
    model_type: str = "apertus"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.rope_parameters = c.rope_scaling or c.rope_parameters or SCALING
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, gated=False)
    plain = with_mlps(llama.describe(c), lambda _: mlp)
    return replace(each_attention(plain, lambda _, a: replace(a, norm=plain.norm)), names=NAMES)


# A file has the learned numbers of activations among its keys.
NUMBERS: dict[str, tuple[int, ...]] = {"alpha_n": (1,), "alpha_p": (1,), "beta": (), "eps": ()}
INSIDE = "model.layers.{}.mlp.act_fn."
GGUF = Architecture(
    "apertus",
    "ApertusForCausalLM",
    keys={"rms_norm_eps": "attention.layer_norm_rms_epsilon"},
    adjust=lambda c: c.update(rope_scaling=c.get("rope_scaling") or {"rope_type": "default"}),
    decoder=NAMES,
    numbers={f"xielu.{name}": (INSIDE + name, shape) for name, shape in NUMBERS.items()},
)

FAMILY = Family(
    model_types=("apertus",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("apertus",),
    gguf=GGUF,
)
