"""TAPAS (Herzig et al., 2020): tokens of tables, and the cells that answer a question.

Rows and columns of tokens are `token_type_ids` (batch, length, 7): the segment (0 question, 1
table), the column and the row from 1 on (0: none), what was chosen before, the cell's rank in its
column, its rank from the end, and how its number relates to the question's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.text.tables import Reading, TableTokens
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.norms import make_norm
from rushlight.models.small_files import small_json

_COLUMN, _ROW = 1, 2  # of the kinds of types
_UNLIKELY = -10000.0  # a score that is chosen by no one


class TableEmbeddings(nn.Module):
    """Embeddings of words, of their places and of `sizes` kinds of types.

    by_cell: places are counted from the first token of each cell.
    """

    def __init__(self, spec: EncoderSpec, sizes: Sequence[int], by_cell: bool) -> None:
        self.sizes, self.by_cell, self.context = tuple(sizes), by_cell, spec.context
        self.word_embeddings = nn.Embedding(spec.vocab, spec.width)
        self.position_embeddings = nn.Embedding(spec.context, spec.width)
        for i, size in enumerate(self.sizes):
            setattr(self, f"token_type_embeddings_{i}", nn.Embedding(size, spec.width))
        self.LayerNorm = make_norm(spec.width, spec.norm)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, ids: Tensor, types: Tensor | None, seen: Tensor | None) -> Tensor:
        """ids (batch, length), types (batch, length, kinds) -> (batch, length, width).

        Raises ValueError for types of another shape.
        """
        length, shape = ids.shape[1], (*ids.shape, len(self.sizes))
        if types is not None and types.shape != shape:
            raise ValueError(f"tapas: token_type_ids are {types.shape}; they must be {shape}")
        x: Tensor = self.word_embeddings(ids)
        positions: Any = self.position_embeddings
        if types is None or not self.by_cell:
            x = x + positions.weight[:length]
        else:
            at = ops.arange(length, device=ids.device)
            same = _together(types[..., _ROW], types[..., _COLUMN])
            first = ops.where(same, at.reshape(1, 1, -1), at * 0 + length).amin(-1)
            x = x + positions((at - first).clamp(max=self.context - 1))
        for i in range(len(self.sizes)):
            kinds: Any = getattr(self, f"token_type_embeddings_{i}")
            x = x + (kinds.weight[0] if types is None else kinds(types[..., i]))
        out: Tensor = self.dropout(self.LayerNorm(x))
        return out


def _together(rows: Tensor, columns: Tensor) -> Tensor:
    """Whether two tokens are of one cell: (batch, length, length)."""
    same = rows.unsqueeze(1) == rows.unsqueeze(2)
    return same & (columns.unsqueeze(1) == columns.unsqueeze(2))


class TableAnswer(NamedTuple):
    """cells (batch, length): each token's score to be of the answer's cells, one for all tokens of
    a cell; operations (batch, operations): the scores of what is done with the cells, None where
    the checkpoint chooses cells alone.
    """

    cells: Tensor
    operations: Tensor | None


class TableReader(Encoder):
    """TAPAS with its head for questions: `answer` has the scores, `forward` hidden states.

    The head chooses cells of one column, if config.json's select_one_column is true. operations:
    their names. nothing_done: the number of the operation that means none. reading: how tables are
    read.
    """

    tasks = ("table-question-answering", "feature-extraction")
    reading = Reading()

    @nn.layers_on("meta")
    def __init__(
        self, config: Any, spec: EncoderSpec, prefix: str, values: Mapping[str, Any]
    ) -> None:
        super().__init__(config, spec)
        self.prefixed = prefix, frozenset(name for name, _ in self._own_modules())
        self.output_weights = parameter(spec.width)
        self.column_output_weights = parameter(spec.width)
        self.output_bias, self.column_output_bias = parameter(), parameter()
        if config.num_aggregation_labels > 0:
            self.aggregation_classifier = nn.Linear(spec.width, config.num_aggregation_labels)
        labels = values.get("aggregation_labels")
        names = labels if isinstance(labels, Mapping) else {}
        self.operations = tuple(str(names[name]) for name in sorted(names, key=int))
        self.nothing_done = values.get("no_aggregation_label_index")

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and how it reads tables."""
        super().configure(files)
        told = small_json(files, "tokenizer_config.json")

        def number(key: str, default: Any, least: int = 1) -> Any:
            value = told.get(key)
            if value is None:
                return default
            if type(value) not in (int, float) or value < least:
                raise FormatError(
                    f"tokenizer_config.json: {key} is {brief(value)}; it must be at least {least}"
                )
            return int(min(value, 1 << 20))

        limit, sizes = number("model_max_length", 512), self.config.type_vocab_sizes
        self.reading = Reading(
            min(limit, self.context_length),
            number("cell_trim_length", -1, -1),
            told.get("strip_column_names") is True,
            number("min_question_length", 0, 0),
            number("max_question_length", None),
            min(number("max_row_id", limit), sizes[_ROW]),
            min(number("max_column_id", limit), sizes[_COLUMN]),
        )

    def tables(self, names: Sequence[str], rows: Sequence[Sequence[str]]) -> TableTokens:
        """The tokens of a table, which `asked` joins with a question; see `TableTokens`.

        names: of the columns; rows: the texts of cells. ValueError as there, RuntimeError without a
        tokenizer.
        """
        if self.tokenizer is None:
            raise RuntimeError("table-question-answering: the checkpoint has no tokenizer")
        return TableTokens(self.tokenizer, names, rows, self.reading)

    def logits(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """The scores of tokens, as `cells` of `answer`, which says what the arguments are.

        `ids`, `attention_mask`, `token_type_ids` as there; ValueError as there.
        """
        return self.answer(ids, attention_mask, token_type_ids).cells

    def answer(
        self,
        ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> TableAnswer:
        """The scores of cells and operations (Herzig et al., 2020, section 3).

        ids (batch, length) of a question and a table. attention_mask (batch, length): false for
        padding. token_type_ids (batch, length, 7): each token's place in the table. Raises
        ValueError for other shapes.
        """
        c, x = self.config, self(ids, attention_mask, token_type_ids)
        scores = ((x * self.output_weights).sum(-1) + self.output_bias) / c.temperature
        if c.select_one_column:
            scores = self._of_one_column(x, scores, attention_mask, token_type_ids)
        if c.num_aggregation_labels <= 0:
            return TableAnswer(scores, None)
        pooled = self.get_submodule(self.spec.names.pooler)(x)
        return TableAnswer(scores, self.aggregation_classifier(pooled))

    def _of_one_column(
        self, x: Tensor, scores: Tensor, mask: Tensor | None, types: Tensor | None
    ) -> Tensor:
        """The mean scores of cells; those outside the likeliest column are chosen by no one."""
        c, count = self.config, self.config.max_num_columns
        own = (x * self.column_output_weights).sum(-1) + self.column_output_bias
        none = ops.zeros(*scores.shape, dtype="int64", device=x.device)
        rows, columns = (
            none if types is None else types[..., kind].clamp(max=most - 1)
            for kind, most in ((_ROW, c.max_num_rows), (_COLUMN, count))
        )
        same = _together(rows, columns).to(x.dtype)
        tokens = same.sum(-1)  # of each token's cell

        def mean(values: Tensor) -> Tensor:
            return (same @ values.unsqueeze(-1))[..., 0] / tokens

        real = mean(scores * 0 + 1 if mask is None else (mask != 0).to(x.dtype))
        at = ops.arange(count, device=x.device)
        inside = (columns.unsqueeze(-1) == at).to(x.dtype)  # (batch, length, columns)
        # A cell counts once, however many tokens it has.
        cells = (inside * (real / tokens).unsqueeze(-1)).sum(1)
        chances = (inside * (mean(own) * real / tokens).unsqueeze(-1)).sum(1) / (cells + 1e-10)
        absent = ((cells < 0.5) & (at != 0)).to(x.dtype)
        if not c.allow_empty_column_selection:
            absent = absent + (at == 0).to(x.dtype)
        chosen = (chances + _UNLIKELY * absent).argmax(-1, keepdim=True)
        kept = ((columns == chosen) & (columns != 0)).to(x.dtype) * real
        return mean(scores) + _UNLIKELY * (1 - kept)
