"""SEW-D (Wu et al., 2021): SEW with the disentangled attention of DeBERTa."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.speech import sew
from rushlight.models.layers.blocks.disentangled import DisentangledSpec
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.speech.sew import SEWDModel
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import classes_of

ARCHITECTURES = classes_of("SEWD")
_NAMES = EncoderNames(
    layers="encoder.encoder.layer",
    q="attention.self.query_proj",
    k="attention.self.key_proj",
    v="attention.self.value_proj",
)


@dataclass
class Config(sew.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {**sew.Config.neutral, "pooler_hidden_act": (), "pooler_hidden_size": ()}

    max_position_embeddings: int = 512
    position_buckets: int = 256
    share_att_key: bool = True
    relative_attention: bool = True
    pos_att_type: Any = None
    norm_rel_ebd: str = "layer_norm"
    hidden_act: str = "gelu_python"
    layer_norm_eps: float = 1e-7
    feature_layer_norm_eps: float = 1e-5
    max_relative_positions: int = 0
    model_type: str = "sew-d"


def describe(c: Any, names: Collection[str]) -> tuple[EncoderSpec, list[tuple[int, int, int]]]:
    """The encoder of a configuration, and the convolutions before it."""
    spec, convs = sew.describe(c, names)
    named = ["p2c", "c2p"] if c.pos_att_type is None else c.pos_att_type
    parts = tuple(kind for kind in ("c2p", "p2c") if kind in named)
    far = c.max_relative_positions if c.max_relative_positions > 0 else c.max_position_embeddings
    sides = (c.position_buckets, far) if c.position_buckets > 0 else (far, 0)
    normed = "layer_norm" in [word.strip() for word in c.norm_rel_ebd.lower().split("|")]
    table = DisentangledSpec(sides[0], sides[1], parts, c.share_att_key, normed)
    return (
        replace(
            spec,
            names=_NAMES,
            norm=NormSpec("layer", c.layer_norm_eps),
            disentangled=table if c.relative_attention else None,
            scale=(spec.head_dim * (1 + len(parts))) ** -0.5,
        ),
        convs,
    )


def build(config: dict[str, Any], names: Collection[str]) -> WaveModel:
    """The model of a checkpoint with these tensor names, on the meta device; -1 is for none."""
    told = {name: 0 if value == -1 else value for name, value in config.items()}
    return sew.builder(Config, ARCHITECTURES, SEWDModel, describe)(told, names)


FAMILY = sew.family(
    "sew-d",
    Config,
    ARCHITECTURES,
    SEWDModel,
    build=build,
    refused=(
        "num_feat_extract_layers",
        "attention_head_size",
        "conv_kernel_size",
        "conv_groups",
        "conv_act",
    ),
)
