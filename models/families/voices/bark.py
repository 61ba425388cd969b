"""Bark (Suno, 2023): speech and other sounds of texts, by three GPTs in a row and EnCodec."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound import encodec
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.sound.seanet import rename_tensors
from rushlight.models.layers.speech.bark import BarkVoice

ARCHITECTURES = ("BarkModel",)


@dataclass
class StageConfig:
    """The keys of semantic_config and coarse_acoustics_config."""

    block_size: int = 1024
    input_vocab_size: int = 10_048
    output_vocab_size: int = 10_048
    num_layers: int = 12
    num_heads: int = 12
    hidden_size: int = 768
    bias: bool = True
    model_type: str = "semantic"


@dataclass
class FineConfig:
    """The keys of fine_acoustics_config."""

    block_size: int = 1024
    input_vocab_size: int = 10_048
    output_vocab_size: int = 10_048
    num_layers: int = 12
    num_heads: int = 12
    hidden_size: int = 768
    bias: bool = True
    n_codes_total: int = 8
    n_codes_given: int = 1
    tie_word_embeddings: bool = True
    model_type: str = "fine_acoustics"


@dataclass
class Config:
    """The keys of config.json: those of the parts."""

    semantic_config: dict[str, Any] | None = None
    coarse_acoustics_config: dict[str, Any] | None = None
    fine_acoustics_config: dict[str, Any] | None = None
    codec_config: dict[str, Any] | None = None
    model_type: str = "bark"


def build(config: dict[str, Any], names: Collection[str]) -> BarkVoice:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    parts: list[Any] = []
    for kind, told in (
        ("semantic", c.semantic_config),
        ("coarse_acoustics", c.coarse_acoustics_config),
        ("fine_acoustics", c.fine_acoustics_config),
    ):
        known: Any = FineConfig if kind == "fine_acoustics" else StageConfig
        part = read_config(known, {**(told or {}), "model_type": kind})
        at_least_one(part, "num_heads", "num_layers", "hidden_size", "block_size")
        if part.hidden_size % part.num_heads:
            raise FormatError(
                f"config.json: {kind}: hidden_size {part.hidden_size} is not a multiple of "
                f"num_heads {part.num_heads}"
            )
        parts.append(part)
    codec = encodec.build({"model_type": "encodec", **(c.codec_config or {})}, [])
    fine = parts[2]
    if not 1 <= fine.n_codes_given < fine.n_codes_total <= codec.codebooks:
        raise FormatError(
            f"config.json: n_codes_given {fine.n_codes_given} and n_codes_total "
            f"{fine.n_codes_total} do not fit the codec's {codec.codebooks} codebooks"
        )
    if fine.tie_word_embeddings and fine.input_vocab_size != fine.output_vocab_size:
        raise FormatError(
            f"config.json: fine_acoustics_config: input_vocab_size {fine.input_vocab_size} and "
            f"output_vocab_size {fine.output_vocab_size} differ, though the tables are shared"
        )
    return BarkVoice(c, (parts[0], parts[1], fine), codec)


_TABLES = without(("inited", "cluster_size", "embed_avg"))


def _unused(name: str, config: dict[str, Any]) -> bool:
    """Tables of what is seen, and of training."""
    return name.endswith(".attn.bias") or bool(_TABLES(name, config))


FAMILY = Family(
    model_types=("bark",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=_unused,
)
