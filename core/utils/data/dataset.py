"""Datasets: samples by number or in a stream, and datasets made of others."""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from rushlight.core.backends import HOST, Generator
from rushlight.core.functional.random import randperm
from rushlight.core.tensor.tensor import Tensor

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Samples by number; a subclass defines `__getitem__(index)` and `__len__()`.

    It may also define `__getitems__(indices)`, which gives the list of samples of a batch.
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} has no method __getitem__")

    def __add__(self, other: Any) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples in a stream; a subclass defines `__iter__()`, and `__len__()` where it is known.

    With workers every worker reads a copy of its own: `get_worker_info` says which part to read.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has no method __iter__")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[Any]):
    """Sample i is the tuple of row i of each tensor. ValueError for tensors of other lengths."""

    def __init__(self, *tensors: Tensor) -> None:
        lengths = [len(x) for x in tensors]
        if len(set(lengths)) != 1:
            raise ValueError(
                f"TensorDataset: the tensors have {lengths} rows; give one or more, "
                "all of one length"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Sample i is the tuple, or by name the dict, of sample i of each dataset.

    ValueError for datasets of other lengths, or given both in order and by name.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: give datasets either in order or by name")
        self.datasets: Any = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        if len(set(lengths)) != 1:
            raise ValueError(
                f"StackDataset: datasets of {lengths} samples; all must be of one length"
            )
        self._length = lengths[0]

    def _parts(self) -> list[Any]:
        datasets = self.datasets
        return list(datasets.values() if isinstance(datasets, dict) else datasets)

    def _joined(self, values: Sequence[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, values, strict=True))
        return tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._joined([dataset[index] for dataset in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """The samples at `indices`."""
        columns = [_items(dataset, indices) for dataset in self._parts()]
        return [self._joined(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """The samples of several datasets, one after another. ValueError for none, or for streams."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(d, IterableDataset) for d in self.datasets):
            raise ValueError(
                "ConcatDataset: give at least one dataset with samples by number; "
                "ChainDataset joins IterableDatasets"
            )
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        position = index + len(self) if index < 0 else index
        if position < 0:
            raise ValueError(f"ConcatDataset: index {index} of {len(self)} samples")
        number = bisect.bisect_right(self.cumulative_sizes, position)
        if number == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {index} of {len(self)} samples")
        before = self.cumulative_sizes[number - 1] if number else 0
        sample: T = self.datasets[number][position - before]
        return sample


class ChainDataset(IterableDataset[T]):
    """The samples of several IterableDatasets, one after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"ChainDataset: a {type(dataset).__name__} is no IterableDataset; "
                    "ConcatDataset joins datasets with numbers"
                )
            yield dataset

    def __iter__(self) -> Iterator[T]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[T]):
    """The samples of `dataset` at `indices`.

    A subclass with a `__getitem__` of its own needs a `__getitems__` too: NotImplementedError.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__, "
                "with which batches are read"
            )
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        """The samples at `indices`."""
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    """The samples at `indices`, at once where the dataset can do so."""
    several = getattr(dataset, "__getitems__", None)
    if several is None:
        return [dataset[i] for i in indices]
    samples: list[Any] = several(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ gave {len(samples)} samples for "
            f"{len(indices)} indices"
        )
    return samples


def random_split(
    dataset: Any, lengths: Sequence[Any], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Disjoint random subsets of `lengths` samples, which add up to those of the dataset.

    Lengths may be shares that add up to 1: each is rounded down, and the samples that are left go
    to the subsets in turn. An empty one warns. ValueError for other sums.

    `generator` draws the order, that of `cpu` unless set.
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, share in enumerate(lengths):
            if not 0 <= share <= 1:
                raise ValueError(f"random_split: share {i} is {share}; it must be from 0 to 1")
        counts = [math.floor(total * share) for share in lengths]
        for i in range(total - sum(counts)):
            counts[i % len(counts)] += 1
        if 0 in counts:
            warnings.warn(f"random_split: subset {counts.index(0)} is empty", stacklevel=2)
        lengths = counts
    if sum(lengths) != total:
        raise ValueError(
            f"random_split: lengths {list(lengths)} do not add up to the {total} samples"
        )
    order = randperm(total, device=HOST, generator=generator).tolist()
    ends = accumulate(lengths)
    return [Subset(dataset, order[end - n : end]) for n, end in zip(lengths, ends, strict=True)]
