"""data2vec of text (Baevski et al., 2022): RoBERTa, trained to predict its own hidden states."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.encoding import encoder_builder

ARCHITECTURES = ("Data2VecTextModel",)
BASE_PREFIX = "data2vec_text."
HEADS = roberta.HEADS


@dataclass
class Config(roberta.Config):
    """The keys of config.json."""

    # Keys of the reference's models of sound, which its file asks for.
    neutral = {**roberta.Config.neutral, "apply_spec_augment": (), "num_feat_extract_layers": ()}

    model_type: str = "data2vec-text"


FAMILY = Family(
    model_types=("data2vec-text",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, roberta.describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
