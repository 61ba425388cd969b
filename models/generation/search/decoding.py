"""DecodingSession: the captured steps of a decoder for rows of answers to encoded sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import linear_mode
from rushlight.core.backends.readback import Readback
from rushlight.core.jit.function import executable_memory, jit
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.memory import Head, Memory
from rushlight.models.model import runs_in_software

if TYPE_CHECKING:
    from rushlight.models.generation.text_to_text import Seq2SeqLM

# Sources are padded to multiples of this, so that captures are shared. On a CPU padding costs as
# much as tokens.
STEP = {True: 8, False: 32}
_SESSIONS = 8  # the most that are kept: one for each width of single sentences


def width_of(model: Seq2SeqLM, rows: Sequence[Sequence[int]]) -> int:
    """The padded width of these sources, within the context."""
    longest = max(map(len, rows))
    step = STEP[runs_in_software(model.device)]
    return max(min(-(-longest // step) * step, model.source_limit), longest)


class DecodingSession:
    """The memory of `sources` texts, `width` tokens wide, and a cache with `copies` rows of each.

    width: what `source_width` of the model gave; for pictures a key.
    Its tensors keep their memory, so that later searches of the same size replay its steps.
    """

    def __init__(
        self, model: Seq2SeqLM, sources: int, copies: int, width: Any, cache_type: str
    ) -> None:
        self.size = (sources, copies, width, cache_type)
        self.cache = cache = model.new_cache(sources * copies, cache_type)
        cache.static = True  # for capture: the cache's shapes stay the same until it grows
        self.linear = "fast"
        self._held = memories = list[Memory]()  # one, after `begin`

        def step(model: Seq2SeqLM, tokens: Tensor, head: Head | None) -> Tensor:
            memory = replace(memories[0], head=head)
            return model.decode(tokens, memory, cache, logits_to_keep=1)[:, -1].float()

        def fill(model: Seq2SeqLM, *inputs: Tensor) -> None:
            new = _encoded(model, inputs, copies)
            if memories[0].mask is not None and new.mask is not None:
                memories[0].mask.copy_(new.mask)
            for before, now in zip(memories[0].layers, new.layers, strict=True):
                for a, b in zip(before, now, strict=True):
                    a.copy_(b)

        self._step = jit(step, reuse_outputs=True)
        self._fill = jit(fill)

    @property
    def nbytes(self) -> int:
        """Bytes of the cache and of the memory."""
        layers = [pair for memory in self._held for pair in memory.layers]
        return self.cache.nbytes + sum(k.nbytes + v.nbytes for k, v in layers)

    def begin(self, model: Seq2SeqLM, rows: Sequence[Sequence[int]], pad: int, linear: str) -> None:
        """Encode the sources, and forget the tokens of earlier answers."""
        self.linear = linear
        self.cache.truncate(0)
        placed = model.place_sources(rows, self.size[2], pad)
        with self._mode():
            if self._held:  # a size that occurs again is captured
                self._fill(model, *placed)
            else:
                self._held.append(_encoded(model, placed, self.size[1]))

    def step(self, model: Seq2SeqLM, tokens: Array, head: Head | None) -> Readback[Array]:
        """Decode tokens (rows, n) and begin to read the logits (rows, vocab) after them.

        head: those of its rows alone; see `Memory`.
        """
        count = tokens.shape[1]
        self.cache.reserve(count)
        before = self.cache.counts
        with self._mode():
            logits = self._step(model, from_numpy(tokens).to(model.device), head)
        self.cache.recount(before, count)
        return logits.readback()

    def reorder(self, rows: Array) -> None:
        """Continue row rows[i] in row i."""
        if (rows != np.arange(len(rows))).any():
            with self._mode():
                self.cache.reorder(from_numpy(rows.astype(np.int64)).to(self.cache.device))

    @contextmanager
    def _mode(self) -> Iterator[None]:
        with autograd.no_grad(), linear_mode(self.linear):
            yield


class Sessions:
    """Sessions of earlier searches, for later ones of the same size; the latest comes last."""

    def __init__(self) -> None:
        self._kept: list[DecodingSession] = []

    def take(
        self, model: Seq2SeqLM, sources: int, copies: int, width: Any, cache_type: str
    ) -> DecodingSession:
        """A session for one search, which no other one uses."""
        size = (sources, copies, width, cache_type)
        for i, session in enumerate(self._kept):
            if session.size == size:
                return self._kept.pop(i)
        return DecodingSession(model, *size)

    def give(self, session: DecodingSession) -> None:
        """Keep a session; the oldest ones go where they are too many or too large."""
        self._kept.append(session)
        while len(self._kept) > _SESSIONS or (
            sum(kept_session.nbytes for kept_session in self._kept) > executable_memory()
        ):
            self._kept.pop(0)


def _encoded(model: Seq2SeqLM, inputs: Sequence[Tensor], copies: int) -> Memory:
    def each(x: Tensor) -> Tensor:
        # (sources, ...) -> (sources * copies, ...)
        many = x.unsqueeze(1).expand(x.shape[0], copies, *x.shape[1:])
        return many.reshape(-1, *x.shape[1:]).clone()

    memory = model.memory_of(*inputs)
    mask = None if memory.mask is None else each(memory.mask)
    return Memory(tuple((each(k), each(v)) for k, v in memory.layers), mask)
