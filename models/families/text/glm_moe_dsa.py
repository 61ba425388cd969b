"""GLM 5 (Z.ai, 2026): DeepSeek V3.2 whose layers may share what an earlier indexer chose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.families.text import deepseek_v32
from rushlight.models.layers.blocks.indexer import IndexSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderSpec

ARCHITECTURES = ("GlmMoeDsaForCausalLM",)


@dataclass
class Config(deepseek_v32.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 202752
    rms_norm_eps: float = 1e-5
    indexer_types: Any = None
    index_topk_pattern: Any = None
    index_topk_freq: int = 1
    index_skip_topk_offset: int = 2
    model_type: str = "glm_moe_dsa"


def kinds(c: Config) -> list[str]:
    """Whether each layer's indexer is "full" or "shared"."""
    count, given = c.num_hidden_layers, c.indexer_types
    if given is None and c.index_topk_pattern is not None:
        letters = {"F": "full", "S": "shared"}
        given = [letters.get(kind, kind) for kind in c.index_topk_pattern]
    if given is None:
        every, offset = max(c.index_topk_freq, 1), c.index_skip_topk_offset
        given = ["shared" if max(i - offset + 1, 0) % every else "full" for i in range(count)]
    known = isinstance(given, list) and all(kind in ("full", "shared") for kind in given)
    if not known or len(given) != count or given[:1] == ["shared"]:
        raise FormatError(
            f"config.json: indexer_types or index_topk_pattern is {brief(given)}; it must have "
            f"{count} entries, each full or shared, the first one full"
        )
    return list(given)


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    full = IndexSpec(c.index_n_heads, c.index_head_dim, c.index_topk, interleaved=True)
    shared = replace(full, shared=True)
    return deepseek_v32.describe_with(c, [full if kind == "full" else shared for kind in kinds(c)])


FAMILY = Family(
    model_types=("glm_moe_dsa",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES, both_ways=False),
    unused=deepseek_v32.FAMILY.unused,
)
