"""Reading one batch: the same code in this thread and in a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Any

from rushlight.core.backends import Generator, drawing
from rushlight.core.tensor.convert import tensor
from rushlight.core.utils.data.collate import default_collate
from rushlight.core.utils.data.dataset import Subset, TensorDataset


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker knows of itself: its number, how many there are, its seed and its dataset.

    `id` is the number, `num_workers` their count, `worker_method` "thread" or "process". It raises
    nothing.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    worker_method: str = "thread"


class _Local(threading.local):
    info: WorkerInfo | None = None


local = _Local()


def get_worker_info() -> WorkerInfo | None:
    """What the DataLoader's worker that runs this code knows of itself; None in no worker.

    `dataset` is the worker's own copy, which a worker_init_fn may change.
    """
    return local.info


@contextmanager
def numbers_of(seed: int, batch: int) -> Iterator[None]:
    """Random numbers of this thread come from a stream of one batch's own.

    So they depend on the seed and the batch alone: not on the number of workers, nor on where a
    run was interrupted. A batch has 2**34 words before it would reach the next one's.
    """
    before, drawing.generator = drawing.generator, Generator(seed)
    drawing.generator.offset = batch << 32
    try:
        yield
    finally:
        drawing.generator = before


@dataclass(frozen=True, slots=True)
class Plan:
    """How samples become batches. batched: an index is a list; streams: it only counts."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool
    streams: bool
    drop_last: bool

    def of(self, dataset: Any) -> Plan:
        """The same of another dataset."""
        return replace(self, dataset=dataset)


class _End(Enum):
    """What a stream gives that has ended: the same object in every process."""

    END = "end"


END = _End.END


class Fetcher:
    """Reads the batches of one pass. seed: of the random numbers that reading draws."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.seed, self.ended = plan, seed, False
        self._stream: Iterator[Any] | None = None

    def fetch(self, batch: int, index: Any) -> Any:
        """Batch number `batch`, of the samples at `index`; END after the last one of a stream."""
        plan = self.plan
        with numbers_of(self.seed, batch):
            if plan.streams:
                return self._next(index)
            if not plan.batched:
                return plan.collate_fn(plan.dataset[index])
            if plan.collate_fn is default_collate and (rows := _rows(plan.dataset, index)):
                return rows
            several = getattr(plan.dataset, "__getitems__", None)
            samples = several(index) if several else [plan.dataset[i] for i in index]
            return plan.collate_fn(samples)

    def _next(self, index: Any) -> Any:
        if self.ended:
            return END
        if self._stream is None:
            self._stream = iter(self.plan.dataset)
        count = len(index) if self.plan.batched else 1
        samples = list(islice(self._stream, count))
        self.ended = len(samples) < count
        if not samples or (self.ended and self.plan.drop_last):
            return END
        return self.plan.collate_fn(samples if self.plan.batched else samples[0])


def _rows(dataset: Any, index: list[int]) -> list[Any] | None:
    """The rows of a TensorDataset, or of a Subset of one, taken at once instead of one by one."""
    while type(dataset) is Subset:
        index, dataset = [dataset.indices[i] for i in index], dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    return [x[tensor(index, device=x.device)] for x in dataset.tensors]
