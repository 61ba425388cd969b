"""RoCBert (Su et al., 2022): BERT of Chinese that also sees characters' shapes and sounds.

`input_shape_ids` and `input_pronunciation_ids` say them; without them each token has the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.inputs import WrittenEmbeddings
from rushlight.models.layers.encoder import BlockOf, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("RoCBertModel",)
BASE_PREFIX = "roc_bert."
HEADS = HeadNames()


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    enable_pronunciation: bool = True
    enable_shape: bool = True
    pronunciation_embed_dim: int = 768
    pronunciation_vocab_size: int = 910
    shape_embed_dim: int = 512
    shape_vocab_size: int = 24858
    concat_input: bool = True
    is_decoder: bool = False
    add_cross_attention: bool = False
    model_type: str = "roc_bert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("is_decoder", c.is_decoder, (False,))
    choose("add_cross_attention", c.add_cross_attention, (False,))
    shapes = c.shape_vocab_size, c.shape_embed_dim
    sounds = c.pronunciation_vocab_size, c.pronunciation_embed_dim
    used = c.enable_shape, c.enable_pronunciation
    if not c.concat_input:
        for on, name in zip(used, ("shape_embed_dim", "pronunciation_embed_dim"), strict=True):
            if on and getattr(c, name) != c.hidden_size:
                raise FormatError(
                    f"config.json: {name} is {getattr(c, name)}; without concat_input it must be "
                    f"hidden_size, {c.hidden_size}"
                )
    return bert_spec(
        c,
        pooler=pooler,
        input=BlockOf(WrittenEmbeddings, shapes, sounds, used, c.concat_input),
    )


FAMILY = Family(
    model_types=("roc_bert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
