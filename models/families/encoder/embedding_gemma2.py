"""EmbeddingGemma 2 (Gemma Team, 2026): Gemma 4's layers in both directions, for texts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma4
from rushlight.models.layers.blocks.embedding_layers import LayersEncoder
from rushlight.models.layers.blocks.layer_inputs import LayerInputsSpec
from rushlight.models.layers.building import FULL, SLIDING, kinds_of

ARCHITECTURES = ("EmbeddingGemma2TextModel", "EmbeddingGemma2Model")
POSITIONS = {
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    FULL: {"rope_type": "default", "rope_theta": 1000000.0},
}


@dataclass
class Config(gemma4.Config):
    """The keys of config.json that the model depends on."""

    num_key_value_heads: int | None = 2
    max_position_embeddings: int = 262144
    sliding_window_pattern: int = 6
    hidden_size_per_layer_input: int = 512
    num_global_key_value_heads: int | None = 1
    embedding_dim: int = 768
    model_type: str = "embedding_gemma2_text"


def build(config: dict[str, Any], names: Collection[str]) -> LayersEncoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    count, every = c.num_hidden_layers, max(c.sliding_window_pattern, 1)
    within = kinds_of(c.layer_types, count, lambda i: (i + 1) % every != 0)
    within[-1:] = [False] * bool(within)
    own = {"head_dim": c.global_head_dim, "num_key_value_heads": c.num_global_key_value_heads}
    sizes = {str(i): own for i, near in enumerate(within) if not near}
    described = gemma4.describe(
        replace(
            c,
            rope_parameters=c.rope_parameters or POSITIONS,
            layer_types=[SLIDING if near else FULL for near in within],
            per_layer_config=sizes if c.per_layer_config == gemma4.DERIVED else c.per_layer_config,
            use_bidirectional_attention="all",
            sliding_window=2 * c.sliding_window,  # here it is that of one side
            attention_k_eq_v=False,
            num_kv_shared_layers=0,
            use_double_wide_mlp=False,
            enable_moe_block=False,
        )
    )
    streams = LayerInputsSpec(0, c.hidden_size_per_layer_input, c.hidden_activation, alone=True)
    named = replace(described.names, base="")
    return LayersEncoder(c, replace(described, streams=streams, names=named), c.embedding_dim)


FAMILY = Family(
    model_types=("embedding_gemma2_text",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
