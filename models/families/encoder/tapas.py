"""TAPAS (Herzig et al., 2020): BERT that reads tables, and answers by the cells that it chooses.

`token_type_ids` have seven numbers for each token; see `TableReader`, which a head for questions
makes, and which reads tables.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.tables import TableEmbeddings, TableReader
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of

ARCHITECTURES = ("TapasModel",)
BASE_PREFIX = "tapas."
HEADS = HeadNames(token="")


@dataclass
class Config(BertConfig):
    """The keys of config.json; those of losses change nothing here."""

    neutral = {
        **BertConfig.neutral,
        **dict.fromkeys(
            (
                "positive_label_weight",
                "aggregation_loss_weight",
                "use_answer_as_supervision",
                "answer_loss_importance",
                "use_normalized_answer_loss",
                "huber_loss_delta",
                "aggregation_temperature",
                "use_gumbel_for_cells",
                "use_gumbel_for_aggregation",
                "average_approximation_function",
                "cell_selection_preference",
                "answer_loss_cutoff",
                "average_logits_per_cell",
                "init_cell_selection_weights_to_zero",
                "disable_per_token_loss",
                "no_aggregation_label_index",
            ),
            (),
        ),  # fmt: skip
    }

    max_position_embeddings: int = 1024
    type_vocab_sizes: Any = (3, 256, 256, 2, 256, 256, 10)
    num_aggregation_labels: int = 0
    aggregation_labels: Any = None
    temperature: float = 1.0
    max_num_rows: int = 64
    max_num_columns: int = 32
    select_one_column: bool = True
    allow_empty_column_selection: bool = False
    reset_position_index_per_cell: bool = True
    is_decoder: bool = False
    add_cross_attention: bool = False
    model_type: str = "tapas"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("is_decoder", c.is_decoder, (False,))
    choose("add_cross_attention", c.add_cross_attention, (False,))
    sizes = numbers_of("type_vocab_sizes", c.type_vocab_sizes)
    if not 3 <= len(sizes) <= 64 or min(sizes) < 1:
        raise FormatError(f"config.json: type_vocab_sizes is {sizes}; it must be sizes of tables")
    if c.temperature <= 0 or c.max_num_columns < 1 or c.max_num_rows < 1:
        raise FormatError(
            "config.json: temperature, max_num_rows, max_num_columns must be positive"
        )
    by_cell = c.reset_position_index_per_cell
    return bert_spec(
        c,
        pooler=pooler,
        input=BlockOf(TableEmbeddings, sizes, by_cell),
        types=1,
        type_columns=len(sizes),
    )


_build = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    if head_of(config, ARCHITECTURES) != "ForQuestionAnswering":
        model = _build(config, names)
        if "table-question-answering" in model.tasks:  # no head
            model.tasks = ("feature-extraction",)
        return model
    known = read_config(Config, {n: v for n, v in config.items() if n != "architectures"})
    return TableReader(known, describe(known, True), BASE_PREFIX, config)


FAMILY = Family(
    model_types=("tapas",),
    tasks=("table-question-answering", "feature-extraction"),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
