"""CANINE (Clark et al., 2021): BERT of characters, whose ids are Unicode's, in groups."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.canine import PRIMES, Canine
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("CanineModel",)
BASE_PREFIX = "canine."
HEADS = HeadNames(decoder="", unused="")
CHARACTERS = 0x110000


@dataclass
class Config:
    """The keys of config.json; every character has an id, whatever vocab_size says."""

    neutral = {"vocab_size": (), "embedding_size": ()}

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    max_position_embeddings: int = 16384
    type_vocab_size: int = 16
    layer_norm_eps: float = 1e-12
    downsampling_rate: int = 4
    upsampling_kernel_size: int = 4
    num_hash_functions: int = 8
    num_hash_buckets: int = 16384
    local_transformer_stride: int = 128
    model_type: str = "canine"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    hashes, width = c.num_hash_functions, c.hidden_size
    if not 1 <= hashes <= len(PRIMES) or width % hashes:
        raise FormatError(
            f"config.json: num_hash_functions is {hashes}; it must divide hidden_size, {width}, "
            f"and be up to {len(PRIMES)}"
        )
    sizes = {
        name: getattr(c, name)
        for name in ("downsampling_rate", "upsampling_kernel_size", "local_transformer_stride")
    }
    for name, size in sizes.items():
        if not 1 <= size <= 4096:
            raise FormatError(f"config.json: {name} is {size}; it must be 1 to 4096")
    body = Canine(
        c.num_hidden_layers,
        c.downsampling_rate,
        c.upsampling_kernel_size,
        hashes,
        c.num_hash_buckets,
        c.local_transformer_stride,
    )
    return EncoderSpec(
        CHARACTERS,
        width,
        min(c.max_position_embeddings, c.num_hash_buckets),
        0,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        NormSpec("layer", c.layer_norm_eps),
        types=c.type_vocab_size,
        pooler=pooler,
        dropout=c.hidden_dropout_prob,
        body=body,
    )


FAMILY = Family(
    model_types=("canine",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
