"""Turn: what a model has read of a conversation, and the captured step that reads more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.jit import jit
from rushlight.core.tensor import Tensor, from_numpy
from rushlight.models.cache import Cache

if TYPE_CHECKING:
    from rushlight.models.generate import Generator

# Prompts are read this many tokens at a time: bounds memory, and a stop is obeyed in between.
CHUNK = 128


class Turn:
    """The tokens of the last turn, the cache that holds them, and the step that reads more."""

    def __init__(self, cache: Cache) -> None:
        self.ids: list[int] = []
        self.cache = cache
        cache.static = True  # its shapes stay the same until it grows, as captures ask for
        self.step = jit(_stepper(cache), reuse_outputs=True)
        # What the step does with the logits, in the same capture; None gives them as they are.
        self.pick: Callable[[Tensor], Tensor] | None = None

    def read(self, model: Generator, part: list[int]) -> Tensor:
        """Feed the next tokens; gives the logits (vocab,) after the last, or what `pick` does."""
        self.cache.reserve(len(part))
        after = self.cache.longest + len(part)
        ids = from_numpy(np.array([part], np.int64)).to(self.cache.device)
        # Other lengths are hardly met twice.
        step = self.step if len(part) in (1, CHUNK) else _stepper(self.cache)
        logits = step(model, ids, self.pick)
        self.cache.longest = after  # a replay runs no Python
        self.ids.extend(part)
        return logits


def _stepper(cache: Cache) -> Callable[..., Tensor]:
    def step(model: Generator, ids: Tensor, pick: Callable[[Tensor], Tensor] | None) -> Tensor:
        out: Tensor = model(ids, cache, last=True)[0, -1]
        return out if pick is None else pick(out)

    return step
