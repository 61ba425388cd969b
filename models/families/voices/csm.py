"""CSM (Sesame, 2025): speech of texts by a Llama and a small one that fills in Mimi's codes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.sound import mimi
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.layers.sound.codec import without
from rushlight.models.layers.speech.csm import CsmVoice, rename_tensors

ARCHITECTURES = ("CsmForConditionalGeneration",)


@dataclass
class DepthConfig:
    """The keys of depth_decoder_config."""

    neutral = {"max_position_embeddings": ()}

    num_codebooks: int = 32
    backbone_hidden_size: int = 2048
    vocab_size: int = 2051
    hidden_size: int = 1024
    intermediate_size: int = 8192
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 2
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    rope_theta: float = 500000.0
    rope_scaling: dict[str, Any] | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    head_dim: int | None = None
    max_position_embeddings: int = 33
    model_type: str = "csm_depth_decoder_model"


@dataclass
class Config:
    """The keys of config.json that the model depends on; defaults are transformers'."""

    # Of sounds before the text, which are not read.
    neutral = dict.fromkeys(
        "codebook_pad_token_id audio_token_id audio_eos_token_id tie_word_embeddings".split(), ()
    )

    num_codebooks: int = 32
    vocab_size: int = 2051
    text_vocab_size: int = 128256
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 16
    num_attention_heads: int = 32
    num_key_value_heads: int | None = 8
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-5
    codebook_eos_token_id: int = 0
    rope_parameters: dict[str, Any] | None = None
    rope_theta: float = 500000.0
    rope_scaling: dict[str, Any] | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    head_dim: int | None = None
    tie_codebooks_embeddings: bool = True
    depth_decoder_config: dict[str, Any] | None = None
    codec_config: dict[str, Any] | None = None
    model_type: str = "csm"


def build(config: dict[str, Any], names: Collection[str]) -> CsmVoice:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = {"model_type": "csm_depth_decoder_model", **(c.depth_decoder_config or {})}
    d = read_config(DepthConfig, told)
    rotaries = []
    for part in (c, d):
        choose("hidden_act", part.hidden_act, tuple(ACTIVATIONS))
        at_least_one(part, "num_attention_heads", "hidden_size", "vocab_size", "num_codebooks")
        heads = part.num_attention_heads
        part.num_key_value_heads = part.num_key_value_heads or heads
        part.head_dim = part.head_dim or part.hidden_size // heads
        if heads % part.num_key_value_heads:
            raise FormatError(
                f"config.json: num_attention_heads {heads} is not a multiple of "
                f"num_key_value_heads {part.num_key_value_heads}"
            )
        rotaries.append(rotary_of(vars(part), part.head_dim))
    codec = mimi.build({"model_type": "mimi", **(c.codec_config or {})}, [])
    same = d.num_codebooks == c.num_codebooks and d.vocab_size == c.vocab_size
    if not same or d.backbone_hidden_size != c.hidden_size or c.num_codebooks < 2:
        raise FormatError(
            f"config.json: depth_decoder_config has {d.num_codebooks} codebooks of {d.vocab_size} "
            f"codes and backbone_hidden_size {d.backbone_hidden_size}; they must be num_codebooks "
            f"{c.num_codebooks}, 2 or more, vocab_size {c.vocab_size} and hidden_size "
            f"{c.hidden_size}"
        )
    if codec.codebooks < c.num_codebooks or codec.config.codebook_size > c.vocab_size:
        raise FormatError(
            f"config.json: the codec's {codec.codebooks} codebooks of {codec.config.codebook_size} "
            f"codes do not fit num_codebooks {c.num_codebooks} and vocab_size {c.vocab_size}"
        )
    return CsmVoice(c, d, (rotaries[0], rotaries[1]), codec)


FAMILY = Family(
    model_types=("csm",),
    tasks=("text-to-speech",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=without(("initialized",)),
)
