"""Batches of a dataset: in order or shuffled, read in this thread or ahead by workers."""

from __future__ import annotations

import math
import queue
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

from rushlight.core.backends import Generator
from rushlight.core.utils.data.collate import default_collate, default_convert
from rushlight.core.utils.data.dataset import IterableDataset
from rushlight.core.utils.data.reading import END, Fetcher, Plan
from rushlight.core.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    draw_seed,
)
from rushlight.core.utils.data.workers import Failure, Processes, Threads

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Batches of a dataset; iterating starts a new pass, in a new order where `shuffle` is True.

    The order comes from `generator`, or from the seed of `cpu`. drop_last leaves out a last batch
    that is not full. collate_fn joins a list of samples (`default_collate`). sampler gives the
    order, batch_sampler lists of numbers; with batch_size=None samples come one by one. An
    IterableDataset has an order of its own.

    num_workers: so many workers read batches ahead, `prefetch_factor` (2) each. They are threads of
    this process; with multiprocessing_context "spawn", "fork", "forkserver" or a context of
    multiprocessing they are processes. Each has its own copy of the dataset: of threads a shallow
    one. worker_init_fn(id) runs in each first; `get_worker_info` tells who asks. timeout: seconds
    that a batch may take (RuntimeError). persistent_workers stay for the next pass. in_order=False
    takes batches as they are ready. An error of a worker is raised here with its traceback. In the
    browser there are no threads: workers are left out with a warning. pin_memory has no effect.

    What a dataset draws from `rl`'s random numbers depends on the pass and the number of the batch
    alone, so any number of workers gives the same batches. Raises ValueError for options that
    exclude each other.

    `pin_memory_device` has no effect either.
    """

    _ready = False

    def __init__(  # noqa: PLR0913
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0 or timeout < 0:
            raise ValueError(
                f"DataLoader: num_workers is {num_workers}, timeout {timeout}; they "
                "must not be negative"
            )
        if num_workers and sys.platform == "emscripten":
            warnings.warn(
                f"DataLoader: num_workers={num_workers}: the browser has no threads, so "
                "samples are read in this one",
                stacklevel=2,
            )
            num_workers, prefetch_factor, persistent_workers = 0, None, False
            multiprocessing_context, timeout = None, 0
        alone = {
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "multiprocessing_context": multiprocessing_context,
            "timeout": timeout,
        }
        for name, value in alone.items():
            if value and num_workers == 0:
                raise ValueError(f"DataLoader: {name}={value!r} concerns workers; num_workers is 0")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(
                f"DataLoader: prefetch_factor is {prefetch_factor}; it must be 1 or more"
            )
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else None
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn, self.in_order = timeout, worker_init_fn, in_order
        self.multiprocessing_context = _context(multiprocessing_context)
        self.persistent_workers = persistent_workers
        self._streams = isinstance(dataset, IterableDataset)
        _check_order(self._streams, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size = None
        if sampler is None and self._streams:
            sampler = _Endless()
        elif sampler is None and batch_sampler is None and shuffle:
            sampler = RandomSampler(dataset, generator=generator)
        elif sampler is None:
            sampler = SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._pool: Threads | Processes | None = None
        self._said: int | None = None  # the length that a stream claimed
        self._turn = 0
        self._ready = True

    def __class_getitem__(cls, kind: Any) -> type[DataLoader]:
        """`DataLoader[Sample]` in a program's types."""
        return cls

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in _FIXED:
            raise ValueError(f"DataLoader: {name} cannot be set after the loader was made")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if not self._streams:
            return len(self._index_sampler)
        count = self._said = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        return self.iterate_from(0)

    def iterate_from(self, start: int) -> Iterator[Any]:
        """The batches of a new pass from number `start` on, as they come in a whole pass.

        Those before are not read, but of an IterableDataset, which has no numbers.
        """
        plan = Plan(
            self.dataset,
            self.collate_fn,
            self.batch_sampler is not None,
            self._streams,
            self.drop_last,
        )
        order = enumerate(self._index_sampler)
        seed = draw_seed(self.generator)
        # The order is drawn in batches of numbers, of which those before are dropped.
        first = islice(order, 0 if self._streams else start, None)
        batches: Iterator[Any]
        if self.num_workers:
            batches = _Ahead(self, plan, seed, first)
        else:
            batches = _here(plan, seed, first)
        if self._streams:
            batches = islice(self._counted(batches), start, None)
        return batches

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of a stream; warns where there are more than its length says."""
        count = 0
        for batch in batches:
            count += 1
            if self._said is not None and count == self._said + 1:
                warnings.warn(
                    f"DataLoader: a stream of {self._said} samples, as its length says, "
                    "gave more; with workers each should read a part of its own "
                    "(get_worker_info)",
                    stacklevel=2,
                )
            yield batch

    def _workers(self, plan: Plan, seed: int) -> Threads | Processes:
        if self._pool is not None:
            return self._pool
        arguments = self.num_workers, seed, self.worker_init_fn
        context = self.multiprocessing_context
        pool = Processes(plan, *arguments, context) if context else Threads(plan, *arguments)
        if self.persistent_workers:
            self._pool = pool
            weakref.finalize(self, pool.close)
        return pool


class _Endless:
    """The order of a stream, whose samples have no numbers."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


