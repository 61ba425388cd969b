"""Beam search over several sources at a time, as transformers does it, on arrays of the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.options import SearchOptions

# Added to what must not be chosen.
LOW = np.float32(-1e9)


@dataclass(frozen=True)
class Found:
    """An answer: its new tokens, the end token included, and its score.

    score: the sum of the tokens' log-probabilities; of beams divided by length**length_penalty.
    """

    ids: list[int]
    score: float


class Beams:
    """`num_beams` running sequences and as many finished ones for each of `batch` sources.

    noise(rows, count): Gumbel noise (rows, count) that makes the choice a draw; None: no draw.
    """

    def __init__(
        self,
        batch: int,
        first: list[int],
        limit: int,
        options: SearchOptions,
        noise: Callable[[int, int], Array] | None = None,
    ) -> None:
        self.o, self.first, self.limit, self.noise = options, len(first), limit, noise
        self.ends = np.array(sorted(options.ends), np.int64)
        beams = options.num_beams
        self.rows = np.tile(np.array(first, np.int64), (batch, beams, 1))
        self.scores = np.full((batch, beams), LOW)
        self.scores[:, 0] = 0
        self.found: list[list[list[int]]] = [[[]] * beams for _ in range(batch)]
        self.found_scores = np.full((batch, beams), LOW)
        self.finished = np.zeros((batch, beams), np.bool_)
        self.hopeful = np.ones((batch, 1), np.bool_)
        self.done = False

    def sequences(self) -> list[list[int]]:
        """The running sequences, source by source."""
        flat: list[list[int]] = self.rows.reshape(-1, self.rows.shape[2]).tolist()
        return flat

    def step(self, scores: Array) -> Array:
        """Choose the next tokens by log-probabilities (batch * beams, vocab).

        Returns for each running sequence the row that it continues.
        """
        beams = self.o.num_beams
        batch, vocab, length = len(self.rows), scores.shape[1], self.rows.shape[2]
        total = scores.reshape(batch, beams, vocab) + self.scores[:, :, None]
        total = total.reshape(batch, -1)
        keep = min(max(2, 1 + len(self.ends)) * beams, total.shape[1])
        ranked = total if self.noise is None else total + self.noise(*total.shape)
        best = _largest(ranked, keep)
        top = np.take_along_axis(total, best, 1).astype(np.float32)
        parents, tokens = best // vocab, best % vocab
        longer = np.concatenate([_take(self.rows, parents), tokens[:, :, None]], 2)
        ended = np.isin(tokens, self.ends) | (length + 1 >= self.limit)
        self._finish(longer, top, ended, length)
        running = top + ended * LOW
        order = _largest(running, beams)
        self.rows, self.scores = _take(longer, order), _take(running, order)
        self._look(length + 1, ended)
        parents = _take(parents, order) + np.arange(batch)[:, None] * beams
        return parents.reshape(-1)

    def _finish(self, longer: Array, top: Array, ended: Array, length: int) -> None:
        o, beams = self.o, self.o.num_beams
        just = ended & (np.arange(ended.shape[1]) < beams)
        with np.errstate(over="ignore"):
            scores = top / np.float32((length + 1 - self.first) ** o.length_penalty)
        full = self.finished.all(1, keepdims=True) & (o.early_stopping is True)
        scores = scores + full * LOW + ~self.hopeful * LOW + ~just * LOW
        merged = np.concatenate([self.found_scores, scores], 1)
        flags = np.concatenate([self.finished, just], 1)
        order = _largest(merged, beams)
        for i, chosen in enumerate(order.tolist()):
            old, new = self.found[i], longer[i]
            self.found[i] = [old[j] if j < beams else new[j - beams].tolist() for j in chosen]
        self.found_scores, self.finished = _take(merged, order), _take(flags, order)

    def _look(self, length: int, ended: Array) -> None:
        """Whether a running sequence can still become better than the finished ones."""
        o = self.o
        best = self.limit if o.early_stopping == "never" and o.length_penalty > 0 else length
        possible = self.scores[:, :1] / np.float32((best - self.first) ** o.length_penalty)
        worst = np.where(self.finished, self.found_scores.min(1, keepdims=True), LOW)
        self.hopeful &= (possible > worst).any(1, keepdims=True)
        open_ = not (self.finished.all() and o.early_stopping is True)
        self.done = not (bool(self.hopeful.any()) and open_ and not ended.all())

    def answers(self) -> list[list[Found]]:
        """The best answers of each source, the best first."""
        count, first = self.o.num_return_sequences, self.first
        return [
            [Found(ids[first:], float(score)) for ids, score in zip(rows, scores, strict=True)][
                :count
            ]
            for rows, scores in zip(self.found, self.found_scores, strict=True)
        ]


def _largest(x: Array, count: int) -> Array:
    """Places (rows, count) of the largest values, in descending order; the first of equal ones."""
    if count * 8 < x.shape[1]:  # sort the candidates only
        near = np.argpartition(-x, count - 1, axis=1)
        least = np.take_along_axis(x, near[:, count - 1 : count], 1)
        rows = [_first(row, least[i, 0], count) for i, row in enumerate(x)]
        return np.stack(rows)
    order: Array = np.argsort(-x, axis=1, kind="stable")[:, :count]
    return order


def _first(row: Array, least: Any, count: int) -> Array:
    places = np.flatnonzero(row >= least)
    best: Array = places[np.argsort(-row[places], kind="stable")][:count]
    return best


def _take(x: Array, index: Array) -> Array:
    index = index.reshape(*index.shape, *(1,) * (x.ndim - 2))
    rows: Array = np.take_along_axis(x, index, 1)
    return rows
