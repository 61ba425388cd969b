"""Turn: what a model has read of a conversation, and the captured step that reads more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.core.convert import tensor
from rushlight.core.jit import jit
from rushlight.core.tensor import Tensor
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
        # Captured on the CPU: the cache's shapes stay the same until it grows.
        cache.static = cache.device.type == "cpu"
        self.step = jit(_stepper(cache), reuse_outputs=True)

    def read(self, model: Generator, part: list[int]) -> Tensor:
        """Feed the next tokens; gives the logits (vocab,) after the last."""
        self.cache.reserve(len(part))
        after = self.cache.longest + len(part)
        ids = tensor([part], device=model.device)
        # Other lengths are hardly met twice.
        step = self.step if len(part) in (1, CHUNK) else _stepper(self.cache)
        logits = step(model, ids)
        self.cache.longest = after  # a replay runs no Python
        self.ids.extend(part)
        return logits


def _stepper(cache: Cache) -> Callable[[Generator, Tensor], Tensor]:
    def step(model: Generator, ids: Tensor) -> Tensor:
        out: Tensor = model(ids, cache, last=True)[0, -1]
        return out

    return step
