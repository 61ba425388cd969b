"""DecodeSession: a cache with captured steps; ChatSession: the session of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Generator as Steps
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import linear_mode
from rushlight.core.backends.readback import Readback
from rushlight.core.jit.function import jit
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.cache_spec import Latent
from rushlight.models.generation.change_detector import ChangeDetector
from rushlight.models.generation.device_sampling import DeviceSampler, Rules
from rushlight.models.generation.pictures import (
    Pictured,
    PicturePrompt,
    Places,
    plain_ids,
    row_of,
)
from rushlight.models.generation.prefix_cache import LEAST, shared
from rushlight.models.generation.sampling import Array, Options
from rushlight.models.model import runs_in_software

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM

# Yields a readback, is sent its values, and returns them and the next step's picks.
ReadSteps = Steps[Readback[Any], Any, tuple[Any, "Tensor | None"]]
# Tokens of a prompt per step. This bounds memory, and a stop is obeyed between steps.
CHUNK = 128
# On asynchronous devices prompts are cut into these widths, the last part padded, so that prompts
# of all lengths share captures.
WIDTHS = (CHUNK, 32, 8)
# Wider ones, for GPUs that are quick enough for a step of them to end in time, and for compressed
# rows (see longest_part).
WIDER = (512, 256)


class DecodeSession:
    """The cache of one answer, or of several as rows, and the captured steps that extend it.

    A step's input is the last picks in the device's memory, so it can begin before they are read
    back.
    """

    def __init__(self, model: CausalLM, rows: int = 1, cache_type: str = "float32") -> None:
        self.cache = cache = model.new_cache(rows, cache_type)
        # For capture: the cache's shapes stay the same until it grows.
        cache.static = True
        self.sampler = DeviceSampler(model.vocab_size, cache.device, rows, model.tokenizer)
        # On a CPU the amount of work counts, not the number of steps.
        self.software = runs_in_software(cache.device)
        self.activation_precision = "fast"
        self._early = False
        self._changed = ChangeDetector(model)
        self._read = reader(cache)
        self.places: Sequence[Places] = [None] * rows  # of each row's prompt, where it has pictures
        self._next = jit(_stepper(cache, self.sampler), reuse_outputs=True)
        self._check = jit(_checker(cache), reuse_outputs=True)

    @property
    def ahead(self) -> bool:
        """Whether the next step is computed before the last one's picks are read back.

        Then the device never waits for Python.
        """
        return self._early and self.cache.longest < self.cache.limit

    def begin(self, options: Options, *prompts: list[int], host: bool = False) -> None:
        """Begin answers to `prompts`, one per row, with `options`.

        host: the picks are logits in any case, which the caller reads and chooses by.
        """
        self.sampler.begin(options, *map(plain_ids, prompts), host=host)
        self.activation_precision = options.linear
        # The caller may change its mask after each token.
        changing = isinstance(options.token_mask, Tensor)
        waits = changing or self.sampler.rules.host
        self._early = self.cache.device.backend.asynchronous and not waits

    def obey(self, allowed: Array) -> None:
        """Follow a mask (rows, vocab), the sampler's, which is written to between tokens."""
        self.sampler.mask = self.sampler.hold("allowed", allowed)
        self._early = False

    def can_resume(self, model: CausalLM, linear: str, cache_type: str = "float32") -> bool:
        """Whether the session can be used again.

        It cannot if a parameter moved to other memory, or the cache has another dtype. The cached
        tokens are discarded if weights were written to or the mode differs.
        """
        moved, written = self._changed.changes(model)
        if moved or self.cache.dtype.name != cache_type:
            return False
        other = linear != self.activation_precision
        if other:
            other = model.linear_in_use(linear) != model.linear_in_use(self.activation_precision)
        if written or other:
            self.restart()
        return True

    def restart(self, length: int = 0) -> None:
        """Forget all but the first `length` tokens."""
        self.cache.truncate(length)

    def expect(self, model: CausalLM, lengths: Sequence[int]) -> None:
        """Say how long the prompts are before their parts are read.

        Room for all of them is made at once: no buffers of half the size remain.
        """
        self.cache.make_room(max(lengths))
        if model.rotary.by_length:
            self.cache.expect(lengths)

    def place(self, model: CausalLM, prompts: Sequence[Sequence[int]]) -> None:
        """Say what the prompts are, for the positions of pictures and of the tokens after them."""
        self.places, shifts = model.places(prompts)
        if self.cache.shift is not None:
            shift = from_numpy(np.array(shifts, np.int64)).to(self.cache.device)
            self.cache.shift.copy_(shift)

    def read_and_advance(self, model: CausalLM, picked: Tensor, last: bool) -> ReadSteps:
        """Read the picks back; returns their values and the next step's picks.

        The next picks are None if that step was not computed ahead, as after the `last` token.
        """
        readback = picked.readback()
        cached = self.cache.longest
        early = self.ahead and not last and not model.rotary.jumps(cached, cached + 1)
        after = self.step(model) if early else None
        return self.sampler.settled((yield readback)), after

    def step(self, model: CausalLM) -> Tensor:
        """Decode the tokens that were picked last; returns the next picks, (rows, 3)."""
        self.cache.reserve(1)
        before = self.cache.counts
        with self._mode():
            picked = self._next(model, self.sampler.rules, self.sampler.mask)
        self.cache.recount(before, 1)
        return picked

    def check(self, model: CausalLM, tokens: list[int], width: int) -> Tensor:
        """Read tokens of the only row in one step; returns the logits (1, n, vocab) after each.

        width: of the step on an asynchronous device, where widths that recur share a capture; its
        further logits are of padding.
        """
        asynchronous = self.cache.device.backend.asynchronous
        room = self.cache.limit - self.cache.longest
        width = min(max(width, len(tokens)), room) if asynchronous else len(tokens)
        self.cache.reserve(width)
        before = self.cache.counts
        ids = from_numpy(np.array([tokens + [0] * (width - len(tokens))], np.int64))
        lengths = from_numpy(np.array([len(tokens)], np.int64)) if asynchronous else None
        with self._mode():
            device = self.cache.device
            logits = self._check(
                model, ids.to(device), None if lengths is None else lengths.to(device)
            )
        self.cache.recount(before, len(tokens))
        return logits

    def take(
        self, model: CausalLM, left: list[list[int]], done: list[int]
    ) -> tuple[list[int], Tensor]:
        """Prefill the first tokens of what is `left` of each row, padded on the right.

        done: how many tokens of its prompt each row has read. Returns how many tokens of each row
        were read now, and the logits (rows, vocab) after them.
        """
        count, width = cut(self.cache, max(map(len, left)), self.software)
        count, width = model.whole_pictures(left, count, width)
        parts = [row[:count] for row in left]
        self.cache.reserve(width)
        before = self.cache.counts
        with self._mode():
            pictured = model.pictured(left, done, count, width, self.places)
            logits = self._read(model, list(map(plain_ids, parts)), width, pictured)
        self.cache.recount(before, count)
        return [len(tokens) for tokens in parts], logits

    @contextmanager
    def _mode(self) -> Iterator[None]:
        with autograd.no_grad(), linear_mode(self.activation_precision):
            yield


