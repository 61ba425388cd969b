"""Several processes that train one model, each on its share of the batches."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from rushlight.core.distributed import groups
from rushlight.core.distributed.buckets import average_gradients, same_everywhere, spread
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.torch_paths.neural.sampler import DistributedSampler
from rushlight.core.utils.data.loader import DataLoader
from rushlight.core.utils.data.sampler import RandomSampler, SequentialSampler

STRATEGIES = ("auto", "ddp")


class Processes:
    """What a Trainer does with the other processes; nothing where it is alone.

    strategy: "auto" trains in this process; "ddp" with all that `mpirun` started, whose group is
    made if the program has not made it. ValueError for another name.
    """

    def __init__(self, strategy: str) -> None:
        if strategy not in STRATEGIES:
            raise ValueError(
                f"Trainer: strategy {strategy!r} is not supported; supported: "
                f"{', '.join(STRATEGIES)}"
            )
        self._group: groups.ProcessGroup | None = None
        if strategy == "ddp":
            self._group = groups.world() or groups.begin("mpi", None, None)

    @property
    def comm(self) -> Any:
        """mpi4py's communicator; None for a process alone."""
        return None if self._group is None else self._group.comm

    @property
    def size(self) -> int:
        """How many processes train."""
        return 1 if self._group is None else self._group.size()

    @property
    def first(self) -> bool:
        """Whether this process reports and writes files."""
        return self._group is None or self._group.rank() == 0

    def begin(self, model: Module) -> None:
        """Give everybody the values of the first process. ValueError for models that differ."""
        if self.comm is not None:
            assert self._group is not None
            same_everywhere(model.named_parameters(), self._group)
            spread([*model.parameters(), *model.buffers()], self._group)

    def average(self, params: Iterable[Tensor]) -> None:
        """Replace gradients by their means."""
        if self.comm is not None:
            assert self._group is not None
            average_gradients(params, self._group)

    def means(self, values: Mapping[str, float]) -> dict[str, float]:
        """The means of values, of which everybody has the same names."""
        if self.comm is None:
            return dict(values)
        own = np.array(list(values.values()), np.float64)
        total = np.empty_like(own)
        self.comm.Allreduce(own, total)
        return dict(zip(values, (total / self.size).tolist(), strict=True))

    def any(self, yes: bool) -> bool:
        """Whether it is so in any process."""
        return yes if self.comm is None else max(self.comm.allgather(yes))

    def wait(self) -> None:
        """Wait for everybody."""
        if self.comm is not None:
            self.comm.Barrier()

    def failed(self) -> None:
        """End all processes after an error in this one, as they would wait for it for ever."""
        if self.comm is not None and self.size > 1:
            traceback.print_exc()
            sys.stderr.flush()
            self.comm.Abort(1)

    def position(self, position: int, size: int) -> int:
        """Batches of an epoch that this process has done, where each of `size` had done so many.

        ValueError if so many batches cannot be dealt out again.
        """
        total = position * size
        if total % self.size:
            raise ValueError(
                f"{total} batches of an epoch are done by {size} processes; they are no multiple "
                f"of the {self.size} that go on; write checkpoints at the ends of epochs"
            )
        return total // self.size

    def share(self, train: Any) -> Any:
        """This process's part of the batches.

        Of a DataLoader in order or shuffled it has every `size`-th sample (`DistributedSampler`);
        of other batches every `size`-th, and the last are left out if they do not go round.
        ValueError for a DataLoader with an order of its own.
        """
        if self.size == 1:
            return train
        if not isinstance(train, DataLoader):
            return _EveryNth(train, self.size, self._rank)
        if isinstance(train.sampler, DistributedSampler):
            return train
        kind = type(train.sampler)
        if kind not in (RandomSampler, SequentialSampler) or train.batch_size is None:
            raise ValueError(
                f"Trainer: a DataLoader with {kind.__name__} cannot be dealt out to {self.size} "
                "processes; give it sampler=DistributedSampler(dataset) or batches of your own"
            )
        sampler = DistributedSampler(
            train.dataset, self.size, self._rank, shuffle=kind is RandomSampler
        )
        names = ("batch_size", "num_workers", "collate_fn", "drop_last", "timeout",
                 "worker_init_fn", "persistent_workers", "in_order")  # fmt: skip
        options = {name: getattr(train, name) for name in names}
        if train.num_workers:
            options["prefetch_factor"] = train.prefetch_factor
            options["multiprocessing_context"] = train.multiprocessing_context
        return DataLoader(train.dataset, sampler=sampler, **options)

    @property
    def _rank(self) -> int:
        return 0 if self._group is None else self._group.rank()


class _EveryNth:
    """Every `size`-th of some batches, from `rank` on, as long as there is one for everybody."""

    def __init__(self, batches: Any, size: int, rank: int) -> None:
        self.batches, self.size, self.rank = batches, size, rank

    def __len__(self) -> int:
        """TypeError for a stream without a length."""
        return len(self.batches) // self.size

    def __iter__(self) -> Iterator[Any]:
        going = iter(self.batches)
        while len(turn := list(islice(going, self.size))) == self.size:
            yield turn[self.rank]
