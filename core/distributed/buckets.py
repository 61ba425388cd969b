"""Gradients that are averaged over processes, several at a time, while backward goes on.

The scheme is that of PyTorch's DistributedDataParallel (Li et al., 2020, "PyTorch Distributed"):
parameters in the reverse of their order make buckets; a bucket whose gradients are all there is
sent without waiting for it, and the last one waits for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rushlight.core.distributed.groups import Array, ProcessGroup, packed, put
from rushlight.core.ops.creation import zeros
from rushlight.core.tensor.tensor import Tensor

LARGEST = 25.0  # MB of a bucket


def buckets_of(params: Sequence[Tensor], megabytes: float = LARGEST) -> list[list[int]]:
    """Numbers of parameters, the last first, in lists of about so many MB and of one dtype each."""
    lists: list[list[int]] = []
    nbytes, dtype = 0, None
    for number in reversed(range(len(params))):
        param = params[number]
        if not lists or param.dtype is not dtype or nbytes + param.nbytes > megabytes * 1e6:
            lists.append([])
            nbytes, dtype = 0, param.dtype
        lists[-1].append(number)
        nbytes += param.nbytes
    return lists


class Averager:
    """Averages the gradients of parameters over a group, a bucket at a time.

    `add(number)` says that a parameter's gradient is there; `finish` waits for what was sent and
    writes the averages into `.grad`. Every process has to add all of them.
    """

    def __init__(self, params: Sequence[Tensor], group: ProcessGroup, megabytes: float) -> None:
        self.params, self.group = list(params), group
        self.buckets = buckets_of(self.params, megabytes)
        self._bucket = {n: i for i, numbers in enumerate(self.buckets) for n in numbers}
        self._missing = [set(numbers) for numbers in self.buckets]
        self._sent: dict[int, tuple[Any, Array, Array]] = {}

    @property
    def begun(self) -> bool:
        """Whether some gradients, but not all, are there."""
        left = sum(map(len, self._missing))
        return 0 < left < len(self.params)

    def missing(self) -> list[int]:
        """Numbers of the parameters whose gradients are not there yet."""
        return sorted(number for left in self._missing for number in left)

    def add(self, number: int) -> bool:
        """Note a gradient, and send its bucket if that is complete; whether all are there."""
        at = self._bucket[number]
        self._missing[at].discard(number)
        # Every process sends buckets in one order, whatever the order of their gradients.
        for i in range(len(self._sent), len(self.buckets)):
            if self._missing[i]:
                return False
            self._send(i)
        return True

    def _send(self, i: int) -> None:
        from mpi4py import MPI

        rows = []
        for number in self.buckets[i]:
            param = self.params[number]
            grad = zeros(param.shape, dtype=param.dtype) if param.grad is None else param.grad
            rows.append(packed(grad).reshape(-1))
        sent = np.concatenate(rows)
        received = np.empty_like(sent)
        self._sent[i] = self.group.comm.Iallreduce(sent, received, op=MPI.SUM), sent, received

    def finish(self) -> None:
        """Wait for all buckets and write the means into the gradients."""
        for i, (request, _, received) in sorted(self._sent.items()):
            request.Wait()
            mean, start = received / received.dtype.type(self.group.size()), 0
            for number in self.buckets[i]:
                param = self.params[number]
                values = mean[start : start + param.numel()]
                start += param.numel()
                if param.grad is None:
                    param.grad = zeros(param.shape, dtype=param.dtype, device=param.device)
                put(param.grad, values)
        self.reset()

    def reset(self) -> None:
        """Forget what was noted, for the next backward."""
        self._missing = [set(numbers) for numbers in self.buckets]
        self._sent = {}


def average_gradients(params: Iterable[Tensor], group: ProcessGroup) -> None:
    """Replace the gradients of parameters by their means over the group, after backward."""
    trained = [param for param in params if param.requires_grad]
    if group.comm is None or not trained:
        return
    averager = Averager(trained, group, LARGEST)
    for number in reversed(range(len(trained))):
        averager.add(number)
    averager.finish()


def same_everywhere(named: Iterable[tuple[str, Tensor]], group: ProcessGroup) -> None:
    """Raise ValueError in every process if their parameters differ in names, shapes or dtypes."""
    rows = [f"{name} {tuple(t.shape)} {t.dtype.name}" for name, t in named]
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    digests = group.comm.allgather(digest)
    if len(set(digests)) > 1:
        others = [rank for rank, other in enumerate(digests) if other != digests[0]]
        raise ValueError(
            f"the parameters of ranks {others} differ from those of rank 0 in names, shapes or "
            f"dtypes; this process has {len(rows)}"
        )


def spread(tensors: Iterable[Tensor], group: ProcessGroup) -> None:
    """Give every process the values that the first process has."""
    for tensor in tensors:
        values = packed(tensor)
        group.comm.Bcast(values, root=0)
        put(tensor, values)
