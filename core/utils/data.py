"""Datasets, and batches of them in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rushlight.core.backends import Generator
from rushlight.core.functional.pieces import stack
from rushlight.core.functional.random import randperm
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor, from_numpy


class Dataset:
    """Samples by number; a subclass defines `__getitem__(index)` and `__len__()`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no method __getitem__")


class TensorDataset(Dataset):
    """Sample i is the tuple of row i of each tensor. ValueError for tensors of other lengths."""

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [len(x) for x in tensors]
        if len(set(lengths)) != 1:
            raise ValueError(f"TensorDataset: the tensors have {lengths} rows; give one or more, "
                             "all of one length")  # fmt: skip
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[Any], generator: Generator | None = None
) -> list[Subset]:
    """Disjoint random subsets of `lengths` samples, which add up to those of the dataset.

    Lengths may be shares that add up to 1; what rounding leaves goes to the first ones.
    """
    if abs(sum(lengths) - 1) < 1e-9 and len(dataset) != 1:
        counts = [int(len(dataset) * share) for share in lengths]
        rest = len(dataset) - sum(counts)
        lengths = [n + (i < rest) for i, n in enumerate(counts)]
    if sum(lengths) != len(dataset):
        raise ValueError(f"random_split: lengths {list(lengths)} do not add up to the "
                         f"{len(dataset)} samples")  # fmt: skip
    order = randperm(len(dataset), generator=generator).tolist()
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [Subset(dataset, order[end - n : end]) for n, end in zip(lengths, ends, strict=True)]


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined to a batch: tensors, arrays and numbers stacked, tuples and dicts by part.

    Strings stay a list. TypeError for samples of another kind.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray | np.generic):
        return from_numpy(np.stack(batch))
    if isinstance(first, bool | int | float):
        return tensor(list(batch))
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        named = hasattr(first, "_fields")
        return type(first)(*parts) if named else type(first)(parts)
    raise TypeError(f"default_collate: samples are of type {type(first).__name__}; supported: "
                    "tensors, arrays, numbers, strings, tuples, lists, dicts")  # fmt: skip


class DataLoader:
    """Batches of a dataset; iterating starts a new pass, in a new order where `shuffle` is True.

    The order comes from `generator`, or from the seed of `cpu`. drop_last leaves out a last batch
    that is not full. collate_fn joins a list of samples. sampler gives the order, batch_sampler
    lists of numbers; with batch_size=None samples come one by one. Samples are read in this
    thread: num_workers above 0 is refused, and what concerns workers and pinned memory has no
    effect.
    """

    def __init__(  # noqa: PLR0913
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0, worker_init_fn: Any = None,
        multiprocessing_context: Any = None, generator: Generator | None = None, *,
        prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"DataLoader: batch_size is {batch_size}; it must be 1 or more")
        if num_workers:
            raise ValueError(f"DataLoader: num_workers={num_workers} is not supported; supported: "
                             "0, samples are read in this thread")  # fmt: skip
        if (sampler is not None or batch_sampler is not None) and shuffle:
            raise ValueError("DataLoader: shuffle and a sampler exclude each other")
        if batch_sampler is not None and (batch_size != 1 or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler excludes batch_size, sampler and drop_last")
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, bool(shuffle)
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        one = batch_size is None
        self.collate_fn = collate_fn or ((lambda sample: sample) if one else default_collate)
        self.drop_last = drop_last

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        count = len(self.dataset if self.sampler is None else self.sampler)
        whole, rest = divmod(count, self.batch_size or 1)
        return whole + bool(rest and not self.drop_last)

    def _order(self) -> Iterator[int]:
        if self.sampler is not None:
            return iter(self.sampler)
        count = len(self.dataset)
        return iter(randperm(count, generator=self.generator).tolist() if self.shuffle
                    else range(count))  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is None and self.batch_size is None:
            for i in self._order():
                yield self.collate_fn(self.dataset[i])
            return
        for numbers in self._batches() if self.batch_sampler is None else self.batch_sampler:
            yield self.collate_fn([self.dataset[i] for i in numbers])

    def _batches(self) -> Iterator[list[int]]:
        order = self._order()
        while batch := list(islice(order, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch


__all__ = ["DataLoader", "Dataset", "Subset", "TensorDataset", "default_collate", "random_split"]
