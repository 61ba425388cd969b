"""Funnel-Transformer (Dai et al., 2020): an encoder whose blocks halve the text's length.

Base models, without a decoder, give the states of the last block, which are fewer than the tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.funnel import Funnel
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("FunnelModel", "FunnelBaseModel")
BASE_PREFIX = "funnel."
HEADS = HeadNames(
    dense="",
    decoder="lm_head",
    bias="lm_head.bias",
    inner="classifier.linear_hidden",
    text="classifier.linear_out",
    unused="",
)
# The reference has no limit; a score is computed for each pair of tokens.
LIMIT = 1 << 16


@dataclass
class Config:
    """The keys of config.json. Both types of attention give the same scores."""

    neutral = dict.fromkeys(
        ("attention_type", "initializer_std", "num_blocks", "num_hidden_layers"), ()
    )

    vocab_size: int
    d_model: int = 768
    n_head: int = 12
    d_head: int = 64
    d_inner: int = 3072
    block_sizes: Any = (4, 4, 4)
    block_repeats: Any = None
    num_decoder_layers: int = 2
    hidden_act: str = "gelu_new"
    hidden_dropout: float = 0.1
    activation_dropout: float = 0.0
    layer_norm_eps: float = 1e-9
    pooling_type: str = "mean"
    separate_cls: bool = True
    truncate_seq: bool = True
    pool_q_only: bool = True
    tie_word_embeddings: bool = True
    model_type: str = "funnel"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for, with the decoder."""
    choose("pooling_type", c.pooling_type, ("mean", "max"))
    choose("d_model", c.d_model % 2, (0,))
    blocks = numbers_of("block_sizes", c.block_sizes)
    repeats = numbers_of("block_repeats", c.block_repeats or [1] * len(blocks), len(blocks))
    counts = [*blocks, *repeats]
    if not blocks or not all(1 <= count <= 1024 for count in counts) or len(blocks) > 16:
        raise FormatError(f"config.json: block_sizes is {blocks}, block_repeats {repeats}")
    return EncoderSpec(
        c.vocab_size,
        c.d_model,
        LIMIT,
        0,
        c.n_head,
        c.d_inner,
        c.hidden_act,
        NormSpec("layer", c.layer_norm_eps),
        head=c.d_head,
        types=3,
        by_length=True,
        pooler=False,
        absolute=False,
        dropout=c.hidden_dropout,
        body=Funnel(
            tuple(blocks),
            tuple(repeats),
            c.num_decoder_layers,
            c.pooling_type == "mean",
            c.separate_cls,
            c.truncate_seq,
            c.pool_q_only,
        ),
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    base = config.get("architectures") == ["FunnelBaseModel"]
    base = base or head_of(config, ARCHITECTURES) == "ForSequenceClassification"

    def described(c: Config, pooler: bool) -> EncoderSpec:
        spec = describe(c, pooler)
        assert isinstance(spec.body, Funnel)
        return replace(spec, body=replace(spec.body, decoder=None)) if base else spec

    return encoder_builder(Config, described, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)


FAMILY = Family(
    model_types=("funnel",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
