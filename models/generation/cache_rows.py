"""Rows of caches: what one row of a cache holds is copied into a row of another one."""

from __future__ import annotations

from rushlight.core import ops
from rushlight.core.basis.dtype import int64
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.grad_mode import no_inference
from rushlight.models.generation.cache import SLACK, Cache, Window
from rushlight.models.generation.cache_spec import State


def has_states(cache: Cache) -> bool:
    """Whether a layer keeps a recurrent state, which is that after all tokens."""
    return any(isinstance(spec, State) for spec in cache.specs)


@no_inference()
def copy_row(
    source: Cache, row: int, target: Cache, place: int, length: int, first: int = 0
) -> None:
    """Let row `place` of `target` hold the first `length` tokens of row `row` of `source`.

    Both are of one model and dtype. first: where `target` holds the tokens before this one already.
    A recurrent state is that after all of the row's tokens, so `length` must be all of them. Other
    rows of `target` stay what they are.
    """
    target.make_room(length)
    for layer in source._layers(None):
        for old, new in zip(source.buffers[layer], target.buffers[layer], strict=True):
            if first < length:
                new[place, :, first:length] = old[row, :, first:length]
    for width, window in source.windows.items():
        _copy_window(source, row, window, target, place, target.windows[width], length)
    for spec, olds, news in zip(source.specs, source.buffers, target.buffers, strict=True):
        for old, new in zip(olds, news, strict=True) if isinstance(spec, State) else ():
            new[place] = old[row]
    target.lengths[place] = length
    target.expected[place] = source.expected[row]
    if source.shift is not None and target.shift is not None:
        target.shift[place] = source.shift[row]
    target.farthest = max(target.farthest, source.farthest)
    _lengthen(target, length)


def _lengthen(cache: Cache, length: int) -> None:
    """Count a row of `length` tokens that were written elsewhere."""
    cache.longest = max(cache.longest, length)
    more = max(0, cache.longest - cache.written)
    cache.written += more
    for window in cache.windows.values():
        window.origin += more


def _copy_window(
    source: Cache, row: int, window: Window, target: Cache, place: int, other: Window, length: int
) -> None:
    """Copy the last tokens of a row that a window holds to the front of the other's buffers."""
    # Those that are needed, and more if all rows have them: nothing is read from the device.
    count = max(min(length, other.keep), min(length - window.first, other.keep + SLACK))
    filled = max(target.written - other.origin, count)
    if filled > other.size:
        most = min(target.limit, other.keep + SLACK)
        held = min(target.written - other.origin, other.size)
        size = max(target._size(filled, most), filled)
        target._resize(other.layers, size, held)
        other.size = size
    other.origin = target.written - filled
    places = ops.arange(count, device=source.device) - window.base[row : row + 1]
    places = places + (length - count)
    for layer in window.layers:
        for old, new in zip(source.buffers[layer], target.buffers[layer], strict=True):
            if count:
                new[place, :, :count] = old[row].index_select(1, places.to(device=old.device))
    other.base[place] = length - count
    other.first = max(other.first, length - count)


def vacate(cache: Cache, lengths: list[int]) -> None:
    """Set the lengths of all rows: those without tokens are cleared, the others stay."""
    cache.lengths.copy_(tensor(lengths, dtype=int64, device=cache.device))
    for window in cache.windows.values():
        window.base.copy_(ops.minimum(window.base, cache.lengths))
    longest = max(lengths, default=0)
    cut = cache.longest - longest
    cache.longest = longest
    if cut > 0 and not cache.windows:
        cache.written = longest
