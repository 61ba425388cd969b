"""Reading a prompt ahead of its generation, in steps, for callers that must not wait long."""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence

from rushlight.models.generate import Generator
from rushlight.models.turn import CHUNK


def read_ahead(
    model: Generator, prompt: str | Sequence[int], chunk: int = CHUNK, linear: str = "fast"
) -> Steps[int, None, None]:
    """Read a prompt `chunk` tokens at a time, giving how many have been read after each.

    `model.tokens` of the same prompt then begins at once: for callers that look for a stop, or
    show progress, while a long prompt is read. What does not fit the context is left to `tokens`.
    linear: as in `sampling.Options`.
    """
    ids = model.prompt_ids(prompt)
    if len(ids) >= model.config.max_position_embeddings:
        return
    turn = model._resume(ids, linear)
    turn.linear = linear
    # Where a step takes as long whatever its width, as many tokens as go together.
    chunk = chunk if turn.software else CHUNK
    try:
        yield len(turn.ids)
        while (done := len(turn.ids)) < len(ids) - 1:
            end = min(done + chunk, len(ids) - 1)
            while len(turn.ids) < end:
                turn.read(model, ids[len(turn.ids) : end])
            yield end
    finally:
        model._turn = turn
