"""Answering: the captured steps by which a model reads and answers; Turn, its conversation."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from collections.abc import Generator as Steps
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import autograd
from rushlight.core.backends import linear_mode
from rushlight.core.backends.coming import Coming
from rushlight.core.jit import jit
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, from_numpy
from rushlight.models.cache import Cache
from rushlight.models.device_sampling import DeviceSampler, Rules
from rushlight.models.model import runs_in_software
from rushlight.models.sampling import Options

if TYPE_CHECKING:
    from rushlight.models.generate import Generator

# What gives values that are on their way, is sent them, and ends with them and what follows.
Hearing = Steps[Coming[Any], Any, tuple[Any, "Tensor | None"]]
# Prompts are read this many tokens at a time: bounds memory, and a stop is obeyed in between.
CHUNK = 128
# Where steps of all lengths are captured, prompts are cut into these, the last padded.
WIDTHS = (CHUNK, 32, 8)


class Answering:
    """The cache of one answer, or of several in rows, and the captured steps that read more.

    A step takes the tokens that were picked last from where they are, on the device: the next one
    may begin before anybody here knows them.
    """

    def __init__(self, model: Generator, rows: int = 1) -> None:
        self.cache = cache = model.new_cache(rows)
        # Captured: the cache's shapes stay the same until it grows.
        cache.static = True
        self.sampler = DeviceSampler(model.config.vocab_size, cache.device, rows)
        # Computed on the processor: work counts there, not the number of steps.
        self.software = runs_in_software(cache.device)
        self.linear = "fast"
        self._early = False
        self._stamps = _stamps(model)
        self._read = reader(cache)
        self._next = jit(_stepper(cache, self.sampler), reuse_outputs=True)

    @property
    def ahead(self) -> bool:
        """Whether the next step begins before the last one's tokens are read.

        So the device never waits for Python.
        """
        return self._early and self.cache.longest < self.cache.limit

    def begin(self, options: Options, *prompts: list[int]) -> None:
        """Get ready for answers to `prompts`, one a row, by `options`."""
        self.sampler.begin(options, *prompts)
        self.linear = options.linear
        # A caller's own mask may change with each token that it is given.
        changing = isinstance(options.token_mask, Tensor)
        self._early = self.cache.device.type != "cpu" and not changing

    def goes_on(self, model: Generator, linear: str) -> bool:
        """Whether it serves `model` again, which may have other memory by now.

        What was read by weights that are others since, or in another mode, is forgotten.
        """
        before, self._stamps = self._stamps, _stamps(model)
        if [memory for memory, _ in before] != [memory for memory, _ in self._stamps]:
            return False
        other = linear != self.linear and model.linear_in_use("fast") != "exact"
        if before != self._stamps or other:
            self.restart()
        return True

    def restart(self, length: int = 0) -> None:
        """Forget all but the first `length` tokens."""
        self.cache.truncate(length)

    def heard(self, model: Generator, picked: Tensor, last: bool) -> Hearing:
        """Asks for what was picked; gives it, read, and what is picked by the next step.

        The latter is None unless that step began before; it does not where this is the `last`.
        """
        coming = picked.coming()
        after = self.step(model) if self.ahead and not last else None
        return (yield coming), after

    def step(self, model: Generator) -> Tensor:
        """Read the tokens that were picked last; gives what is picked after them, (rows, 3)."""
        self.cache.reserve(1)
        after = self.cache.longest + 1
        with self._mode():
            picked = self._next(model, self.sampler.rules, self.sampler.mask)
        self.cache.longest = after  # a replay runs no Python
        return picked

    def take(self, model: Generator, left: list[list[int]]) -> tuple[list[int], Tensor]:
        """Read of what is `left` of each row as much as goes together, padded on the right.

        Gives how many tokens of each were read, and the logits (rows, vocab) after them. It is
        left to the caller to say what `cache.longest` is then.
        """
        count, width = cut(self.cache, max(map(len, left)), self.software)
        parts = [row[:count] for row in left]
        self.cache.reserve(width)
        with self._mode():
            logits = self._read(model, parts, width)
        return [len(part) for part in parts], logits

    @contextmanager
    def _mode(self) -> Iterator[None]:
        with autograd.no_grad(), linear_mode(self.linear):
            yield


class Turn(Answering):
    """The tokens of the last turn, with the cache that holds them.

    ids: the tokens that are known to be in the cache. It may hold one more, whose step began
    before the token was read: the next turn cuts it off.
    """

    def __init__(self, model: Generator) -> None:
        super().__init__(model)
        self.ids: list[int] = []

    def restart(self, length: int = 0) -> None:
        """Forget all but the first `length` tokens."""
        super().restart(length)
        del self.ids[length:]

    def feed(self, model: Generator, ids: list[int]) -> Tensor:
        """Read what the cache lacks of `ids`; gives what the sampler picks after the last."""
        while (left := len(ids) - len(self.ids)) > 1:
            logits = self.read(model, ids[-left:])
        if left:
            self.sampler.put(ids[-1])
            picked = self.step(model)
            self.ids.append(ids[-1])
            return picked
        with autograd.no_grad():
            return self.sampler.pick(logits)

    def read(self, model: Generator, part: list[int]) -> Tensor:
        """Read some of the next tokens, as many as go together; gives logits (1, vocab) after."""
        before = self.cache.longest
        (count,), logits = self.take(model, [part])
        self.cache.longest = before + count  # a replay runs no Python, and padding does not count
        self.ids.extend(part[:count])
        return logits


def _stamps(model: Generator) -> list[tuple[weakref.ref[Storage], int]]:
    """The memory of each of the model's tensors, and how often it was written to."""
    found = (t.storage for t in (*model.parameters(), *model.buffers()))
    return [(weakref.ref(storage), storage.version) for storage in found]


