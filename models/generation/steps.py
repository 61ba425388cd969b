"""The steps of generation: tokens and readbacks, and a blocking and an async driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from collections.abc import Generator as Steps
from dataclasses import dataclass
from typing import Any

from rushlight.core.backends.readback import Readback


@dataclass(frozen=True)
class Token:
    """One step of generation: a token, the text that it completed, and why it was the last.

    logprob: the logarithm of the token's probability by the model; of beams the mean over the
    answer. top: the likeliest tokens with
    theirs, as many as the option logprobs says. stopped: "" for a token that is
    not the last, else "eos", "stop" (a stop text or token), "length" (max_new_tokens)
    or "repetition" (an answer about pictures that repeats itself).
    """

    id: int
    text: str
    logprob: float
    stopped: str = ""
    top: tuple[tuple[int, float], ...] = ()


# Yields tokens and readbacks, and is sent the values of each readback.
GenerationSteps = Steps[Token | Readback[Any], Any, None]


def blocking(steps: GenerationSteps) -> Steps[Token, None, None]:
    """The tokens of `steps`; each readback blocks."""
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


async def waiting(steps: GenerationSteps) -> AsyncGenerator[Token, None]:
    """The tokens of `steps`; each readback is awaited."""
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


def _sent(steps: GenerationSteps, values: Any) -> Token | Readback[Any] | None:
    try:
        return steps.send(values)
    except StopIteration:
        return None


def texts(tokens: Steps[Token, None, None]) -> Steps[str, None, None]:
    """The text that the tokens complete, piece by piece."""
    for token in tokens:
        if token.text:
            yield token.text
