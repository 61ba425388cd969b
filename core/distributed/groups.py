"""The group of processes that a program belongs to: one alone, or all that `mpirun` started.

MPI is reached through mpi4py (the extra `rushlight[mpi]`). It is imported when a group is made, as
its import already joins the processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType, bfloat16, bool_, float16
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
# What launchers tell the processes that they start: how many there are.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "PMIX_SIZE")
OPERATIONS = {"SUM": "SUM", "AVG": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX",
              "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR"}  # fmt: skip


class ProcessGroup:
    """Processes that call collectives together; without an MPI communicator this one alone.

    comm: mpi4py's communicator. ranks: the members' ranks among all processes.
    """

    def __init__(self, comm: Any = None, ranks: Sequence[int] = (0,), name: str = "gloo") -> None:
        self.comm, self.ranks, self._name = comm, list(ranks), name

    def rank(self) -> int:
        """This process's number within the group, from 0 on."""
        return 0 if self.comm is None else int(self.comm.Get_rank())

    def size(self) -> int:
        """How many processes belong to the group."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend's name: that which was asked for, or "mpi"."""
        return self._name

    def place(self, rank: int) -> int:
        """The number within the group of a rank among all processes. ValueError for others."""
        if rank not in self.ranks:
            raise ValueError(f"rank {rank} is not in the group of ranks {self.ranks}")
        return self.ranks.index(rank)

    def part(self, ranks: Sequence[int]) -> ProcessGroup | None:
        """The group of some ranks, which every process of this group asks for; None outside it."""
        wanted = list(ranks)
        for rank in wanted:
            self.place(rank)
        if self.comm is None:
            return ProcessGroup(None, wanted, self._name)
        inside = self.rank() in (self.place(r) for r in wanted)
        own = wanted.index(self.ranks[self.rank()]) if inside else 0
        comm = self.comm.Split(0 if inside else _undefined(), own)
        return ProcessGroup(comm, wanted, self._name) if inside else None


def _undefined() -> int:
    from mpi4py import MPI

    return int(MPI.UNDEFINED)


_state: dict[str, ProcessGroup] = {}


def world() -> ProcessGroup | None:
    """The group of all processes; None before one was made."""
    return _state.get("world")


def required(group: Any = None) -> ProcessGroup:
    """`group`, or that of all processes. ValueError where there is none."""
    found = _state.get("world")
    if found is None:
        raise ValueError("there is no process group; call init_process_group first")
    return group if isinstance(group, ProcessGroup) else found


def launched() -> int:
    """How many processes an MPI launcher says that it has started; 1 without one."""
    for name in _SIZES:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1


def begin(backend: str, size: int | None, rank: int | None) -> ProcessGroup:
    """Make the group of all processes.

    backend: "mpi" asks for MPI; any other takes it where a launcher started several processes.
    size, rank: what the program says of them. ValueError where that is not so, and if there is a
    group already; ModuleNotFoundError, with the way out, where MPI is needed and mpi4py is missing.
    """
    if "world" in _state:
        raise ValueError(
            "init_process_group: there is a group already; call destroy_process_group() first"
        )
    group = ProcessGroup(name=backend)
    if backend == "mpi" or launched() > 1:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ModuleNotFoundError(
                f"init_process_group: {launched()} processes talk over MPI, which mpi4py brings: "
                f"{error}; install it with pip install 'rushlight[mpi]'"
            ) from None
        comm = MPI.COMM_WORLD
        group = ProcessGroup(comm, range(comm.Get_size()), "mpi")
    if size not in (None, group.size()) or rank not in (None, group.rank()):
        raise ValueError(
            f"init_process_group: world size {size} and rank {rank} are not those of MPI, which "
            f"says {group.size()} and {group.rank()}; start the program with mpirun -n SIZE python "
            "PROGRAM"
        )
    _state["world"] = group
    return group


def end(group: Any = None) -> None:
    """Forget a group: all groups, if it is None or that of all processes."""
    if group is None or group is required(group) is _state.get("world"):
        _state.clear()
    elif isinstance(group, ProcessGroup) and group.comm is not None:
        group.comm.Free()


# --- tensors as MPI takes them ----------------------------------------------------------------

_WIDER: dict[DType, str] = {float16: "float32", bfloat16: "float32", bool_: "uint8"}


def packed(tensor: Tensor) -> Array:
    """The values of a tensor as a contiguous array of the host that MPI has a type for.

    Halves become float32, and bools bytes.
    """
    value = tensor.detach()
    if value.dtype in _WIDER:
        value = value.to(_WIDER[value.dtype])
    return np.ascontiguousarray(value.cpu().numpy())


def put(tensor: Tensor, values: Array) -> None:
    """Write what `packed` gave, or what became of it, into a tensor, whatever its device."""
    with no_grad():
        tensor.copy_(from_numpy(values.reshape(tensor.shape)).to(tensor.dtype).to(tensor.device))


def operation(name: str) -> Any:
    """MPI's operation for a name of torch's ReduceOp. ValueError for one that it does not have."""
    from mpi4py import MPI

    if name not in OPERATIONS:
        raise ValueError(f"ReduceOp.{name} is not supported; supported: {', '.join(OPERATIONS)}")
    return getattr(MPI, OPERATIONS[name])


def reduced(group: ProcessGroup, tensor: Tensor, name: str, into: Callable[..., None]) -> Array:
    """What becomes of a tensor's values; into(sent, received, operation) is the call of MPI."""
    sent = packed(tensor)
    received = np.empty_like(sent)
    into(sent, received, op=operation(name))
    return received / received.dtype.type(group.size()) if name == "AVG" else received
