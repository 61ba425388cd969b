"""Turn: what a model has read of a conversation, and the captured steps that read more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core import autograd
from rushlight.core.backends import linear_mode
from rushlight.core.jit import jit
from rushlight.core.tensor import Tensor, from_numpy
from rushlight.models.cache import Cache
from rushlight.models.device_sampling import DeviceSampler, Rules
from rushlight.models.model import runs_in_software
from rushlight.models.sampling import Options

if TYPE_CHECKING:
    from rushlight.models.generate import Generator

# Prompts are read this many tokens at a time: bounds memory, and a stop is obeyed in between.
CHUNK = 128
# Where steps of all lengths are captured, prompts are cut into these, the last padded.
WIDTHS = (CHUNK, 32, 8)


class Turn:
    """The tokens of the last turn, the cache that holds them, and the steps that read more.

    ids: the tokens that are known to be in the cache. It may hold one more, whose step began
    before the token was read: the next turn cuts it off.
    """

    def __init__(self, model: Generator) -> None:
        self.ids: list[int] = []
        self.cache = cache = model.new_cache()
        # Captured: the cache's shapes stay the same until it grows.
        cache.static = True
        self.sampler = DeviceSampler(model.config.vocab_size, cache.device)
        # Computed on the processor: work counts there, not the number of steps.
        self.software = runs_in_software(cache.device)
        self.linear = "fast"
        # One step ahead, so that the device never waits for Python.
        self.ahead = False
        self._read = reader(cache, single=True)
        self._next = jit(_stepper(cache, self.sampler), reuse_outputs=True)

    def begin(self, options: Options, prompt: list[int]) -> None:
        """Get ready for an answer to `prompt` by `options`."""
        self.sampler.begin(options, prompt)
        self.linear = options.linear
        # A caller's own mask may change with each token that it is given.
        changing = isinstance(options.token_mask, Tensor)
        self.ahead = self.cache.device.type != "cpu" and not changing

    def restart(self, length: int = 0) -> None:
        """Forget all but the first `length` tokens."""
        self.cache.truncate(length)
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

    def step(self, model: Generator) -> Tensor:
        """Read the token that was picked last; gives what is picked after it."""
        self.cache.reserve(1)
        after = self.cache.longest + 1
        with self._mode():
            picked = self._next(model, self.sampler.rules, self.sampler.mask)
        self.cache.longest = after  # a replay runs no Python
        return picked

    def read(self, model: Generator, part: list[int]) -> Tensor:
        """Read some of the next tokens, as many as go together; gives logits (vocab,) after."""
        count, width = cut(self.cache, len(part), self.software)
        part = part[:count]
        self.cache.reserve(width)
        after = self.cache.longest + count
        padded, real = [part + [0] * (width - count)], [count] if width > count else None
        with self._mode():
            logits = self._read(model, padded, real)[0]
        self.cache.longest = after  # a replay runs no Python, and padding does not count
        self.ids.extend(part)
        return logits

    @contextmanager
    def _mode(self) -> Iterator[None]:
        with autograd.no_grad(), linear_mode(self.linear):
            yield


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


def reader(cache: Cache, *, single: bool) -> Callable[..., Tensor]:
    """A function that reads rows of tokens, and gives logits (batch, vocab) after the last.

    A usual width is captured when it is met again: capturing takes as long as several runs.
    single: there is one row; its steps of one token are Turn's, and its logits are used at once,
    where rows of a batch may wait for others.
    """

    def read(model: Generator, ids: Tensor, real: Tensor | None) -> Tensor:
        out: Tensor = model(ids, cache, last=True, real=real)[:, -1]
        return out

    captured, device = jit(read, reuse_outputs=single), cache.device
    # Other lengths are hardly met twice on cpu.
    usual = (0 if single else 1, *((CHUNK,) if device.type == "cpu" else WIDTHS))
    met: set[int] = set()

    def place(model: Generator, rows: list[list[int]], real: list[int] | None) -> Tensor:
        ids = from_numpy(np.array(rows, np.int64)).to(device)
        if real is None and device.type != "cpu":  # padded or not, one capture serves
            real = [len(row) for row in rows]
        given = None if real is None else from_numpy(np.array(real, np.int64)).to(device)
        width = ids.shape[1]
        run = captured if width in met else read
        if width in usual:
            met.add(width)
        return run(model, ids, given)

    return place


def _stepper(cache: Cache, sampler: DeviceSampler) -> Callable[..., Tensor]:
    def step(model: Generator, rules: Rules, mask: Tensor | None) -> Tensor:
        return sampler.choose(model(sampler.token, cache, last=True)[0, -1], rules, mask)

    return step
