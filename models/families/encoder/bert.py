"""BERT (Devlin et al., 2018): a bidirectional encoder with absolute positions, post-norm."""

from __future__ import annotations

from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder

MODEL_TYPES = ("bert",)
TASKS = ("feature-extraction",)
ARCHITECTURES = ("BertModel",)
BASE_PREFIX = "bert."
Config = BertConfig


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return bert_spec(c, pooler=pooler)


build = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX)
