"""CLAP (Wu et al., 2023): vectors of sounds and of texts that say what is heard."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.sound.clap import ClapModel, SoundTower
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.attention.swin import Stage, SwinSpec
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("ClapModel",)


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {"embedding_size": ()}

    text_config: Any = None
    audio_config: Any = None
    logit_scale_init_value: float = 1 / 0.07
    projection_dim: int = 512
    projection_hidden_act: str = "relu"
    model_type: str = "clap"


@dataclass
class Text(roberta.Config):
    """The keys of text_config; those of the projection are read above it."""

    neutral = {**roberta.Config.neutral, "projection_dim": (), "projection_hidden_act": ()}

    vocab_size: int = 50265
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 514
    type_vocab_size: int = 1
    model_type: str = "clap_text_model"


@dataclass
class Sounds:
    """The keys of audio_config."""

    neutral = {
        "embedding_size": (),
        "num_classes": (),
        "drop_path_rate": (),
        "num_hidden_layers": (),
        "projection_dim": (),
        "projection_hidden_act": (),
        "flatten_patch_embeds": (True,),
        "patch_embed_input_channels": (1,),
    }

    window_size: int = 8
    num_mel_bins: int = 64
    spec_size: int = 256
    hidden_act: str = "gelu"
    patch_size: Any = 4
    patch_stride: Any = (4, 4)
    hidden_size: int = 768
    depths: list[int] = field(default_factory=lambda: [2, 2, 6, 2])
    num_attention_heads: list[int] = field(default_factory=lambda: [4, 8, 16, 32])
    enable_fusion: bool = False
    fusion_type: str | None = None
    patch_embeds_hidden_size: int = 96
    enable_patch_layer_norm: bool = True
    qkv_bias: bool = True
    mlp_ratio: float = 4.0
    aff_block_r: int = 4
    layer_norm_eps: float = 1e-5
    model_type: str = "clap_audio_model"


def describe(c: Sounds) -> SoundTower:
    """The tower of sounds that a configuration asks for."""
    count, width = len(c.depths), c.patch_embeds_hidden_size
    stride = pair(list(c.patch_stride) if isinstance(c.patch_stride, tuple) else c.patch_stride, "")
    lists = (c.depths, c.num_attention_heads)
    good = all(type(n) is int and 1 <= n <= 1 << 12 for sizes in lists for n in sizes)
    if not 1 <= count <= 8 or not good or len(c.num_attention_heads) != count:
        raise FormatError(
            f"config.json: depths {c.depths} and num_attention_heads {c.num_attention_heads} do "
            "not agree, or are no sizes"
        )
    if c.hidden_size != width << (count - 1):
        raise FormatError(
            f"config.json: hidden_size {c.hidden_size} is not patch_embeds_hidden_size {width} "
            f"doubled {count - 1} times"
        )
    if not 0 < c.num_mel_bins <= c.spec_size or c.spec_size % c.num_mel_bins:
        raise FormatError(
            f"config.json: spec_size {c.spec_size} is not a multiple of num_mel_bins "
            f"{c.num_mel_bins}"
        )
    if c.enable_fusion and c.fusion_type == "channel_map":
        raise FormatError(
            'config.json: fusion_type "channel_map" is not supported; supported: null, "aff_2d"'
        )
    smallest = min(c.spec_size // n for n in stride) >> (count - 1)
    if not 1 <= c.window_size <= smallest:
        raise FormatError(
            f"config.json: window_size {c.window_size} is above the {smallest} rows of the last "
            "stage"
        )
    stages = [
        Stage(width << i, layers, heads, c.window_size, c.window_size // 2)
        for i, (layers, heads) in enumerate(zip(*lists, strict=True))
    ]
    patch = pair(c.patch_size, "patch_size")
    swin = SwinSpec(
        stages, False, "", 1, patch, c.mlp_ratio, c.hidden_act, c.layer_norm_eps, c.qkv_bias
    )
    return SoundTower(
        swin,
        c.num_mel_bins,
        c.spec_size,
        patch,
        stride,
        c.enable_fusion,
        c.aff_block_r,
        c.enable_patch_layer_norm,
    )


def build(config: dict[str, Any], names: Collection[str]) -> ClapModel:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("projection_hidden_act", c.projection_hidden_act, tuple(ACTIVATIONS))
    text = towers.tower(config, "text_config", Text)
    sound = towers.tower(config, "audio_config", Sounds)
    return ClapModel(c, describe(sound), text, roberta.describe(text, True))


FAMILY = Family(
    model_types=("clap",),
    tasks=("zero-shot-audio-classification",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