def _here(plan: Plan, seed: int, order: Iterator[tuple[int, Any]]) -> Iterator[Any]:
    """Batches read in this thread."""
    fetcher = Fetcher(plan, seed)
    for number, index in order:
        batch = fetcher.fetch(number, index)
        if batch is END:
            return
        yield batch


class _Ahead:
    """Batches that workers read ahead, in their order."""

    def __init__(
        self, loader: DataLoader, plan: Plan, seed: int, order: Iterator[tuple[int, Any]]
    ) -> None:
        loader._turn += 1
        self.turn, self.seed, self.order = loader._turn, seed, order
        self.loader = loader  # with persistent workers, which end with it
        self.pool = loader._workers(plan, seed)
        # A pool of the loader's own outlives this pass.
        close = weakref.finalize(self, self.pool.close) if loader._pool is None else None
        self.close: Callable[[], Any] = close or (lambda: None)
        self.in_order, self.timeout = loader.in_order, loader.timeout or None
        self.loads: dict[int, int] = dict.fromkeys(range(loader.num_workers), 0)  # of live workers
        self.last = -1
        self.owners: dict[int, int] = {}  # the worker of each batch that is out, in their order
        self.ready: dict[int, Any] = {}
        for _ in range(loader.num_workers * (loader.prefetch_factor or 1)):
            self._ask()

    def __iter__(self) -> _Ahead:
        return self

    def _ask(self) -> None:
        """Ask for the next batch: of the workers in turn, or of the one with the least to do."""
        if not self.loads or (task := next(self.order, None)) is None:
            return
        live = list(self.loads)
        if self.in_order:
            self.last = next((i for i in live if i > self.last), live[0])
        else:
            self.last = min(live, key=self.loads.__getitem__)
        self.pool.send(self.last, (self.turn, self.seed, *task))
        self.loads[self.last] += 1
        self.owners[task[0]] = self.last

    def _receive(self) -> None:
        if self.loader._pool is not None and self.loader._turn != self.turn:
            raise RuntimeError(
                "DataLoader: a later pass began; persistent workers serve one pass at a time"
            )
        try:
            worker, turn, number, batch = self.pool.receive(self.timeout)
        except queue.Empty:
            raise RuntimeError(f"DataLoader: no batch within timeout={self.timeout} s") from None
        if turn != self.turn:  # of a pass that was left
            return
        if batch is END:
            self.loads.pop(worker, None)
            del self.owners[number]
            self._ask()
            return
        self.ready[number] = batch
        if worker in self.loads:
            self.loads[worker] -= 1

    def __next__(self) -> Any:
        while self.owners:
            first = next(iter(self.owners if self.in_order else self.ready), None)
            if first not in self.ready:
                self._receive()
                continue
            assert first is not None
            worker, batch = self.owners.pop(first), self.ready.pop(first)
            self._ask()  # now, so that no more are out and ready than prefetch_factor says
            if isinstance(batch, Failure):
                raise batch.again(f"{self.pool.name} {worker}") from batch.error
            return batch
        self.close()
        raise StopIteration


def _context(given: Any) -> Any:
    """The context of multiprocessing that is asked for; None for threads."""
    if given is None or given == "thread":
        return None
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(given, BaseContext):
        return given
    methods = multiprocessing.get_all_start_methods()
    if given not in methods:
        raise ValueError(
            f"DataLoader: multiprocessing_context {given!r} is not supported; "
            f"supported: {', '.join(['thread', *methods])}"
        )
    return multiprocessing.get_context(given)


def _check_order(
    streams: bool,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
) -> None:
    """Refuse options that exclude each other."""
    if streams:
        options = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in options.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader: {name} is given, but an IterableDataset has an order of its own"
                )
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: sampler and shuffle exclude each other")
    ordered = batch_size != 1 or shuffle or sampler is not None or drop_last
    if batch_sampler is not None and ordered:
        raise ValueError(
            "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None gives samples one by one; drop_last concerns batches"
        )
