"""PrefixCache: what was read of earlier prompts, for later ones that begin alike."""

from __future__ import annotations

import json
import os
from collections.abc import Generator as Steps
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import as_dtype
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.generation.cache import Cache
from rushlight.models.generation.change_detector import ChangeDetector
from rushlight.models.generation.sampling import Array

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM

_KIND = "rushlight prefix cache 1"
# Tokens and logits by which a loaded file's model is known, and how far they may differ.
_PROBE, _LOGITS, _NEAR = 8, 256, 2e-2
# A beginning of fewer tokens is read again sooner than it is copied.
LEAST = 16
_COUNTS = ("longest", "written", "farthest")


@dataclass(frozen=True)
class Entry:
    """Tokens that were read, and the cache after them; first: see `ChatSession.first`."""

    ids: tuple[int, ...]
    cache: Cache
    linear: str
    first: int

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors."""
        return self.cache.nbytes


class PrefixCache:
    """Caches of prompts and answers, of one model, of at most `max_bytes`.

    Assign one to `model.prefix_cache`: a conversation that another one displaces is kept, and a
    later prompt goes on from the entry that shares its longest beginning. Of layers whose state
    cannot be cut back (recurrent ones, slid windows) there is an entry after every `every` tokens
    of a prompt and at its end. The entries that were not used for longest go first. ValueError for
    bounds that are not positive.
    """

    def __init__(self, max_bytes: int = 1 << 30, *, every: int = 256) -> None:
        if max_bytes < 1 or every < 1:
            raise ValueError(
                f"PrefixCache: max_bytes is {max_bytes}, every is {every}; both must be above 0"
            )
        self.max_bytes, self.every = max_bytes, every
        self.entries: list[Entry] = []  # the one that was used last comes last
        self._changed: ChangeDetector | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return sum(entry.nbytes for entry in self.entries)

    def clear(self) -> None:
        """Forget everything."""
        self.entries.clear()

    def follow(self, model: CausalLM) -> None:
        """Forget everything if the model's weights moved or were written to."""
        if self._changed is None:
            self._changed = ChangeDetector(model)
        elif any(self._changed.changes(model)):
            self.clear()

    def put(self, ids: Sequence[int], cache: Cache, linear: str, first: int) -> None:
        """Keep a copy of a cache of one row that holds `ids`; nothing if it is above the bound.

        linear: the mode of products that it was read in. first: the length of the first prompt.
        ids, cache: tokens, and what was read of them. It raises nothing.
        """
        if len(ids) < LEAST or cache.longest < len(ids):
            return
        if cache.longest > len(ids) and cache.cannot_truncate(len(ids)):
            return
        ids = tuple(ids)
        for entry in self.entries:
            same = entry.linear == linear and entry.cache.dtype is cache.dtype
            if same and entry.ids[: len(ids)] == ids and not entry.cache.cannot_truncate(len(ids)):
                return
        if cache.bytes_of(len(ids)) > self.max_bytes:
            return
        new = Entry(ids, cache.trimmed(len(ids)), linear, first)
        whole = not new.cache.cannot_truncate(max(1, len(ids) - 1))
        self.entries = [  # what the new entry begins with can be cut out of it
            entry
            for entry in self.entries
            if not (
                whole
                and entry.linear == linear
                and entry.cache.dtype is cache.dtype
                and entry.ids == ids[: len(entry.ids)]
            )
        ]
        self.entries.append(new)
        while self.nbytes > self.max_bytes:
            self.entries.pop(0)

    def best(self, ids: Sequence[int], linear: str, cache_type: str) -> tuple[Entry | None, int]:
        """The entry that serves most of the first tokens of `ids`, and how many.

        The last token of `ids` is not counted: it is read for the logits after it. linear: the mode
        of products. cache_type: the dtype of keys and values. It raises nothing.
        """
        chosen, most = None, 0
        for entry in self.entries:
            if entry.linear != linear or entry.cache.dtype is not as_dtype(cache_type):
                continue
            common = shared(entry.ids, ids[:-1])
            if common > most and not entry.cache.cannot_truncate(common):
                chosen, most = entry, common
        if chosen is not None:
            self.entries.remove(chosen)
            self.entries.append(chosen)
        return chosen, most

    def save(self, path: str | os.PathLike[str], model: CausalLM) -> None:
        """Write the entries to a safetensors file, with what tells the model.

        `model` is the one that read them; the file appears once it is complete.
        """
        steps, sent = self._saving(path, model), None
        try:
            while True:
                sent = steps.send(sent).wait()
        except StopIteration:
            pass

    async def save_async(self, path: str | os.PathLike[str], model: CausalLM) -> None:
        """`save` without blocking, for the tab.

        `path` and `model` are as there.
        """
        steps, sent = self._saving(path, model), None
        try:
            while True:
                sent = await steps.send(sent)
        except StopIteration:
            pass

    def _saving(
        self, path: str | os.PathLike[str], model: CausalLM
    ) -> Steps[Readback[Any], Any, None]:
        if model._session is not None and model.prefix_cache is self:
            model._session.keep()  # the latest conversation
        tensors = {"probe": from_numpy((yield _probe(model).readback()))}
        entries = []
        for i, entry in enumerate(self.entries):
            cache = entry.cache
            for name, t in _tensors(cache):
                tensors[f"{i}.{name}"] = from_numpy(np.ascontiguousarray((yield t.readback())))
            tensors[f"{i}.ids"] = from_numpy(np.array(entry.ids, np.int64))
            entries.append(
                {
                    "linear": entry.linear,
                    "dtype": cache.dtype.name,
                    "first": entry.first,
                    **{name: getattr(cache, name) for name in _COUNTS},
                    "windows": [[w.size, w.origin, w.first] for w in cache.windows.values()],
                }
            )
        metadata = {"kind": _KIND, "model": _described(model), "entries": json.dumps(entries)}
        save_safetensors(tensors, path, metadata)

    def load(self, path: str | os.PathLike[str], model: CausalLM) -> None:
        """Add the entries of a file that `save` wrote, up to the bound.

        `model` must be the one that read them: ValueError for another family, other sizes, or other
        weights, which the logits after a few tokens tell. FormatError for another file, a damaged
        one, and tokens that are not of the vocabulary.
        """
        steps, sent = self._loading(path, model), None
        try:
            while True:
                sent = steps.send(sent).wait()
        except StopIteration:
            pass

    async def load_async(self, path: str | os.PathLike[str], model: CausalLM) -> None:
        """`load` without blocking, for the tab.

        `path`, `model` and what it raises are as there.
        """
        steps, sent = self._loading(path, model), None
        try:
            while True:
                sent = await steps.send(sent)
        except StopIteration:
            pass

    def _loading(
        self, path: str | os.PathLike[str], model: CausalLM
    ) -> Steps[Readback[Any], Any, None]:
        opened = open_tables(path)
        metadata = opened[0][1].metadata
        for file, _ in opened:
            file.close()
        if metadata.get("kind") != _KIND:
            raise FormatError(f"{path} is no prefix cache; PrefixCache.save writes them")
        if metadata.get("model") != _described(model):
            raise ValueError(
                f"{path} was read by {metadata.get('model')}, not by {_described(model)}; load it "
                "for that model"
            )
        tensors = load_safetensors(path)
        theirs = _taken(tensors, "probe", path).numpy()
        ours: Array = yield _probe(model).readback()
        most = float(np.abs(ours).max()) or 1.0
        if theirs.shape != ours.shape or float(np.abs(ours - theirs).max()) > _NEAR * most:
            raise ValueError(f"{path} was read by other weights of {_described(model)}")
        self.follow(model)
        try:
            listed = json.loads(metadata["entries"])
            made = [_entry(model, tensors, i, row, path) for i, row in enumerate(listed)]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FormatError(f"{path}: its entries are damaged: {error}") from None
        self.entries = [*made, *self.entries]
        while self.nbytes > self.max_bytes:
            self.entries.pop(0)


