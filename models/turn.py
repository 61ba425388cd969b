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
        self._reading = _reader(cache)
        self._read = jit(self._reading, reuse_outputs=True)
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
        count, width = self._cut(len(part))
        part = part[:count]
        self.cache.reserve(width)
        after = self.cache.longest + count
        ids = from_numpy(np.array([part + [0] * (width - count)], np.int64)).to(self.cache.device)
        # Other lengths are hardly met twice.
        captured = width in WIDTHS if self.cache.device.type != "cpu" else width == CHUNK
        with self._mode():
            logits = (self._read if captured else self._reading)(model, ids, self._real(count))
        self.cache.longest = after  # a replay runs no Python, and padding does not count
        self.ids.extend(part)
        return logits

    def _cut(self, left: int) -> tuple[int, int]:
        """How many of the tokens that are left to read next, and in which width."""
        device = self.cache.device
        if device.type == "cpu":
            return min(left, CHUNK), min(left, CHUNK)
        room = self.cache.limit - self.cache.longest
        widths = [w for w in WIDTHS if w <= room] or [1]
        if self.software:  # padding takes as long as tokens
            width = next((w for w in widths if w <= left), widths[-1])
        else:  # a step takes as long whatever its width
            width = min((w for w in widths if w >= left), default=widths[0])
        return min(left, width), width

    def _real(self, count: int) -> Tensor | None:
        if self.cache.device.type == "cpu":
            return None
        return from_numpy(np.array([count], np.int64)).to(self.cache.device)

    @contextmanager
    def _mode(self) -> Iterator[None]:
        with autograd.no_grad(), linear_mode(self.linear):
            yield


def _reader(cache: Cache) -> Callable[..., Tensor]:
    def read(model: Generator, ids: Tensor, real: Tensor | None) -> Tensor:
        out: Tensor = model(ids, cache, last=True, real=real)[0, -1]
        return out

    return read


def _stepper(cache: Cache, sampler: DeviceSampler) -> Callable[..., Tensor]:
    def step(model: Generator, rules: Rules, mask: Tensor | None) -> Tensor:
        return sampler.choose(model(sampler.token, cache, last=True)[0, -1], rules, mask)

    return step
