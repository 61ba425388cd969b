"""XLNet (Yang et al., 2019): an encoder by distances, trained to predict in any order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.sine_distances import SineLayer, Words
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("XLNetModel",)
BASE_PREFIX = "transformer."
HEADS = HeadNames(
    decoder="", inner="sequence_summary.summary", text="logits_proj", ends="", last=True
)
NAMES = EncoderNames(input="word_embedding", words="word_embedding", layers="layer")
# The reference has no limit; a score is computed for each pair of tokens.
LIMIT = 1 << 16


@dataclass
class Config:
    """The keys of config.json. The states of earlier texts (mems) are none of an encoder's."""

    neutral = dict.fromkeys(
        ("mem_len", "reuse_len", "use_mems_eval", "use_mems_train", "same_length", "start_n_top",
         "end_n_top", "max_position_embeddings"), ()
    )  # fmt: skip

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_inner: int
    d_head: int | None = None
    ff_activation: str = "gelu"
    attn_type: str = "bi"
    bi_data: bool = False
    clamp_len: Any = -1
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    tie_word_embeddings: bool = True
    model_type: str = "xlnet"


def _words(spec: EncoderSpec) -> Words:
    return Words(spec.vocab, spec.width)


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("attn_type", c.attn_type, ("bi",))
    choose("bi_data", c.bi_data, (False,))
    choose("d_head", c.d_head, (c.d_model // max(c.n_head, 1), None, 0))
    choose("ff_activation", c.ff_activation, tuple(ACTIVATIONS))
    choose("d_model", c.d_model % 2, (0,))
    farthest = c.clamp_len if isinstance(c.clamp_len, int) else -1
    return EncoderSpec(
        c.vocab_size,
        c.d_model,
        LIMIT,
        c.n_layer,
        c.n_head,
        c.d_inner,
        c.ff_activation,
        NormSpec("layer", c.layer_norm_eps),
        types=3,
        by_length=True,
        pooler=False,
        absolute=False,
        dropout=c.dropout,
        names=NAMES,
        input=_words,
        layer=BlockOf(SineLayer, farthest),
    )


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device.

    It keeps the embedding of a word to be predicted, which it does not use.
    """
    heads = HEADS
    if head_of(config, ARCHITECTURES) == "ForSequenceClassification":
        choose("summary_type", config.get("summary_type", "last"), ("last",))
        choose("summary_use_proj", config.get("summary_use_proj", True), (True,))
        act = config.get("summary_activation", "tanh")
        choose("summary_activation", act, tuple(ACTIVATIONS))
        heads = replace(HEADS, inner_act=act)
    model = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)
    model.mask_emb = parameter(1, 1, model.width)
    return model


FAMILY = Family(
    model_types=("xlnet",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