def shared(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _described(model: CausalLM) -> str:
    specs = ", ".join(sorted({repr(spec) for spec in model.cache_specs()}))
    count = len(model.cache_specs())
    return f"{model.config.model_type} of {model.vocab_size} tokens, {count} x {specs}"


def _probe(model: CausalLM) -> Tensor:
    """Some logits after a few tokens, (n,) float32."""
    ids = (np.arange(1, _PROBE + 1) * 7919 % model.vocab_size)[: model.context_length][None]
    with autograd.no_grad():
        out: Tensor = model(from_numpy(ids.astype(np.int64)).to(model.device), logits_to_keep=1)
        return out[0, -1, :_LOGITS].float().contiguous()


def _tensors(cache: Cache) -> list[tuple[str, Tensor]]:
    named = [(f"{i}.{j}", t) for i, row in enumerate(cache.buffers) for j, t in enumerate(row)]
    named += [(f"window.{i}", w.base) for i, w in enumerate(cache.windows.values())]
    return [*named, *([("shift", cache.shift)] if cache.shift is not None else [])]


def _taken(tensors: dict[str, Tensor], name: str, path: Any) -> Tensor:
    if name not in tensors:
        raise FormatError(f"{path} lacks the tensor {name}")
    return tensors[name]


def _entry(model: CausalLM, tensors: dict[str, Tensor], i: int, row: Any, path: Any) -> Entry:
    ids = tuple(_taken(tensors, f"{i}.ids", path).tolist())
    cache = model.new_cache(1, row["dtype"])
    longest, written, farthest = (int(row[name]) for name in _COUNTS)
    if longest != len(ids) or not ids or not all(0 <= t < model.vocab_size for t in ids):
        raise ValueError(f"entry {i} has {len(ids)} tokens for {longest}, or others")
    if len(ids) > model.context_length or written < longest:
        raise ValueError(f"entry {i} has {len(ids)} tokens, above the model's context")
    cache.make_room(longest)
    for window, (size, origin, first) in zip(cache.windows.values(), row["windows"], strict=True):
        if not 0 <= size <= model.context_length or not 0 <= written - origin <= size:
            raise ValueError(f"entry {i} has a window of {size} tokens")
        cache._resize(window.layers, size, 0)
        window.size, window.origin, window.first = size, int(origin), int(first)
    cache.lengths.fill_(longest)
    cache.longest, cache.written, cache.farthest = longest, written, farthest
    cache.expected.fill_(farthest)
    trimmed = cache.trimmed(longest)
    for name, t in _tensors(trimmed):
        source = _taken(tensors, f"{i}.{name}", path)
        if source.shape != t.shape or source.dtype is not t.dtype:
            raise ValueError(f"tensor {i}.{name} is {source.shape}, not {t.shape}")
        t.copy_(source.to(t.device))
    return Entry(ids, trimmed, str(row["linear"]), int(row["first"]))
