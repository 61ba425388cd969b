"""Ministral 3 (Mistral AI, 2025): Mistral whose late queries grow, with positions by YaRN."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, halves
from rushlight.models.layers.building import FLOATS, decoder_builder, each_attention
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("Ministral3ForCausalLM",)
SCALING = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 8
    head_dim: int | None = 128
    max_position_embeddings: int = 262144
    rms_norm_eps: float = 1e-5
    sliding_window: int | None = None
    model_type: str = "ministral3"


def query_temperature(positions: dict[str, Any]) -> tuple[float, float, float]:
    """How queries grow: see `temperature` of attention; FormatError where it is not said."""
    names = "llama_4_scaling_beta", "original_max_position_embeddings"
    by: list[Any] = [positions.get(name) for name in names]
    if any(type(number) not in FLOATS for number in by) or by[1] < 1:
        raise FormatError(
            "config.json: rope_parameters has llama_4_scaling_beta and "
            f"original_max_position_embeddings {brief(by)}; both must be numbers"
        )
    return float(by[0]), float(by[1]), 0.0


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    c.rope_parameters = c.rope_scaling or c.rope_parameters or SCALING
    temperature = query_temperature(c.rope_parameters)
    return each_attention(
        llama.describe(c), lambda _, a: replace(a, temperature=temperature, window=c.sliding_window)
    )


def adjust(c: dict[str, Any]) -> None:
    """The growth of queries is among the positions; Mistral Small 3's files have none."""
    plain = {"rope_type": "default", "original_max_position_embeddings": 1}
    beta = c.pop("beta", 0.0)
    c["rope_scaling"] = plain | c.get("rope_scaling", {}) | {"llama_4_scaling_beta": beta}
    c.setdefault("head_dim", c["hidden_size"] // c["num_attention_heads"])


# llama.cpp's converter reorders the rows of q and k for its order of rotary pairs.
GGUF = Architecture(
    "ministral3",
    "Ministral3ForCausalLM",
    keys={
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
        "beta": "attention.temperature_scale",
    },
    adjust=adjust,
    transforms={"q_proj": halves("num_attention_heads"), "k_proj": halves("num_key_value_heads")},
    metadata=lambda model: {
        "attention.temperature_scale": model.spec.layers[0].attention.temperature[0]
    },
)

FAMILY = Family(
    model_types=("ministral3",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("mistral3",),
    gguf=GGUF,
)
