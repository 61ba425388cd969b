"""Batch: several prompts that are continued together, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.functional.joining import stack
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.sampling import Array, Options
from rushlight.models.generation.session import DecodeSession
from rushlight.models.generation.streaming import Telling

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM


class Row:
    """One prompt of a batch: its tokens, how many of them are cached, and its text so far."""

    def __init__(self, model: CausalLM, ids: list[int], options: Options) -> None:
        model.check_length(ids, options)
        prompt_length, more = len(ids), options.most(len(ids))
        if model.rotary.jumps(prompt_length, prompt_length + more - 1):
            raise ValueError(
                f"generate_batch: {prompt_length} tokens and {more} new ones pass LongRoPE's "
                "original context; generate the prompts one by one, or pass fewer max_new_tokens"
            )
        self.ids, self.held = ids, 0
        self.telling = Telling(model.tokenizer, options, len(ids))
        self.texts: list[str] = []
        self.done = False

    def add(self, token: int, complete: bool = False) -> None:
        """Append `token`; the row is done at an end token, a stop text, or its last token.

        complete: nothing may follow.
        """
        told = self.telling.add(token, 0.0, complete=complete)
        self.texts.append(told.text)
        self.done = bool(told.stopped)


class Batch(DecodeSession):
    """Rows that are decoded together: first the prompts, then one token of each row per step.

    A finished row stays in the steps, which are captured for all rows, with its length reset to
    zero. The other rows are always longer, so it never fills the cache.
    """

    rows: Sequence[Row] = ()

    def start(self, model: CausalLM, rows: list[Row], options: Options) -> None:
        """Begin with other rows; their number must be the batch's."""
        self.rows = rows
        self.restart()
        self.begin(options, *(row.ids for row in rows))
        self.expect(model, [len(row.ids) for row in rows])
        self.place(model, [row.ids for row in rows])

    @property
    def done(self) -> bool:
        """Whether every row is done."""
        return all(row.done for row in self.rows)

    def feed(self, model: CausalLM) -> Tensor:
        """Prefill the prompts; returns the sampler's picks after them, (rows, 3)."""
        after: dict[int, Tensor] = {}
        while any(left := [row.ids[row.held :] for row in self.rows]):
            counts, logits = self.take(model, left, [row.held for row in self.rows])
            for i, count in enumerate(counts):
                if count:
                    self.rows[i].held += count
                    after[i] = logits[i]
            self.cache.longest = max(row.held for row in self.rows)
        with autograd.no_grad():
            return self.sampler.pick(stack([after[i] for i in range(len(self.rows))]))

    def step(self, model: CausalLM) -> Tensor:
        """Decode the tokens that were picked last; returns the next picks, (rows, 3)."""
        picked = super().step(model)
        for row in self.rows:
            row.held += 1
        return picked

    def add(self, values: Array, complete: Sequence[bool] = ()) -> None:
        """Append the sampler's picks (rows, 3), as read back, to the rows that are not done.

        complete: for each row whether its answer has ended with this pick.
        """
        ended = False
        for i, (row, picks) in enumerate(zip(self.rows, values, strict=True)):
            if not row.done:
                row.add(self.sampler.token_of(picks)[0], bool(complete) and complete[i])
                if row.done:
                    row.held, ended = 0, True
        if ended and not self.done:
            self.cache.set_lengths([row.held for row in self.rows])
