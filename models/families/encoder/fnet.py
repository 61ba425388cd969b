"""FNet (Lee-Thorp et al., 2021): BERT with Fourier transforms in place of attention."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.fourier import FourierLayer
from rushlight.models.layers.encoder import BlockOf, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("FNetModel",)
BASE_PREFIX = "fnet."
HEADS = HeadNames()
NAMES = EncoderNames(projection="embeddings.projection", attention_norm="fourier.output.LayerNorm")


@dataclass
class Config(BertConfig):
    """The keys of config.json; there are no heads."""

    neutral = {**BertConfig.neutral, "tpu_short_seq_length": ()}

    num_attention_heads: int = 1
    intermediate_size: int = 3072
    hidden_act: str = "gelu_new"
    type_vocab_size: int = 4
    use_tpu_fourier_optimizations: bool = False
    model_type: str = "fnet"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    # Matrices of one length would be cut to that of a text.
    choose("use_tpu_fourier_optimizations", c.use_tpu_fourier_optimizations, (False,))
    return bert_spec(
        c,
        pooler=pooler,
        heads=1,
        project=True,
        names=NAMES,
        layer=BlockOf(FourierLayer),
    )


FAMILY = Family(
    model_types=("fnet",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
