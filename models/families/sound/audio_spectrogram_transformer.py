"""AST, the Audio Spectrogram Transformer (Gong et al., 2021): what a recording sounds of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.sound.spectrogram import BASE, SpectrogramTransformer
from rushlight.models.layers.vision.transformer import LayerSpec

ARCHITECTURES = ("ASTForAudioClassification", "ASTModel")


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    patch_size: int = 16
    qkv_bias: bool = True
    frequency_stride: int = 10
    time_stride: int = 10
    max_length: int = 1024
    num_mel_bins: int = 128
    model_type: str = "audio-spectrogram-transformer"


def build(config: dict[str, Any], names: Collection[str]) -> SpectrogramTransformer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    named = config.get("architectures") or [ARCHITECTURES[0]]
    if named not in ([name] for name in ARCHITECTURES):
        raise ArchitectureError(named, ARCHITECTURES)
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    labels = labels_of(config) if named == [ARCHITECTURES[0]] else ()
    layer = LayerSpec(
        c.hidden_size,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        c.layer_norm_eps,
        (c.qkv_bias,) * 3,
    )
    prefixed = bool(labels) or any(name.startswith(f"{BASE}.") for name in names)
    return SpectrogramTransformer(c, layer, labels, f"{BASE}." if prefixed else "")


FAMILY = Family(
    model_types=("audio-spectrogram-transformer",),
    tasks=("audio-classification",),
    architectures=ARCHITECTURES,
    base_prefix=f"{BASE}.",
    config=Config,
    build=build,
)