def cut(cache: Cache, left: int, software: bool) -> tuple[int, int]:
    """How many of the tokens that are left to read next, and in which width."""
    if cache.device.type == "cpu":
        return min(left, CHUNK), min(left, CHUNK)
    room = cache.limit - cache.longest
    widths = [w for w in WIDTHS if w <= room] or [1]
    if left == 1:
        width = 1
    elif software:  # padding takes as long as tokens
        width = next((w for w in widths if w <= left), widths[-1])
    else:  # a step takes as long whatever its width
        width = min((w for w in widths if w >= left), default=widths[0])
    return min(left, width), width


def reader(cache: Cache) -> Callable[..., Tensor]:
    """A function that reads rows of tokens, padded to a width, and gives logits (rows, vocab).

    A usual width is captured when it is met again: capturing takes as long as several runs.
    """

    def read(model: Generator, ids: Tensor, real: Tensor | None) -> Tensor:
        out: Tensor = model(ids, cache, last=True, real=real)[:, -1]
        return out

    # Rows that are read wait for the others with their logits.
    captured, device = jit(read, reuse_outputs=cache.batch == 1), cache.device
    # Other lengths are hardly met twice on cpu.
    usual = (CHUNK,) if device.type == "cpu" else WIDTHS
    met: set[int] = set()

    def place(model: Generator, rows: list[list[int]], width: int) -> Tensor:
        padded = [row + [0] * (width - len(row)) for row in rows]
        ids = from_numpy(np.array(padded, np.int64)).to(device)
        real = [len(row) for row in rows]
        given = None
        if device.type != "cpu" or min(real) < width:  # padded or not, one capture serves there
            given = from_numpy(np.array(real, np.int64)).to(device)
        run = captured if width in met else read
        if width in usual:
            met.add(width)
        return run(model, ids, given)

    return place


def _stepper(cache: Cache, sampler: DeviceSampler) -> Callable[..., Tensor]:
    def step(model: Generator, rules: Rules, mask: Tensor | None) -> Tensor:
        return sampler.choose(model(sampler.token, cache, last=True)[:, -1], rules, mask)

    return step
