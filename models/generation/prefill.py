"""Prefill in short steps, for callers that check for a stop or show progress."""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence

from rushlight.models.generation.generate import CausalLM
from rushlight.models.generation.session import CHUNK, longest_part, widths_on


def read_ahead(
    model: CausalLM,
    prompt: str | Sequence[int],
    chunk: int = CHUNK,
    linear: str = "fast",
    cache_type: str = "float32",
) -> Steps[int, None, None]:
    """Read a prompt `chunk` tokens at a time and yield the number of tokens read so far.

    A later `model.tokens` of the same prompt starts at once. Callers use this to check for a stop
    or to show progress during a long prompt. A prompt past the context, or one that must be read at
    once, is left to `tokens`.
    linear, cache_type: as in `sampling.Options`.
    """
    ids = model.prompt_ids(prompt)
    if len(ids) >= model.context_length or model.reads_at_once:
        return
    session = model._resume(ids, linear, cache_type)
    session.activation_precision = linear
    # On a GPU the time of a step does not depend on its width, and compressed rows are all expanded
    # in each step: then a step takes all it can.
    if not session.software or longest_part(session.cache) > CHUNK:
        chunk = widths_on(session.cache)[0]
    try:
        yield len(session.ids)
        while (done := len(session.ids)) < len(ids) - 1:
            end = min(done + chunk, len(ids) - 1)
            end = done + model.whole_pictures([ids[done:]], end - done, 0)[0]
            if end == len(ids):
                return
            while len(session.ids) < end:
                session.read(model, ids[len(session.ids) : end])
            yield end
    finally:
        model._session = session
