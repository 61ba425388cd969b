"""torch.utils.data.distributed: the samples of one process out of several."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rushlight.core.backends import Generator
from rushlight.core.functional.random import randperm
from rushlight.core.torch_paths.machine import distributed
from rushlight.core.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th sample from `rank` on, of the order that seed and epoch give.

    num_replicas and rank: by default those of the process group. The last samples are repeated so
    that all processes get as many, or with drop_last left out. `set_epoch` changes the order.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        size = distributed.get_world_size() if num_replicas is None else num_replicas
        place = distributed.get_rank() if rank is None else rank
        if not 0 <= place < size:
            raise ValueError(
                f"DistributedSampler: rank {place} is out of range for {size} processes"
            )
        self.dataset, self.num_replicas, self.rank = dataset, size, place
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        count = len(dataset)
        per_process = count // size if drop_last else math.ceil(count / size)
        self.num_samples, self.total_size = per_process, per_process * size

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            order = randperm(count, generator=Generator(self.seed + self.epoch)).tolist()
        if count:
            order = [order[i % count] for i in range(self.total_size)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Another order in each epoch."""
        self.epoch = epoch