class ChatSession(DecodeSession):
    """The tokens of a conversation, with the cache that holds them.

    ids: the known tokens in the cache. The cache may hold one more, computed ahead; the next turn
    discards it.
    """

    def __init__(self, model: CausalLM, cache_type: str = "float32") -> None:
        super().__init__(model, 1, cache_type)
        self.ids: list[int] = []
        self.prefixes, self._products = model.prefix_cache, "exact"
        self.first = 0  # the length of the prompt with which the cached tokens began

    def resume(self, model: CausalLM, ids: list[int]) -> None:
        """Keep the tokens that `ids` begins with, then expect `ids`.

        None are kept if the cache cannot be cut there, or if their rotary angles were those of
        another length.
        """
        lengths = {self.first, max(self.cache.farthest, self.cache.longest), len(ids)}
        if self.ids and len(set(map(model.rotary.at, lengths))) > 1:
            self.restart()
        # The last token is read again, for the logits after it.
        common = shared(self.ids, ids[:-1])
        common = model.kept(common, common == len(ids) - 1 == self.first - 1)
        common = 0 if self.cache.cannot_truncate(common) else common
        if not self._recall(model, ids, common):
            self.restart(common)
        self.first = self.first if self.ids else len(ids)
        self.expect(model, [len(ids)])
        self.place(model, [ids])

    def check(self, model: CausalLM, tokens: list[int], width: int) -> Tensor:
        """Read known tokens in one step; see `DecodeSession.check`."""
        logits = super().check(model, tokens, width)
        self.ids.extend(tokens)
        return logits

    def _recall(self, model: CausalLM, ids: list[int], common: int) -> bool:
        """Go on from a kept beginning of `ids` if it is longer than `common` tokens."""
        prefixes = self.prefixes = model.prefix_cache
        if prefixes is None or isinstance(ids, PicturePrompt) or model.rotary.by_length:
            return False
        prefixes.follow(model)
        linear = self._products = model.linear_in_use(self.activation_precision)
        if len(self.ids) - common >= LEAST:  # they would be lost
            self.keep()
        entry, most = prefixes.best(ids, linear, self.cache.dtype.name)
        if entry is None or most < max(LEAST, common + 1):
            return False
        with autograd.no_grad():
            self.cache.adopt(entry.cache)
        self.ids, self.first = list(entry.ids), entry.first
        self.restart(most)
        return True

    def keep(self) -> None:
        """Put a copy of the cache into the model's PrefixCache, if it has one."""
        if self.prefixes is not None and not any(map(row_of, self.ids)):
            self.prefixes.put(self.ids, self.cache, self._products, self.first)

    def _keep_if_lost(self) -> None:
        """The same where the cache cannot be cut back to these tokens later."""
        if self.prefixes is not None and self.cache.cannot_truncate(max(1, len(self.ids) - 1)):
            self.keep()

    def reread(self, model: CausalLM, ids: list[int]) -> Tensor:
        """Forget all tokens and read `ids`; returns the picks after the last."""
        self.restart()
        self.resume(model, ids)
        return self.feed(model, ids)

    def restart(self, length: int = 0) -> None:
        """Forget all but the first `length` tokens."""
        super().restart(length)
        del self.ids[length:]

    def feed(self, model: CausalLM, ids: list[int]) -> Tensor:
        """Read the tokens of `ids` that are not cached; returns the picks after the last."""
        # A step takes a token id: the row of a picture that ends a prompt is read.
        while (left := len(ids) - len(self.ids)) > 1 or (left and row_of(ids[-1])):
            logits = self.read(model, ids[-left:])
        if left:
            self.sampler.set_token(plain_ids(ids[-1:])[0])
            picked = self.step(model)
            self.ids.append(ids[-1])
        else:
            with autograd.no_grad():
                picked = self.sampler.pick(logits)
        self._keep_if_lost()
        return picked

    def read(self, model: CausalLM, part: list[int]) -> Tensor:
        """Prefill the first tokens of `part` in one step; returns the logits (1, vocab) after."""
        (count,), logits = self.take(model, [part], [len(self.ids)])
        before = len(self.ids)
        self.ids.extend(part[:count])
        if self.prefixes is not None and before // self.prefixes.every != (
            len(self.ids) // self.prefixes.every
        ):
            self._keep_if_lost()
        return logits


