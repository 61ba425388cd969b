"""The task table-question-answering: the cells of a table that answer a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.core.io.text.tables import COLUMN, ROW, TableRow
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import from_numpy
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task, as_list

_LIKELY = 0.5  # the least probability of a cell of the answer, which is not enough
Cells = dict[tuple[int, int], float]


def run(model: Any, given: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """{"answer", "coordinates", "cells", "aggregator"} of each question, a list for several.

    coordinates are [row, column] of the cells whose probability is more than a half, from 0 on
    (Herzig et al., 2020). aggregator: the name of what is done with them, where the model has a
    head for it. sequential: each question after the first is read with the answer before it.
    ValueError for a table without rows, for an empty query, and for more tokens than the model
    reads.
    """
    asked = [given] if isinstance(given, Mapping) else list(given)
    total = sum(len(as_list(question["query"])) for question in asked)
    answers: list[Any] = []
    done = 0
    for number, question in enumerate(asked):
        names, rows = _columns(question["table"], number)
        queries, table = as_list(question["query"]), model.tables(names, rows)
        for query in queries:
            if not query:
                raise ValueError("table-question-answering: a query is empty")
        size, own = 1 if options["sequential"] else options["batch_size"], []
        before: dict[tuple[int, int], bool] | None = None
        for start in range(0, len(queries), size):
            some = [table.asked(query, before) for query in queries[start : start + size]]
            cells, operations = yield from _read(model, some)
            before = {place: share > _LIKELY for place, share in cells[-1].items()}
            if not options["sequential"]:
                before = None
            own += [_told(model, rows, *both) for both in zip(cells, operations, strict=True)]
            done += len(some)
            yield Progress("answer", done, total)
        answers.append(own[0] if isinstance(question["query"], str) else own)
    return answers[0] if isinstance(given, Mapping) else answers


def _columns(table: Any, number: int) -> tuple[list[str], list[list[str]]]:
    """The names of columns and the rows of cells; ValueError for columns of several lengths."""
    if isinstance(table, Mapping):
        names, columns = list(table), [list(cells) for cells in table.values()]
        lengths = {len(cells) for cells in columns}
        if len(lengths) > 1:
            raise ValueError(
                f"table-question-answering: the columns of table {number} have {sorted(lengths)} "
                "cells; they must have as many"
            )
        rows = [list(row) for row in zip(*columns, strict=True)]
    else:
        names = list(dict.fromkeys(name for row in table for name in row))
        for row in table:
            if len(row) < len(names):
                lacking = next(name for name in names if name not in row)
                raise ValueError(
                    f"table-question-answering: a row of table {number} has no {lacking!r}; each "
                    "row must have a text for every column"
                )
        rows = [[row[name] for name in names] for row in table]
    if not rows or not names:
        raise ValueError(f"table-question-answering: table {number} is empty")
    return names, rows


def _read(model: Any, some: list[TableRow]) -> Run:
    """The probabilities of cells, and the scores of operations or None, for each row of tokens."""
    length = max(len(row.ids) for row in some)
    if length > model.context_length:
        raise ValueError(
            f"table-question-answering: a question and the names of the columns have {length} "
            f"tokens; the model reads {model.context_length}"
        )
    ids = np.full((len(some), length), model.tokenizer.pad_id or 0, np.int64)
    mask = np.zeros((len(some), length), np.int64)
    types = np.zeros((len(some), length, len(model.config.type_vocab_sizes)), np.int64)
    for i, row in enumerate(some):
        ids[i, : len(row.ids)], mask[i, : len(row.ids)] = row.ids, 1
        types[i, : len(row.ids)] = row.types[:, : types.shape[2]]
    with autograd.no_grad():
        scored = model.answer(*(from_numpy(x).to(model.device) for x in (ids, mask, types)))
    scores = np.asarray((yield scored.cells.float().readback()), np.float64)
    shares = 1 / (1 + np.exp(-np.maximum(scores, -88.7)))
    kinds: list[Any] = [None] * len(some)
    if scored.operations is not None:
        kinds = list(np.asarray((yield scored.operations.float().readback())))
    return [
        _of_cells(share[: len(row.ids)], row) for share, row in zip(shares, some, strict=True)
    ], kinds


def _of_cells(shares: NDArray[Any], row: TableRow) -> Cells:
    """By row and column: the mean probability of a cell's tokens."""
    by_cell: dict[tuple[int, int], list[float]] = {}
    inside = (row.types[:, COLUMN] > 0) & (row.types[:, ROW] > 0)
    for i in np.flatnonzero(inside).tolist():
        place = int(row.types[i, ROW]) - 1, int(row.types[i, COLUMN]) - 1
        by_cell.setdefault(place, []).append(float(shares[i]))
    return {place: float(np.mean(values)) for place, values in by_cell.items()}


def _told(model: Any, rows: list[list[str]], cells: Cells, operations: Any) -> dict[str, Any]:
    places = sorted(place for place, share in cells.items() if share > _LIKELY)
    texts = [rows[row][column] for row, column in places]
    text, coordinates = ", ".join(texts), [list(place) for place in places]
    answer = {"answer": text, "coordinates": coordinates, "cells": texts}
    if operations is None or not model.operations:
        return answer
    best = int(np.argmax(operations))
    name = model.operations[best] if best < len(model.operations) else f"LABEL_{best}"
    before = "" if best == model.nothing_done else f"{name} > "
    return {**answer, "answer": before + text, "aggregator": name}


TASK = Task(
    name="table-question-answering",
    summary="Find the cells of a table that answer a question.",
    input=Input("tables", "tables", "The table and the question, or several of them."),
    output="value",
    run=run,
    options=(
        Option("sequential", "bool", False, "Each question follows the answer before it."),
        Option("batch_size", "int", 8, "Questions computed at a time.", least=1),
    ),
    command=Command("tables", ""),
)
