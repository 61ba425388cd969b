"""RowSteps: the captured steps of several rows that began with the same prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.backends import linear_mode
from rushlight.core.jit.function import jit
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.sampling import Array, Options

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM


class RowSteps:
    """Rows that go on from the only row of `prompt`, a cache which stays as it is.

    hidden: whether steps return hidden states too.
    """

    def __init__(
        self, model: CausalLM, rows: int, prompt: Cache, options: Options, hidden: bool = False
    ) -> None:
        self.model, self.linear, self.rows = model, options.linear, rows
        self.cache = cache = model.new_cache(rows, options.cache_type)
        cache.static = True
        with autograd.no_grad():
            cache.adopt(prompt)

        def step(model: CausalLM, tokens: Tensor) -> tuple[Tensor, ...]:
            if not hidden:
                return (model(tokens, cache, logits_to_keep=1)[:, -1].float(),)
            states = model.hidden(tokens, cache)[:, -1:]
            return model.logits(states)[:, -1].float(), states[:, -1].float()

        self._step = jit(step, reuse_outputs=True)

    def step(self, tokens: Array) -> tuple[Tensor, ...]:
        """Read the next token of each row: logits (rows, vocab), and states (rows, width)."""
        self.cache.reserve(1)
        before = self.cache.counts
        ids = from_numpy(np.asarray(tokens, np.int64).reshape(self.rows, 1))
        with autograd.no_grad(), linear_mode(self.linear):
            out: tuple[Tensor, ...] = self._step(self.model, ids.to(self.cache.device))
        self.cache.recount(before, 1)
        return out

    def reorder(self, parents: Array) -> None:
        """Continue row parents[i] in row i."""
        if (parents != np.arange(self.rows)).any():
            with autograd.no_grad():
                order = from_numpy(np.asarray(parents, np.int64)).to(self.cache.device)
                self.cache.reorder(order)


def check_growth(model: CausalLM, prompt: int, most: int, what: str) -> None:
    """Raise ValueError if the answer would pass the context, or where the angles change."""
    if prompt + most - 1 > model.context_length:
        raise ValueError(
            f"generate: {prompt} tokens and {most} new ones do not fit the context of "
            f"{model.context_length} with {what}; pass fewer max_new_tokens"
        )
    if model.rotary.jumps(prompt, prompt + most):
        raise ValueError(
            f"generate: {prompt} tokens and {most} new ones pass LongRoPE's original context, "
            f"which {what} does not support; pass fewer max_new_tokens"
        )
