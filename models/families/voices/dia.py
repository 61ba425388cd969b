"""Dia (Nari Labs, 2025): dialogues of texts, bytes to delayed codes of DAC, by guidance."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound import dac
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.sound.stack import Attending
from rushlight.models.layers.speech.dia import DiaVoice

ARCHITECTURES = ("DiaForConditionalGeneration",)
_DELAYS = (0, 8, 9, 10, 11, 12, 13, 14, 15)


@dataclass
class TextConfig:
    """The keys of encoder_config."""

    max_position_embeddings: int = 1024
    num_hidden_layers: int = 12
    hidden_size: int = 1024
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int = 128
    intermediate_size: int = 4096
    norm_eps: float = 1e-5
    vocab_size: int = 256
    hidden_act: str = "silu"
    rope_parameters: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    model_type: str = "dia_encoder"


@dataclass
class FrameConfig:
    """The keys of decoder_config."""

    neutral = {"is_encoder_decoder": (True, False)}

    max_position_embeddings: int = 3072
    num_hidden_layers: int = 18
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_attention_heads: int = 16
    num_key_value_heads: int = 4
    head_dim: int = 128
    cross_num_attention_heads: int = 16
    cross_head_dim: int = 128
    cross_num_key_value_heads: int = 16
    cross_hidden_size: int = 1024
    norm_eps: float = 1e-5
    vocab_size: int = 1028
    hidden_act: str = "silu"
    num_channels: int = 9
    rope_parameters: dict[str, Any] | None = None
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    pad_token_id: int = 1025
    eos_token_id: int = 1024
    bos_token_id: int = 1026
    model_type: str = "dia_decoder"


@dataclass
class Config:
    """The keys of config.json; the tokens are the decoder's where these are not said here."""

    neutral = {"norm_eps": (), "is_encoder_decoder": (True,)}
    own = ("codec_config",)

    encoder_config: dict[str, Any] | None = None
    decoder_config: dict[str, Any] | None = None
    delay_pattern: list[Any] | None = None
    pad_token_id: int | None = None
    eos_token_id: int | None = None
    bos_token_id: int | None = None
    codec_config: dict[str, Any] | None = None  # of tensors codec.*, where these are saved
    model_type: str = "dia"


def build(config: dict[str, Any], names: Collection[str]) -> DiaVoice:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    text = read_config(TextConfig, {"model_type": "dia_encoder", **(c.encoder_config or {})})
    inner = read_config(FrameConfig, {"model_type": "dia_decoder", **(c.decoder_config or {})})
    for key in ("pad_token_id", "eos_token_id", "bos_token_id"):
        setattr(inner, key, getattr(inner, key) if getattr(c, key) is None else getattr(c, key))
    for part in (text, inner):
        choose("hidden_act", part.hidden_act, tuple(ACTIVATIONS))
        kinds = part.__annotations__.items()
        at_least_one(part, *(n for n, k in kinds if k == "int" and not n.endswith("token_id")))
    c.delay_pattern = numbers_of("delay_pattern", c.delay_pattern or list(_DELAYS))
    if len(c.delay_pattern) != inner.num_channels or not all(
        0 <= delay < 1 << 12 for delay in c.delay_pattern
    ):
        raise FormatError(
            f"config.json: delay_pattern is {brief(c.delay_pattern)}; it must have a number of "
            f"steps for each of num_channels {inner.num_channels}"
        )
    ends = (inner.eos_token_id, inner.pad_token_id, inner.bos_token_id)
    if not all(0 < token < inner.vocab_size for token in ends) or min(ends) < inner.eos_token_id:
        raise FormatError(
            f"config.json: eos_token_id, pad_token_id and bos_token_id are {ends}; they must be "
            f"above the codes and below vocab_size {inner.vocab_size}, the end first"
        )
    if inner.cross_hidden_size != text.hidden_size:
        raise FormatError(
            f"config.json: cross_hidden_size {inner.cross_hidden_size} is not the encoder's "
            f"hidden_size {text.hidden_size}"
        )
    own = (_attending(part, causal) for part, causal in ((text, False), (inner, True)))
    heads, shared = inner.cross_num_attention_heads, inner.cross_num_key_value_heads
    _divided(heads, shared)
    cross = Attending(
        heads, shared, inner.cross_head_dim, inside=text.hidden_size, scale=1.0, causal=False
    )
    codec = None
    if c.codec_config is not None or any(name.startswith("codec.") for name in names):
        codec = dac.build({"model_type": "dac", **(c.codec_config or {})}, [])
        if codec.codebooks < inner.num_channels or codec.config.codebook_size < ends[0]:
            raise FormatError(
                f"config.json: the codec's {codec.codebooks} codebooks of "
                f"{codec.config.codebook_size} codes do not fit num_channels {inner.num_channels} "
                f"and eos_token_id {ends[0]}"
            )
    return DiaVoice(c, text, inner, (next(own), next(own), cross), codec)


def _attending(part: Any, causal: bool) -> Attending:
    heads, shared = part.num_attention_heads, part.num_key_value_heads
    _divided(heads, shared)
    rotary = rotary_of(vars(part), part.head_dim)
    return Attending(heads, shared, part.head_dim, rotary, scale=1.0, causal=causal)


def _divided(heads: int, shared: int) -> None:
    if heads % shared:
        raise FormatError(
            f"config.json: {heads} attention heads are not a multiple of {shared} heads of keys"
        )


FAMILY = Family(
    model_types=("dia",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
