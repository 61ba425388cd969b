"""SpeechState: the captured steps of a decoder that reads encoded audio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import linear_mode
from rushlight.core.jit.function import jit
from rushlight.core.tensor import autograd
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.search.memory import Memory

if TYPE_CHECKING:
    from rushlight.models.layers.speech.skeleton import SpeechModel

# Steps of up to this many tokens are captured; prompts of other lengths seldom occur again.
CAPTURED = 8


class SpeechState:
    """A cache, and `copies` rows of each audio of a memory; `SpeechModel.start` makes it.

    The rows of one audio follow each other and share its keys and values. cache_type: the dtype of
    cached keys and values. linear: the mode of products with quantized weights, see
    `rl.set_linear_mode`.
    """

    def __init__(
        self,
        model: SpeechModel,
        memory: Memory,
        copies: int = 1,
        *,
        cache_type: str = "float32",
        linear: str = "fast",
    ) -> None:
        if copies < 1:
            raise ValueError(f"start: copies is {copies}; it must be at least 1")
        self.model, self.memory, self.copies, self.linear = model, memory, copies, linear
        self.cache_type = cache_type
        batch = memory.layers[0][0].shape[0]
        self.cache = cache = model.new_cache(batch * copies, cache_type)
        cache.static = True  # for capture: the cache's shapes stay the same until it grows
        memory_type = memory.layers[0][0].dtype

        def step(model: SpeechModel, ids: Tensor) -> Tensor:
            return model.decode(ids, memory, cache)

        def fill(model: SpeechModel, states: Tensor) -> None:
            remembered = model.remember(states, memory_type)
            for before, now in zip(memory.layers, remembered.layers, strict=True):
                for a, b in zip(before, now, strict=True):
                    a.copy_(b)

        self._step, self._fill = jit(step, reuse_outputs=True), jit(fill)

    @property
    def rows(self) -> int:
        """The number of rows: the audios' number times `copies`."""
        return self.cache.batch

    @property
    def length(self) -> int:
        """The number of tokens so far."""
        return self.cache.longest

    def fits(
        self,
        states: Tensor,
        copies: int = 1,
        *,
        cache_type: str = "float32",
        memory_type: str = "float32",
        linear: str = "fast",
    ) -> bool:
        """Whether `restart` can take these states: the sizes and the types are the same."""
        keys = self.memory.layers[0][0]
        held_sizes = keys.shape[0], keys.shape[2], keys.dtype.name
        same = held_sizes == (*states.shape[:2], memory_type)
        return same and (self.copies, self.cache_type, self.linear) == (copies, cache_type, linear)

    def restart(self, states: Tensor) -> None:
        """Begin again with other audio of the same size; captured steps stay."""
        self.cache.truncate(0)
        with self._mode():
            self._fill(self.model, states)

    def step(self, ids: Any) -> Tensor:
        """Logits (rows, n, vocab) float32 after further ids (rows, n).

        The next step may overwrite them. Raises ValueError past the context.
        """
        id_tensor = ids if isinstance(ids, Tensor) else tensor(np.asarray(ids, np.int64))
        placed = id_tensor.to(self.cache.device)
        if placed.ndim != 2 or placed.shape[0] != self.rows or not placed.shape[1]:
            raise ValueError(f"step: ids are {placed.shape}; they must be ({self.rows}, n)")
        count = placed.shape[1]
        if self.length + count > self.cache.limit:
            raise ValueError(
                f"step: {self.length + count} tokens do not fit the context of {self.cache.limit}"
            )
        with self._mode():
            if count > CAPTURED:
                return self.model.decode(placed, self.memory, self.cache)
            self.cache.reserve(count)
            before = self.cache.counts
            logits: Tensor = self._step(self.model, placed)
            self.cache.recount(before, count)
        return logits

    def reorder(self, rows: Sequence[int]) -> None:
        """Continue row rows[i] in row i; both must be of the same audio."""
        chosen = np.asarray(rows, np.int64)
        in_order = np.arange(self.rows)
        fits = chosen.shape == in_order.shape and bool(
            (chosen // self.copies == in_order // self.copies).all()
        )
        if not fits:
            raise ValueError(
                f"reorder: rows {list(rows)!r:.80} must name {self.rows} rows, each of its audio; "
                "use select for others"
            )
        if (chosen != in_order).any():
            with self._mode():
                self.cache.reorder(tensor(chosen).to(self.cache.device))

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens of every row."""
        self.cache.truncate(length)

    def select(self, audios: Sequence[int], copies: int | None = None) -> SpeechState:
        """A state of its own that goes on with these audios, by number, and their tokens.

        copies: rows of each; default: as many as now. Only a single row can become several.
        Raises ValueError for other copies, IndexError for audios that there are not.
        """
        wanted, copies_here = self.copies if copies is None else copies, self.copies
        if copies_here not in (1, wanted):
            raise ValueError(f"select: {copies_here} copies cannot become {wanted}")
        count = self.rows // copies_here
        if not audios or not all(0 <= a < count for a in audios):
            raise IndexError(f"select: audios {list(audios)!r:.80} must be some of {count}")
        device, old = self.cache.device, self.cache
        index = tensor(np.asarray(audios, np.int64)).to(device)
        row_numbers = [a * copies_here + c % copies_here for a in audios for c in range(wanted)]
        rows = tensor(np.asarray(row_numbers, np.int64)).to(device)
        with self._mode():
            pairs = self.memory.layers
            memory = Memory(
                tuple((k.index_select(0, index), v.index_select(0, index)) for k, v in pairs)
            )
            new = SpeechState(
                self.model, memory, wanted, cache_type=self.cache_type, linear=self.linear
            )
            new.cache.capacity, (new.cache.longest, new.cache.written) = old.capacity, old.counts
            new.cache.lengths = old.lengths.index_select(0, rows)
            new.cache.buffers = [
                [t.index_select(0, rows) for t in buffers] for buffers in old.buffers
            ]
        return new

    @contextmanager
    def _mode(self) -> Iterator[None]:
        with autograd.no_grad(), linear_mode(self.linear):
            yield
