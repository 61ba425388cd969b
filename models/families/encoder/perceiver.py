"""Perceiver IO for texts (Jaegle et al., 2021): latents read bytes, and layers run over latents."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.latents import Perceiver, ReadSpec
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of
from rushlight.models.layers.mlp import ACTIVATIONS

ARCHITECTURES = ("PerceiverModel",)
BASE_PREFIX = "perceiver."
HEADS = HeadNames(
    dense="",
    decoder="embedding_decoder",
    bias="embedding_decoder.bias",
    text="perceiver.decoder.decoder.final_layer",
    token="",
    ends="",
    unused="",
)
NAMES = EncoderNames(
    words="input_preprocessor.embeddings", positions="input_preprocessor.position_embeddings"
)
# Of the queries that words are read with, whatever the configuration says.
_HEADS, _KEYS = 8, 256
MOST_BLOCKS = 1024


@dataclass
class Config:
    """The keys of config.json; those of pictures, films and sound change nothing here."""

    neutral = dict.fromkeys(
        ("image_size", "train_size", "num_frames", "audio_samples_per_frame", "samples_per_patch",
         "output_shape", "output_num_channels", "_label_trainable_num_channels", "layer_norm_eps",
         "tie_word_embeddings"), ()
    )  # fmt: skip

    num_latents: int = 256
    d_latents: int = 1280
    d_model: int = 768
    num_blocks: int = 1
    num_self_attends_per_block: int = 26
    num_self_attention_heads: int = 8
    num_cross_attention_heads: int = 8
    qk_channels: int | None = None
    v_channels: int | None = None
    cross_attention_shape_for_attention: str = "kv"
    self_attention_widening_factor: int = 1
    cross_attention_widening_factor: int = 1
    hidden_act: str = "gelu"
    use_query_residual: bool = True
    vocab_size: int = 262
    max_position_embeddings: int = 2048
    model_type: str = "perceiver"


def _reading(
    c: Config, width: int, inside: int, heads: int, keys: int, values: int, **changes: Any
) -> ReadSpec:
    for name, features in (("q and k", keys), ("v", values)):
        if heads < 1 or features % heads:
            raise FormatError(f"config.json: {name} have {features} features for {heads} heads")
    options = {"widened": 1, "activation": c.hidden_act, **changes}
    return ReadSpec(width, inside, heads, keys, values, **options)


def describe(c: Config, text: bool) -> EncoderSpec:
    """The description of the encoder; text: of one whose head gives classes of texts."""
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    if not 1 <= c.num_blocks <= MOST_BLOCKS:  # no tensor tells: all have the same weights
        raise FormatError(
            f"config.json: num_blocks is {c.num_blocks}; it is from 1 to {MOST_BLOCKS}"
        )
    shape, latents, inner = c.cross_attention_shape_for_attention, c.d_latents, c.d_model
    choose("cross_attention_shape_for_attention", shape, ("kv", "q"))
    across = c.qk_channels or (latents if shape == "q" else inner)
    keys = c.qk_channels or latents
    choose("v_channels", c.v_channels or keys, (latents,))  # what latents get is added to them
    body = Perceiver(
        inner,
        c.num_latents,
        latents,
        c.num_self_attends_per_block,
        c.num_blocks,
        _reading(
            c,
            latents,
            inner,
            c.num_cross_attention_heads,
            across,
            c.v_channels or across,
            widened=c.cross_attention_widening_factor,
            residual=c.use_query_residual,
        ),
        _reading(
            c,
            latents,
            latents,
            c.num_self_attention_heads,
            keys,
            latents,
            widened=c.self_attention_widening_factor,
            across=False,
        ),
        None if text else _reading(c, inner, latents, _HEADS, _KEYS, inner, residual=False),
        _reading(c, latents, latents, 1, latents, latents) if text else None,
    )
    return EncoderSpec(
        c.vocab_size,
        latents if text else inner,
        c.max_position_embeddings,
        0,
        1,
        inner,
        c.hidden_act,
        types=0,
        pooler=False,
        names=NAMES,
        body=body,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    text = head_of(config, ARCHITECTURES) == "ForSequenceClassification"
    # The head of words is the words' own, whatever the configuration says.
    config = {key: value for key, value in config.items() if key != "tie_word_embeddings"}
    make = encoder_builder(
        Config, lambda c, _: describe(c, text), ARCHITECTURES, BASE_PREFIX, HEADS
    )
    return make(config, names)


FAMILY = Family(
    model_types=("perceiver",),
    tasks=("feature-extraction", "fill-mask"),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
