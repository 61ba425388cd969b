"""LiLT (Wang et al., 2022): RoBERTa beside narrow layers of each word's box on a page; `bbox`."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.laid_out import LaidOut
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("LiltModel",)
BASE_PREFIX = "lilt."
HEADS = HeadNames(decoder="", unused="", inner="classifier.dense", text="classifier.out_proj")


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    pad_token_id: int | None = 0
    channel_shrink_ratio: int = 4
    max_2d_position_embeddings: int = 1024
    model_type: str = "lilt"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    pad = c.pad_token_id
    if pad is None or not 0 <= pad < c.max_position_embeddings:
        raise FormatError(
            f"config.json: pad_token_id is {pad}; positions are counted from it, so it must be 0 "
            f"to {c.max_position_embeddings - 1}"
        )
    body = LaidOut(c.num_hidden_layers, c.channel_shrink_ratio, c.max_2d_position_embeddings, pad)
    most = c.max_position_embeddings - pad - 1
    return bert_spec(c, pooler=pooler, layers=0, body=body, limit=most)


FAMILY = Family(
    model_types=("lilt",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
