"""Pocket TTS (Kyutai, 2026): speech of texts in a voice that is heard, by frames of numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound import pocket_tts_audio_tokenizer
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.speech.pocket_tts import PocketVoice

ARCHITECTURES = ("PocketTTSForConditionalGeneration",)
# Of training.
_NEUTRAL = """eos_loss_weight flow_loss_num_samples lsd_distill_probability lsd_diagonal_weight
    lsd_time_logit_mean lsd_time_logit_std latent_stats_ema_steps latent_stats_ema_decay
    max_position_embeddings""".split()


@dataclass
class FlowConfig:
    """The keys of flow_head_config; the checkpoint has the frequencies that max_period tells."""

    hidden_size: int = 512
    num_hidden_layers: int = 6
    latent_dim: int = 32
    condition_dim: int = 1024
    frequency_embedding_size: int = 256
    hidden_act: str = "silu"
    layer_norm_eps: float = 1e-6
    rms_norm_eps: float = 1e-5
    flow_type: str = "lsd"


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = dict.fromkeys(_NEUTRAL, ())
    own = ("codec_config",)

    flow_head_config: dict[str, Any] | None = None
    vocab_size: int = 4004
    hidden_size: int = 1024
    num_hidden_layers: int = 6
    num_attention_heads: int = 16
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int = 4096
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-5
    attention_bias: bool = False
    rope_parameters: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    latent_dim: int = 32
    audio_prompt_token_id: int = 4000
    audio_latent_token_id: int = 4001
    audio_prompt_bos_token_id: int = 4002
    audio_bos_token_id: int = 4003
    frame_rate: float = 12.5
    codec_config: dict[str, Any] | None = None  # of tensors codec.*, where these are saved
    model_type: str = "pocket_tts"


def build(config: dict[str, Any], names: Collection[str]) -> PocketVoice:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = c.flow_head_config or {}
    known = FlowConfig.__annotations__
    f = read_config(FlowConfig, {key: told[key] for key in told if key in known})
    for name, act in (("hidden_act", c.hidden_act), ("flow_head_config.hidden_act", f.hidden_act)):
        choose(name, act, tuple(ACTIVATIONS))
    choose("flow_head_config.flow_type", f.flow_type, ("lsd", "drifting"))
    at_least_one(c, "vocab_size", "hidden_size", "latent_dim", "num_attention_heads")
    at_least_one(f, "hidden_size", "frequency_embedding_size")
    heads = c.num_attention_heads
    c.num_key_value_heads = c.num_key_value_heads or heads
    c.head_dim = c.head_dim or c.hidden_size // heads
    if c.hidden_size % heads or heads % max(c.num_key_value_heads, 1):
        raise FormatError(
            f"config.json: hidden_size {c.hidden_size} is not a multiple of num_attention_heads "
            f"{heads}, or this not of num_key_value_heads {c.num_key_value_heads}"
        )
    if f.condition_dim != c.hidden_size or f.latent_dim != c.latent_dim:
        raise FormatError(
            f"config.json: flow_head_config has condition_dim {f.condition_dim} and latent_dim "
            f"{f.latent_dim}; they must be hidden_size {c.hidden_size} and latent_dim "
            f"{c.latent_dim}"
        )
    if f.frequency_embedding_size % 2 or not 0 < c.frame_rate <= 1e4:
        raise FormatError(
            f"config.json: frequency_embedding_size {f.frequency_embedding_size} must be even, "
            f"and frame_rate {c.frame_rate} above 0"
        )
    places = (
        c.audio_prompt_token_id,
        c.audio_latent_token_id,
        c.audio_prompt_bos_token_id,
        c.audio_bos_token_id,
    )
    if not all(0 <= place < c.vocab_size for place in places):
        raise FormatError(
            f"config.json: tokens of sound {places} are not below vocab_size {c.vocab_size}"
        )
    codec = None
    if c.codec_config is not None or any(name.startswith("codec.") for name in names):
        codec = pocket_tts_audio_tokenizer.build(
            {"model_type": "pocket_tts_audio_tokenizer", **(c.codec_config or {})}, []
        )
        if codec.latent != c.latent_dim:
            raise FormatError(
                f"config.json: codec_config.latent_dim {codec.latent} is not latent_dim "
                f"{c.latent_dim}"
            )
    return PocketVoice(c, f, rotary_of(vars(c), c.head_dim), codec)


def _unused(name: str, config: dict[str, Any]) -> bool:
    """What training weighs by."""
    return name.startswith("loss_weighting.") or name == "latent_stats_num_updates"


FAMILY = Family(
    model_types=("pocket_tts",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    unused=_unused,
)
