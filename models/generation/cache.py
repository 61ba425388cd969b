"""Cache: the state that each layer of a model keeps of earlier tokens.

Three kinds: keys and values of all tokens or of a window; compressed ones; a recurrent state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.core import ops
from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType, as_dtype, int64, uint8
from rushlight.core.basis.packed import packed_bytes
from rushlight.core.basis.quantized import q8_0
from rushlight.core.ops.attention import cache_write_, pack_rows
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.grad_mode import no_inference
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache_spec import CacheSpec, State, check_packed

# Capacities double from this size, so that few shapes occur.
SMALLEST = 256
# Tokens that a window's buffer holds beyond the window, so that it slides seldom.
SLACK = 128


class Window:
    """State of the buffers of all layers with one window size.

    base: (batch,), the position of the token in the first slot of each row. origin: the value of
    `Cache.written` at which the buffers would have been empty. first: every row holds all its
    tokens from this position on.
    """

    def __init__(self, window: int, layers: list[int], batch: int, device: Device) -> None:
        self.keep, self.layers = window - 1, layers
        self.base = ops.zeros(batch, dtype=int64, device=device)
        self.size = self.origin = self.first = 0


class Cache:
    """The cached tensors of every layer, (batch, heads, slots, features), or its states.

    lengths: (batch,) int64, the number of tokens of each row. Rows may differ: slots past a row's
    length are never read, and the next write overwrites them. longest: the largest length as a
    Python number, so that nothing is read back from the device. static: layers get whole buffers,
    so that shapes stay the same in captured steps. dtype: of keys and values, float or q8_0: rows
    of bytes made by `pack_rows`, for which features must be a multiple of 32 (ValueError). States
    are float32. devices: of each layer's tensors, where these are not on `device`.
    """

    @no_inference()
    def __init__(
        self,
        specs: Sequence[CacheSpec],
        batch: int = 1,
        *,
        limit: int,
        device: Device | str = "cpu",
        dtype: DType | str = "float32",
        devices: Sequence[Device] | None = None,
    ) -> None:
        self.specs, self.batch = tuple(specs), batch
        self.limit, self.dtype = limit, as_dtype(dtype)
        self.packed = self.dtype is q8_0
        if self.packed:
            check_packed(self.specs)
        # Captured runs of layers, where these lie on several devices.
        self.layer_runs: dict[int, Callable[..., Tensor]] = {}
        self.capacity, self.longest, self.static = 0, 0, False
        self.written = 0  # the sum over steps of the longest row's tokens; at least `longest`
        self.lengths = ops.zeros(batch, dtype=int64, device=device)
        self.devices = None if devices is None else tuple(devices)
        self.expected, self.farthest = ops.zeros(batch, dtype=int64, device=device), 0
        # (batch,) int64: what rotary positions are beyond the number of tokens, after pictures.
        self.shift: Tensor | None = None
        self.buffers: list[list[Tensor]] = [
            [ops.zeros(batch, *shape, device=self._at(i)) for shape in spec.shapes]
            if isinstance(spec, State)
            else []
            for i, spec in enumerate(self.specs)
        ]
        widths = {w for w in map(self._window, range(len(self.specs))) if w is not None}
        self.windows = {w: Window(w, self._layers(w), batch, self.device) for w in sorted(widths)}

    def _window(self, layer: int) -> int | None:
        """The window of a layer if it is less than the context, else None."""
        spec = self.specs[layer]
        window = None if isinstance(spec, State) else spec.window
        return window if window is not None and window < self.limit else None

    def _layers(self, window: int | None) -> list[int]:
        """The layers with this window; None: the layers that keep all tokens."""
        return [
            i
            for i, spec in enumerate(self.specs)
            if not isinstance(spec, State) and self._window(i) == window
        ]

    @property
    def device(self) -> Device:
        """The device of the cached tensors; of those on several, that of their lengths."""
        return self.lengths.device

    def _at(self, layer: int) -> Device:
        """The device of a layer's tensors."""
        return self.device if self.devices is None else self.devices[layer]

    def _like(self) -> Cache:
        """An empty cache of the same kind."""
        return Cache(
            self.specs,
            self.batch,
            limit=self.limit,
            device=self.device,
            dtype=self.dtype,
            devices=self.devices,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all cached tensors."""
        return sum(t.nbytes for tensors in self.buffers for t in tensors)

    # Writing: `reserve`, then `write` or `set_state` by each layer, then `advance`.

    def reserve(self, more: int) -> None:
        """Make room for `more` tokens per row. ValueError past the model's context."""
        need = self.longest + more
        if need > self.limit:
            raise ValueError(
                f"cache: {need} tokens do not fit the context of {self.limit}; shorten the "
                'prompt, or pass overflow="shift" to generation'
            )
        self.make_room(need)
        for window in self.windows.values():
            self._fit(window, more)

    def make_room(self, need: int) -> None:
        """Let the layers that keep all tokens hold `need` per row, or the whole context."""
        need = min(need, self.limit)
        if need > self.capacity:
            size = self._size(need, self.limit)
            self._resize(self._layers(None), size, self.longest)
            self.capacity = size  # set last: after an interruption the buffers grow again

    def expect(self, lengths: Sequence[int]) -> None:
        """Say how long each row will be, for rotary positions that depend on it."""
        self.expected.copy_(tensor(list(lengths), dtype=int64, device=self.device))
        self.farthest = max(lengths)

    def _size(self, need: int, most: int) -> int:
        return min(most, max(SMALLEST, 1 << (need - 1).bit_length()))

    @no_inference()
    def _resize(self, layers: list[int], size: int, held: int) -> None:
        for layer in layers:
            spec, old = self.specs[layer], self.buffers[layer]
            assert not isinstance(spec, State)
            dtype = uint8 if self.packed else self.dtype
            new = [
                ops.zeros(
                    self.batch,
                    heads,
                    size,
                    packed_bytes(n) if self.packed else n,
                    dtype=dtype,
                    device=self._at(layer),
                )
                for heads, n in spec.rows
            ]
            for before, now in zip(old, new, strict=False):
                if held:
                    now[:, :, :held] = before[:, :, :held]
            self.buffers[layer] = new

    def _fit(self, window: Window, more: int) -> None:
        """Make room for `more` tokens in a window's buffers: grow them up to a bound, or slide."""
        filled = self.written - window.origin
        most = min(self.limit, window.keep + max(SLACK, more))
        if filled + more > window.size and window.size < most:
            size = self._size(filled + more, most)
            self._resize(window.layers, size, min(filled, window.size))
            window.size = size
        if filled + more > window.size:
            self._slide(window)

    def _slide(self, window: Window) -> None:
        """Move the tokens that are still in each row's window to the front of the buffers."""
        keep = min(window.keep, self.longest)
        base = ops.maximum(self.lengths - window.keep, window.base)
        # (batch, keep): the slot that each token is copied from.
        places = (base - window.base).unsqueeze(1) + ops.arange(keep, device=self.device)
        places = places.clamp(max=window.size - 1)[:, None, :, None]
        for layer in window.layers:
            for t in self.buffers[layer] if keep else ():
                index = places.to(device=t.device)
                index = index.expand(self.batch, t.shape[1], keep, t.shape[3])
                t[:, :, :keep] = t.gather(2, index)
        window.base.copy_(base)
        window.origin = self.written - keep
        window.first = max(window.first, self.longest - window.keep)

    def positions(self, count: int) -> Tensor:
        """(batch, count): the positions of the next tokens of each row."""
        return self.lengths.unsqueeze(1) + ops.arange(count, device=self.device)

    def offsets(self) -> list[Tensor]:
        """For each layer (batch,): the number of tokens of each row in its buffers."""
        by_window = {None: self.lengths} | {
            width: self.lengths - window.base for width, window in self.windows.items()
        }
        return [by_window[self._window(i)] for i in range(len(self.specs))]

    def write(self, layer: int, offset: Tensor, *new: Tensor) -> tuple[Tensor, ...]:
        """Write the next tokens' keys and values, or compressed ones, at each row's `offset`.

        Each of `new` is (batch, heads, n, features). Returns for each the buffer, (batch, heads,
        slots, features), of the cache's dtype; offset 0 is the first slot.
        """
        buffers, window = self.buffers[layer], self._window(layer)
        filled = self.longest if window is None else self.written - self.windows[window].origin
        end = buffers[0].shape[2] if self.static else filled + new[0].shape[2]
        for buffer, t in zip(buffers, new, strict=True):
            cache_write_(buffer, pack_rows(t) if self.packed else t, offset)
        return tuple(buffer[:, :, :end] for buffer in buffers)

    def state(self, layer: int) -> list[Tensor]:
        """The recurrent state of a layer after the tokens so far."""
        return self.buffers[layer]

    def set_state(self, layer: int, *new: Tensor) -> None:
        """Replace a layer's state by the state after the next tokens."""
        for old, t in zip(self.buffers[layer], new, strict=True):
            old.copy_(t)

    def advance(self, count: int, lengths: Tensor | None = None) -> None:
        """Add the written tokens to the lengths: `count` per row, or `lengths` (batch,)."""
        self.lengths.add_(count if lengths is None else lengths)
        self.longest += count
        self.written += count

    def reorder(self, rows: Tensor) -> None:
        """Let each row i go on from what row rows[i] holds; rows: (batch,) int64."""
        counts = [self.lengths, *(window.base for window in self.windows.values())]
        counts += [] if self.shift is None else [self.shift]
        for t in (*counts, *(t for buffers in self.buffers for t in buffers)):
            t.copy_(t.index_select(0, rows.to(device=t.device)))

    @property
    def counts(self) -> tuple[int, int]:
        """`longest` and `written`, for `recount`."""
        return self.longest, self.written

    def recount(self, before: tuple[int, int], count: int) -> None:
        """Set the counts to `before` plus `count`: replays and padding do not count tokens."""
        self.longest, self.written = before[0] + count, before[1] + count

    # Truncating and forking.

    def cannot_truncate(self, length: int) -> str:
        """Why the rows cannot be cut back to `length` tokens; empty if they can."""
        if length == 0 or length >= self.longest:
            return ""
        for i, spec in enumerate(self.specs):
            if isinstance(spec, State):
                return (
                    f"layer {i} holds a recurrent state of {self.longest} tokens, which cannot be "
                    f"cut back to {length}"
                )
            if (width := self._window(i)) is None:
                continue
            window = self.windows[width]
            if window.first and length - window.keep < window.first:
                return (
                    f"layer {i} keeps a window of {width} tokens and holds none before token "
                    f"{window.first}, so it cannot be cut back to {length}"
                )
        return ""

    def truncate(self, length: int) -> None:
        """Keep only the first `length` tokens of each row.

        ValueError that names the layer if its state cannot be cut. Length 0 always works.
        """
        if length < 0:
            raise ValueError(f"truncate: length is {length}; it must not be negative")
        if reason := self.cannot_truncate(length):
            raise ValueError(f"truncate: {reason}; cut back to 0 and read the tokens again")
        cut = self.longest - min(self.longest, length)
        self.lengths.copy_(self.lengths.clamp(max=length))
        self.longest -= cut
        if length == 0:
            for window in self.windows.values():
                window.first = 0
            for spec, buffers in zip(self.specs, self.buffers, strict=True):
                for t in buffers if isinstance(spec, State) else ():
                    t.zero_()
        self._recount_windows(cut)

    def _recount_windows(self, cut: int) -> None:
        """Adjust the windows after a truncation: no window begins past its row's end."""
        for window in self.windows.values():
            window.base.copy_(ops.minimum(window.base, self.lengths))
        if all(window.first == 0 for window in self.windows.values()):
            self.written = self.longest
            for window in self.windows.values():
                window.origin = 0
        elif self.batch == 1:
            self.written -= cut

    @no_inference()
    def fork(self, length: int | None = None) -> Cache:
        """An independent copy of the cache, cut to `length` tokens if given; see `truncate`."""
        if length is not None and (reason := self.cannot_truncate(length)):
            raise ValueError(f"fork: {reason}; fork without a length")
        new = self._like()
        new.capacity, new.static = self.capacity, self.static
        new.longest, new.written, new.farthest = self.longest, self.written, self.farthest
        new.lengths, new.expected = self.lengths.clone(), self.expected.clone()
        new.shift = None if self.shift is None else self.shift.clone()
        new.buffers = [[t.clone() for t in buffers] for buffers in self.buffers]
        for window, old in zip(new.windows.values(), self.windows.values(), strict=True):
            window.base = old.base.clone()
            window.size, window.origin, window.first = old.size, old.origin, old.first
        if length is not None:
            new.truncate(length)
        return new

    def bytes_of(self, length: int) -> int:
        """Bytes of the first `length` tokens of each row, as `trimmed` keeps them."""
        total = 0
        for layer, buffers in enumerate(self.buffers):
            keeps_all = not isinstance(self.specs[layer], State) and self._window(layer) is None
            for t in buffers:
                slots = min(length, t.shape[2]) if keeps_all else 0
                total += t.nbytes // t.shape[2] * slots if keeps_all else t.nbytes
        return total

    @no_inference()
    def trimmed(self, length: int) -> Cache:
        """A copy cut to `length` tokens, without slots beyond them; ValueError as `truncate`."""
        if reason := self.cannot_truncate(length):
            raise ValueError(f"trimmed: {reason}; pass the length of the cache")
        new = self._like()
        whole = set(self._layers(None))
        new.buffers = [
            [(t[:, :, :length] if layer in whole else t).clone() for t in buffers]
            for layer, buffers in enumerate(self.buffers)
        ]
        new.capacity = length if whole else 0
        new.longest, new.written, new.farthest = self.longest, self.written, self.farthest
        new.lengths, new.expected = self.lengths.clone(), self.expected.clone()
        new.shift = None if self.shift is None else self.shift.clone()
        for window, old in zip(new.windows.values(), self.windows.values(), strict=True):
            window.base = old.base.clone()
            window.size, window.origin, window.first = old.size, old.origin, old.first
        new.truncate(length)
        return new

    @no_inference()
    def adopt(self, other: Cache) -> None:
        """Let every row hold what the only row of `other` holds, a cache of the same model.

        ValueError for a cache of several rows, or of another dtype.
        """
        if other.batch != 1 or other.dtype is not self.dtype or other.specs != self.specs:
            raise ValueError(
                f"adopt: the other cache has {other.batch} rows of {other.dtype.name}; it must "
                f"have one row of {self.dtype.name}, of the same model"
            )
        self.truncate(0)
        self.make_room(other.longest)
        for window, theirs in zip(self.windows.values(), other.windows.values(), strict=True):
            if window.size < theirs.size:
                self._resize(window.layers, theirs.size, 0)
                window.size = theirs.size
            window.base.copy_(theirs.base.expand(self.batch))
            window.origin, window.first = theirs.origin, theirs.first
        for mine, others in zip(self.buffers, other.buffers, strict=True):
            for t, source in zip(mine, others, strict=True):
                if t.shape[1:] == source.shape[1:]:
                    t.copy_(source.expand(t.shape))
                else:  # slots beyond those of the tokens hold nothing
                    count = min(t.shape[2], source.shape[2])
                    narrow = source[:, :, :count]
                    t[:, :, :count] = narrow.expand(self.batch, *narrow.shape[1:])
        self.lengths.copy_(other.lengths.expand(self.batch))
        self.expected.copy_(other.expected.expand(self.batch))
        if self.shift is not None and other.shift is not None:
            self.shift.copy_(other.shift.expand(self.batch))
        self.longest, self.written, self.farthest = other.longest, other.written, other.farthest

    def set_lengths(self, lengths: list[int]) -> None:
        """Set the length of each row, after rows were written with padding."""
        self.lengths.copy_(tensor(lengths, dtype=int64, device=self.device))
        self.longest = max(lengths, default=0)
        self._recount_windows(0)
