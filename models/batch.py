"""Batch: several prompts that are continued together, a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core import autograd
from rushlight.core.ops import stack
from rushlight.core.tensor import Tensor
from rushlight.models.sampling import Array, Options
from rushlight.models.streaming import Pieces
from rushlight.models.turn import Answering

if TYPE_CHECKING:
    from rushlight.models.generate import Generator


class Row:
    """One prompt of a batch: its tokens, how many the cache holds, and its text so far."""

    def __init__(self, model: Generator, ids: list[int], options: Options) -> None:
        model.check_length(ids, options)
        self.ids, self.held = ids, 0
        self.pieces = Pieces(model.tokenizer, options.stops)
        self.texts: list[str] = []
        self.done = False

    def add(self, token: int, ends: frozenset[int], last: bool) -> None:
        """Go on by `token`; done by one of `ends`, by a stop text, or where it is the last."""
        text, hit = ("", False) if token in ends else self.pieces.add(token)
        self.done = token in ends or hit or last
        self.texts.append(text if hit or not self.done else text + self.pieces.finish())


class Batch(Answering):
    """Rows that are read together: the prompts, each at its pace, then all a token at a time.

    A row that is done stays in the steps, which are captured for all of them, from an empty
    beginning: the others are always longer, so that it never fills the cache.
    """

    rows: Sequence[Row] = ()

    def start(self, rows: list[Row], options: Options) -> None:
        """Get ready for other rows, as many as it was made for."""
        self.rows = rows
        self.restart()
        self.begin(options, *(row.ids for row in rows))

    @property
    def done(self) -> bool:
        """Whether every row is."""
        return all(row.done for row in self.rows)

    def feed(self, model: Generator) -> Tensor:
        """Read the prompts; gives what the sampler picks after them, (rows, 3)."""
        after: dict[int, Tensor] = {}
        while any(left := [row.ids[row.held :] for row in self.rows]):
            counts, logits = self.take(model, left)
            for i, count in enumerate(counts):
                if count:
                    self.rows[i].held += count
                    after[i] = logits[i]
            self.cache.longest = max(row.held for row in self.rows)
        with autograd.no_grad():
            return self.sampler.pick(stack([after[i] for i in range(len(self.rows))]))

    def step(self, model: Generator) -> Tensor:
        """Read the tokens that were picked last; gives what is picked after them, (rows, 3)."""
        picked = super().step(model)
        for row in self.rows:
            row.held += 1
        return picked

    def add(self, values: Array, ends: frozenset[int], last: bool) -> None:
        """Go on by what the sampler picked, (rows, 3), read: all rows but those that are done."""
        ended = False
        for row, found in zip(self.rows, values, strict=True):
            if not row.done:
                row.add(self.sampler.taken(found)[0], ends, last)
                if row.done:
                    row.held, ended = 0, True
        if ended and not self.done:
            self.cache.set_lengths([row.held for row in self.rows])
