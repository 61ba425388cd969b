"""Orders of samples: in turn, shuffled, by weight; and batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from rushlight.core.backends import HOST, Generator
from rushlight.core.basis.philox import words
from rushlight.core.functional.random import multinomial, randperm
from rushlight.core.ops.random import randint
from rushlight.core.tensor.convert import as_tensor

T = TypeVar("T", covariant=True)


class Sampler(Generic[T]):
    """An order of samples; a subclass defines `__iter__()`, and `__len__()` where it is known."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has no method __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 and so on, to the end of `data_source`."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All numbers of `data_source` in random order, another one in each pass.

    num_samples: how many are drawn (every sample once); more than there are begin another order.
    replacement: each is drawn from all. generator: by default one that each pass seeds from `cpu`'s
    numbers. ValueError for no samples.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = _flag("replacement", replacement, TypeError)
        self._num_samples, self.generator = num_samples, generator
        if num_samples is None and not len(data_source):
            raise ValueError("RandomSampler: the dataset has no samples")
        _positive("RandomSampler: num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The samples of one pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, left = len(self.data_source), self.num_samples
        source = self.generator or Generator(draw_seed(None))
        while left > 0:
            if self.replacement:
                drawn = randint(0, count, (min(left, 1024),), device=HOST, generator=source)
            else:
                drawn = randperm(count, device=HOST, generator=source)[:left]
            yield from drawn.tolist()
            left -= len(drawn)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), device=HOST, generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` numbers, i with a probability proportional to weights[i].

    replacement: a number may come again. ValueError for weights that are not one row.

    `generator` draws, that of `cpu` unless set. ValueError also for a `num_samples` that is no
    positive int.
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.num_samples = _positive("WeightedRandomSampler: num_samples", num_samples)
        self.replacement, self.generator = _flag("replacement", replacement), generator
        self.weights = as_tensor(weights, dtype="float64", device="cpu")
        if self.weights.ndim != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights are {self.weights.shape}; they must be one row"
            )

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` numbers of `sampler`; drop_last leaves out a shorter last one.

    ValueError for a batch_size that is no positive int, and a drop_last that is no bool.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        self.sampler = sampler
        self.batch_size = _positive("BatchSampler: batch_size", batch_size)
        self.drop_last = _flag("drop_last", drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        order = iter(self.sampler)
        while batch := list(islice(order, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count: int = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def draw_seed(generator: Generator | None) -> int:
    """A seed of 63 bits from `generator`, or from cpu's numbers."""
    low, high = words(*(generator or HOST.generator).reserve(2), 2).tolist()
    return int(low | (high & 0x7FFFFFFF) << 32)


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} is {value!r}; it must be a positive integer")
    return value


def _flag(name: str, value: Any, error: type[Exception] = ValueError) -> bool:
    if not isinstance(value, bool):
        raise error(f"{name} is {value!r}; it must be True or False")
    return value
