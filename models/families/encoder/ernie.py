"""ERNIE (Sun et al., 2019 and 2020): BERT, from version 2 on with an embedding of the task."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames

ARCHITECTURES = ("ErnieModel",)
BASE_PREFIX = "ernie."
HEADS = HeadNames()
TASKS = "embeddings.task_type_embeddings"


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    use_task_id: bool = False
    task_type_vocab_size: int = 3
    model_type: str = "ernie"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for; every text is of task 0."""
    tasks = ((TASKS, c.task_type_vocab_size),) if c.use_task_id else ()
    return bert_spec(c, pooler=pooler, tables=tasks)


FAMILY = Family(
    model_types=("ernie",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
