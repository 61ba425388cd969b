"""The steps of generation: what each gives, and the two ways of reading what it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from collections.abc import Generator as Steps
from dataclasses import dataclass
from typing import Any

from rushlight.core.backends.coming import Coming


@dataclass(frozen=True)
class Token:
    """One step of generation: the token, the text it completed, and why it was the last, if so.

    logprob: logarithm of the model's own probability of it. stopped: "", "eos", "stop" (a stop
    text) or "length" (max_new_tokens).
    """

    id: int
    text: str
    logprob: float
    stopped: str = ""


# What a run gives, and is sent for each of the values that are on their way.
Asking = Steps[Token | Coming[Any], Any, None]


def blocking(steps: Asking) -> Steps[Token, None, None]:
    """The tokens of some steps, whose tensors are read at once."""
    try:
        item = next(steps, None)
        while item is not None:
            if isinstance(item, Token):
                yield item
                item = next(steps, None)
            else:
                item = _sent(steps, item.wait())
    finally:
        steps.close()


async def waiting(steps: Asking) -> AsyncGenerator[Token, None]:
    """The tokens of some steps, whose tensors are read without blocking."""
    try:
        item = next(steps, None)
        while item is not None:
            if isinstance(item, Token):
                yield item
                await asyncio.sleep(0)
                item = next(steps, None)
            else:
                item = _sent(steps, await item)
    finally:
        steps.close()


def _sent(steps: Asking, values: Any) -> Token | Coming[Any] | None:
    try:
        return steps.send(values)
    except StopIteration:
        return None


def texts(tokens: Steps[Token, None, None]) -> Steps[str, None, None]:
    """What tokens completed of the text, piece by piece."""
    for token in tokens:
        if token.text:
            yield token.text
