"""Rows: answers that begin and end at any time, and one captured step for all of them.

A prompt is read in a session of its own; its row is then copied beside those that are written.
There is a table of rows for each power of two; rows move to a larger or a smaller one as they come
and go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator as Steps
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rushlight.core import ops
from rushlight.core.backends import linear_mode
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import int64
from rushlight.core.jit.function import executable_memory, jit
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_rows import copy_row, has_states, vacate
from rushlight.models.generation.device_sampling import DeviceSampler
from rushlight.models.generation.followed import banned
from rushlight.models.generation.generate import CausalLM
from rushlight.models.generation.pictures import PicturePrompt
from rushlight.models.generation.sampling import Options
from rushlight.models.generation.session import ChatSession

# The options of generation that rows follow.
FOLLOWED = frozenset(
    "max_new_tokens temperature top_k top_p min_p repetition_penalty frequency_penalty "
    "presence_penalty logit_bias seed stop linear cache_type".split()
)
_GROWN = 64  # steps after which rows without an answer are emptied again
_GREEDY = Options()
T = TypeVar("T")
# Yields readbacks and is sent their values.
RowSteps = Steps[Readback[Any], Any, None]


def can_join(model: CausalLM, ids: Sequence[int], options: Mapping[str, Any]) -> bool:
    """Whether an answer to `ids` can be a row beside others; those that cannot are run alone.

    It raises nothing.
    """
    length, rotary = len(ids), model.rotary
    more = int(options.get("max_new_tokens", _GREEDY.max_new_tokens))
    return (
        set(options) <= FOLLOWED
        and not isinstance(ids, PicturePrompt)
        and not _forbids(model, options)
        and not model.reads_at_once
        and not rotary.by_length
        and not rotary.jumps(length, length + more)
        and type(model).stuck is CausalLM.stuck
    )


def _forbids(model: CausalLM, options: Mapping[str, Any]) -> bool:
    """Whether the checkpoint asks for rules that need a mask or the host before each token."""
    chosen = model.followed.options(options)
    return bool(banned(chosen)) or chosen.on_host


class Row:
    """An answer that is written beside others: the tokens that it has, and those not yet taken.

    cached: how many tokens of the prompt and the answer the cache holds.
    """

    def __init__(self, options: Options, sampler: DeviceSampler | None, cached: int) -> None:
        self.options, self.sampler, self.cached = options, sampler, cached
        self.last = 0
        self.ready: deque[tuple[int, float] | Exception] = deque()


class _Table:
    """A number of rows with one cache, and the captured step that extends all of them."""

    def __init__(self, model: CausalLM, size: int, cache_type: str) -> None:
        self.cache: Cache = model.new_cache(size, cache_type)
        self.cache.static = True
        self.rows: list[Row | None] = [None] * size
        self.tokens = ops.zeros(size, 1, dtype=int64, device=self.cache.device)
        self.greedy = DeviceSampler(model.vocab_size, self.cache.device, size)
        self.greedy.begin(_GREEDY, *([] for _ in range(size)))
        self._steps = 0
        cache, tokens = self.cache, self.tokens

        def step(model: CausalLM) -> Tensor:
            out: Tensor = model(tokens, cache, logits_to_keep=1)[:, -1].float()
            return out

        self._next = jit(step, reuse_outputs=True)

    def lengths(self) -> list[int]:
        return [0 if row is None else row.cached for row in self.rows]

    def step(self, model: CausalLM) -> RowSteps:
        """Feed each row its last token; its next one becomes ready."""
        self._steps += 1
        if self._steps % _GROWN == 0:
            vacate(self.cache, self.lengths())
        last = [[0 if row is None else row.last] for row in self.rows]
        self.tokens.copy_(from_numpy(np.array(last, np.int64)).to(self.cache.device))
        self.cache.reserve(1)
        before = self.cache.counts
        logits = self._next(model)
        self.cache.recount(before, 1)
        picked = None
        if any(row is not None and row.sampler is None for row in self.rows):
            picked = yield self.greedy.pick(logits).readback()
        for place, row in enumerate(self.rows):
            if row is None:
                continue
            row.cached += 1
            if row.sampler is None:
                assert picked is not None
                choose(row, self.greedy, picked[place])
            else:
                alone = logits[place : place + 1].clone()
                picks = yield row.sampler.pick(alone).readback()
                choose(row, row.sampler, picks[0])


def choose(row: Row, sampler: DeviceSampler, picks: Any) -> None:
    """Let a row go on with the token of a sampler's picks."""
    try:
        token, logprob = sampler.token_of(picks)
    except (FloatingPointError, ValueError) as error:
        row.ready.append(error)
        return
    row.last = token
    row.ready.append((token, logprob))


