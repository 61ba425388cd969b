"""A question and a table as one row of tokens, as TAPAS reads them (Herzig et al., 2020)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rushlight.core.io.text.quantities import (
    column_quantities,
    normalized,
    quantities_in,
    ranks,
    relations,
)
from rushlight.core.io.text.tokenizer import Tokenizer

KINDS = (
    7  # numbers of a token: segment, column, row, chosen before, rank, rank from the end, relation
)
COLUMN, ROW, BEFORE = 1, 2, 3
_NOTHING = ("n/a", "?", "nan")


@dataclass(frozen=True)
class Reading:
    """How tables are read: the keys of tokenizer_config.json of TAPAS.

    limit: the most tokens, past which the last rows are left out, then the ends of cells. trim: the
    most tokens of a cell; -1 where that depends on the room. headless: the names of columns count
    as empty. shortest and longest: tokens of a question; others are read as no question at all.
    rows, columns: fewer than that many are read.
    """

    limit: int = 512
    trim: int = -1
    headless: bool = False
    shortest: int = 0
    longest: int | None = None
    rows: int = 512
    columns: int = 512


@dataclass(frozen=True)
class TableRow:
    """ids (length,) and types (length, 7) of a question and a table."""

    ids: NDArray[np.int64]
    types: NDArray[np.int64]


class TableTokens:
    """The tokens and quantities of a table, which any question is joined with.

    names: of the columns. rows: the cells' texts. Raises ValueError for a table without a column,
    with rows of other lengths or too many columns, and for a vocabulary without [CLS], [SEP] or
    [EMPTY].
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        names: Sequence[str],
        rows: Sequence[Sequence[str]],
        reading: Reading,
    ) -> None:
        if not names or any(len(row) != len(names) for row in rows):
            raise ValueError(
                f"a table has {len(names)} columns and rows of {sorted({len(r) for r in rows})} "
                "cells; it must have a column, and a cell in each row for each"
            )
        if len(names) >= reading.columns:
            raise ValueError(
                f"a table has {len(names)} columns; the model reads fewer than {reading.columns}"
            )
        self._tokenizer, self._reading = tokenizer, reading
        self._ends = [self._id(name) for name in ("[CLS]", "[SEP]")]
        self._empty = self._id("[EMPTY]")
        heads = [""] * len(names) if reading.headless else list(names)
        cells = [
            self._tokens(text) for text in self._encoded([*heads, *(c for r in rows for c in r)])
        ]
        table = []  # of each token its id, column, row, and the place of its word's first piece
        inner = self._inner({i for cell in cells for i in cell})
        for number, cell in enumerate(cells):
            row, column = divmod(number, len(names))
            first = -1
            for place, id in enumerate(cell):
                first = first if id in inner else place
                table.append((id, column + 1, row, first, place))
        self._table = np.array(table, np.int64).reshape(-1, 5)
        self._columns = [column_quantities([row[i] for row in rows]) for i in range(len(names))]
        self._rows = min(len(rows), reading.rows - 1)

    def _id(self, name: str) -> int:
        id = self._tokenizer.token_to_id(name)
        if id is None:
            raise ValueError(f"the vocabulary has no {name}, which tables are read with")
        return id

    def _encoded(self, texts: list[str]) -> list[list[int] | None]:
        # None for a text that says nothing; an empty one has no tokens.
        speaking = [i for i, text in enumerate(texts) if not _says_nothing(text)]
        rows = self._tokenizer.encode_batch([texts[i] for i in speaking], add_special_tokens=False)
        out: list[list[int] | None] = [None if text else [] for text in texts]
        for i, row in zip(speaking, rows, strict=True):
            out[i] = row.ids
        return out

    def _tokens(self, ids: list[int] | None) -> list[int]:
        return [self._empty] if ids is None else ids

    def _inner(self, ids: set[int]) -> set[int]:
        return {i for i in ids if (self._tokenizer.id_to_token(i) or "").startswith("##")}

    def _room(self, question: int) -> tuple[int, int]:
        """How many rows are read, and how many tokens of a cell, beside so many of a question."""
        reading, table = self._reading, self._table
        longest = int(table[:, 4].max(initial=-1)) + 1
        if reading.trim >= 0:
            longest = min(longest, reading.trim)
        room = reading.limit - question - 2
        for rows in range(self._rows, -1, -1):
            # Of the tokens of these rows, those at each place and before.
            firsts = np.maximum(table[table[:, 2] <= rows, 3], 0)
            counts = np.cumsum(np.bincount(firsts, minlength=longest + 1))
            fitting = counts[: longest + 1] <= room
            fits = longest if fitting.all() else int(np.argmin(fitting))
            if fits == longest or (reading.trim < 0 and fits):
                return rows, fits or 1
            if rows <= 1:
                break
        return 0, 1

    def asked(
        self, question: str, before: Mapping[tuple[int, int], bool] | None = None
    ) -> TableRow:
        """The row of tokens of a question and the table.

        before: by row and column, from 0 on, whether a cell was chosen for the question before.
        It raises nothing.
        """
        (ids,) = self._encoded([question])
        words = self._tokens(ids)
        reading = self._reading
        if len(words) < reading.shortest or len(words) > (reading.longest or len(words)):
            question, words = "", []
        rows, most = self._room(len(words))
        chosen = self._table[(self._table[:, 2] <= rows) & (self._table[:, 3] < most)]
        front = [self._ends[0], *words, self._ends[1]]
        types = np.zeros((len(front) + len(chosen), KINDS), np.int64)
        own = types[len(front) :]
        own[:, 0], own[:, COLUMN], own[:, ROW] = 1, chosen[:, 1], chosen[:, 2]
        values = [v for part in quantities_in(normalized(question)) for v in part]
        for i, column in enumerate(self._columns):
            places, count = ranks(column)
            compared = relations(values, column)
            inside = np.flatnonzero((own[:, COLUMN] == i + 1) & (own[:, ROW] > 0))
            for token in inside.tolist():
                cell = int(own[token, ROW]) - 1
                if cell in places:
                    own[token, 4:6] = places[cell], count + 1 - places[cell]
                own[token, 6] = compared.get(cell, 0)
                own[token, BEFORE] = before is not None and before.get((cell, i), False)
        return TableRow(np.array([*front, *chosen[:, 0].tolist()], np.int64), types)


def _says_nothing(text: str) -> bool:
    text = text.lower().strip()
    return text in _NOTHING or not re.sub(r"[\W_]+", "", text)