def widths_on(cache: Cache) -> tuple[int, ...]:
    """The widths of a prompt's parts on an asynchronous device, the widest first."""
    wide = cache.device.info.get("type") == "DiscreteGPU" or longest_part(cache) > CHUNK
    return (*WIDER, *WIDTHS) if wide else WIDTHS


def cut(cache: Cache, left: int, software: bool) -> tuple[int, int]:
    """The number of tokens that the next step reads, of `left`, and its padded width."""
    if not cache.device.backend.asynchronous:
        return min(left, longest_part(cache)), min(left, longest_part(cache))
    room = cache.limit - cache.longest
    widths = [w for w in widths_on(cache) if w <= room] or [1]
    if left == 1:
        width = 1
    elif software:  # padding costs as much as tokens
        width = next((w for w in widths if w <= left), widths[-1])
    else:  # the time of a step does not depend on its width
        width = min((w for w in widths if w >= left), default=widths[0])
    return min(left, width), width


def longest_part(cache: Cache) -> int:
    """Tokens of a prompt per step on a CPU.

    More with compressed rows, as each step expands those of all tokens.
    """
    return CHUNK * (4 if any(isinstance(spec, Latent) for spec in cache.specs) else 1)


def shifted(ids: list[int], limit: int, sinks: int) -> list[int]:
    """The first `sinks` tokens and the newest half of the context."""
    half = max(1, limit // 2)
    sinks = max(0, min(sinks, limit - half - 1))
    return ids[:sinks] + ids[-half:] if len(ids) > sinks + half else ids


def reader(cache: Cache) -> Callable[..., Tensor]:
    """A function that reads rows of tokens, padded to a width, and returns logits (rows, vocab).

    A usual width is captured when it occurs again: a capture takes as long as several runs.
    """

    def forward(
        model: CausalLM, ids: Tensor, lengths: Tensor | None, more: dict[str, Any]
    ) -> Tensor:
        out: Tensor = model(ids, cache, logits_to_keep=1, lengths=lengths, **more)[:, -1]
        return out

    # In a batch the logits of rows that end early are kept while other rows are read.
    captured, device = jit(forward, reuse_outputs=cache.batch == 1), cache.device
    # On cpu other lengths seldom occur twice.
    usual = widths_on(cache) if device.backend.asynchronous else (longest_part(cache),)
    seen: set[tuple[int | str, ...]] = set()

    def read(
        model: CausalLM, rows: list[list[int]], width: int, pictured: Pictured = None
    ) -> Tensor:
        padded = [row + [0] * (width - len(row)) for row in rows]
        ids = from_numpy(np.array(padded, np.int64)).to(device)
        counts = [len(row) for row in rows]
        lengths = None
        # On an asynchronous device padded and whole rows share one capture.
        if device.backend.asynchronous or min(counts) < width:
            lengths = from_numpy(np.array(counts, np.int64)).to(device)
        kind: tuple[int | str, ...] = (width, *sorted(pictured or ()))
        run = captured if kind in seen else forward
        if width in usual:
            seen.add(kind)
        return run(model, ids, lengths, {} if pictured is None else {"pictured": pictured})

    return read


def _checker(cache: Cache) -> Callable[..., Tensor]:
    def check(model: CausalLM, ids: Tensor, lengths: Tensor | None) -> Tensor:
        out: Tensor = model(ids, cache, lengths=lengths).float()
        return out

    return check


def _stepper(cache: Cache, sampler: DeviceSampler) -> Callable[..., Tensor]:
    def step(model: CausalLM, rules: Rules, mask: Tensor | None) -> Tensor:
        return sampler.choose(model(sampler.token, cache, logits_to_keep=1)[:, -1], rules, mask)

    return step