def wait_for(steps: Steps[Readback[Any], Any, T]) -> T:
    """The result of `steps`; each readback blocks."""
    sent = None
    while True:
        try:
            sent = steps.send(sent).wait()
        except StopIteration as finished:
            result: T = finished.value
            return result


class Rows:
    """The answers of a model that are written together, with one kind of cache.

    linear, cache_type: as in `sampling.Options`, of all rows.
    """

    def __init__(self, model: CausalLM, linear: str, cache_type: str) -> None:
        self.model, self.linear, self.cache_type = model, linear, cache_type
        self._tables: dict[int, _Table] = {}
        self._table: _Table | None = None
        self._samplers: list[DeviceSampler] = []

    @property
    def count(self) -> int:
        """How many answers are written."""
        return 0 if self._table is None else len([r for r in self._table.rows if r is not None])

    @property
    def nbytes(self) -> int:
        """Bytes of the caches."""
        return sum(table.cache.nbytes for table in self._tables.values())

    def join(
        self, session: ChatSession, logits: Tensor, prompt: Sequence[int], options: Options
    ) -> Row:
        """Begin an answer whose prompt `session` has read; logits (1, vocab): those after it.

        The first token is ready at once. The session is only read. ValueError or TypeError for
        options that do not fit, see `sampling.checked`.
        """
        steps = self.join_iter(session, logits, prompt, options)
        return wait_for(steps)

    def join_iter(
        self, session: ChatSession, logits: Tensor, prompt: Sequence[int], options: Options
    ) -> Steps[Readback[Any], Any, Row]:
        """`join`, which yields readbacks and is sent their values.

        `session`, `logits`, `prompt`, `options` and what it raises are as there.
        """
        sampler = self._samplers.pop() if self._samplers else self._new_sampler()
        sampler.begin(options, prompt)
        row = Row(options, sampler, len(session.ids))
        with autograd.no_grad():
            readback = sampler.pick(logits.float()).readback()
        picks = yield readback
        with autograd.no_grad():
            choose(row, sampler, picks[0])
            plain = not sampler.rules.drawn and not any(sampler.rules[1:])
            if plain and sampler.mask is None:
                row.sampler = None  # the likeliest tokens of all rows are found together
                self._samplers.append(sampler)
            place = self._room()
            assert self._table is not None
            copy_row(session.cache, 0, self._table.cache, place, row.cached)
            self._table.rows[place] = row
        return row

    def leave(self, row: Row, session: ChatSession | None, ids: Sequence[int]) -> None:
        """End an answer; `session`, which read its prompt, gets its tokens, the first of `ids`."""
        table = self._table
        assert table is not None
        place = table.rows.index(row)
        with autograd.no_grad():
            held = min(row.cached, len(ids))  # the cache may hold tokens that were not taken
            if session is not None and (held == row.cached or not has_states(table.cache)):
                first = len(session.ids)
                copy_row(table.cache, place, session.cache, 0, held, first)
                session.ids.extend(ids[first:held])
            table.rows[place] = None
            if row.sampler is not None:
                self._samplers.append(row.sampler)
            if self.count:
                vacate(table.cache, table.lengths())  # else the row would grow
                self._fit(self.count)
            else:
                table.cache.truncate(0)
                self._table = None
                if self.nbytes > executable_memory():
                    self._tables.clear()

    def step(self) -> None:
        """Write a token of each answer."""
        wait_for(self.step_iter())

    def step_iter(self) -> RowSteps:
        """`step`, which yields readbacks and is sent their values."""
        assert self._table is not None
        steps, sent = self._table.step(self.model), None
        while True:
            with autograd.no_grad(), linear_mode(self.linear):
                try:
                    readback = steps.send(sent)
                except StopIteration:
                    return
            sent = yield readback

    def _new_sampler(self) -> DeviceSampler:
        return DeviceSampler(self.model.vocab_size, self.model.device)

    def _room(self) -> int:
        """The place of one more row."""
        self._fit(self.count + 1)
        assert self._table is not None
        return self._table.rows.index(None)

    def _fit(self, count: int) -> None:
        """Move all rows to the table for so many; they may be in one of twice the size."""
        size = 1 << (count - 1).bit_length()
        old = self._table
        if old is not None and len(old.rows) in (size, 2 * size):
            return
        if size not in self._tables:
            self._tables[size] = _Table(self.model, size, self.cache_type)
        new = self._tables[size]
        new.cache.truncate(0)
        new.rows = [None] * size
        if old is not None:
            moved = [(i, row) for i, row in enumerate(old.rows) if row is not None]
            for place, (before, row) in enumerate(moved):
                copy_row(old.cache, before, new.cache, place, row.cached)
                new.rows[place] = row
            old.rows = [None] * len(old.rows)
            old.cache.truncate(0)
        self._table = new
