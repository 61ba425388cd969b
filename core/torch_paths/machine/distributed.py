"""torch.distributed: collectives of the processes that `mpirun` started, or of this one alone.

    mpirun -n 4 python train.py

MPI carries them (the extra `rushlight[mpi]`), on whatever device the tensors are: values go through
the memory of the host, halves as float32. A program that no launcher started is rank 0 of a group
of one, where collectives give the process its own values back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from typing import Any

import numpy as np

from rushlight.core.distributed import groups
from rushlight.core.distributed.groups import ProcessGroup, packed, put, reduced, required
from rushlight.core.settings.standins import refuse_all
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.torch_paths.machine.futures import Future

LAUNCHER = "mpirun starts the processes; collectives and send and recv are there"


class Backend(str):
    """The name of a backend, in lower case."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


class _Operation(Enum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class ReduceOp:
    """How values of several processes are joined."""

    SUM, AVG, PRODUCT = _Operation.SUM, _Operation.AVG, _Operation.PRODUCT
    MIN, MAX = _Operation.MIN, _Operation.MAX
    BAND, BOR, BXOR = _Operation.BAND, _Operation.BOR, _Operation.BXOR
    PREMUL_SUM, RedOpType = _Operation.PREMUL_SUM, _Operation


reduce_op = ReduceOp


class GroupMember:
    """Names for groups: WORLD, once there is one, and NON_GROUP_MEMBER."""

    NON_GROUP_MEMBER = -100


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return groups.world()


class group(metaclass=_World):
    """`group.WORLD` is the group of all processes."""


class Work:
    """What a collective with async_op=True returns; `wait` ends it."""

    def __init__(self, value: Any = None, request: Any = None) -> None:
        self._value, self._request = value, request
        self.after: Callable[[], None] | None = None  # writes the values

    def wait(self, timeout: Any = None) -> bool:
        """True, once the values are there."""
        if self._request is not None:
            self._request.Wait()
            self._request = None
            if self.after is not None:
                self.after()
        return True

    def is_completed(self) -> bool:
        """Whether the values are there."""
        if self._request is not None and self._request.Test():
            self.wait()
        return self._request is None

    is_success = is_completed

    def result(self) -> Any:
        """The tensors of the call."""
        self.wait()
        return self._value

    def get_future(self) -> Future:
        """A future that has the tensors."""
        future = Future()
        future.set_result(self.result())
        return future


default_pg_timeout = timedelta(minutes=30)


def is_available() -> bool:
    """True: a group of one process at least."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return groups.world() is not None


def is_gloo_available() -> bool:
    """True: any backend's name serves a group of one."""
    return True


def is_nccl_available() -> bool:
    """False: there is no CUDA."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_torchelastic_launched() -> bool:
    """Whether a launcher of torch started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_backend_available(backend: str) -> bool:
    """Whether this is "gloo", or "mpi" with mpi4py installed."""
    name = backend.lower()
    return name == Backend.GLOO or (name == Backend.MPI and is_mpi_available())


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of the processes that `mpirun` started, or of this one.

    Any backend's name is accepted; "mpi" asks for MPI even for one process. ValueError where MPI
    says another size or rank than `world_size` and `rank`, or WORLD_SIZE and RANK of the
    environment, and when there is a group already; ModuleNotFoundError where several processes were
    started and mpi4py is not installed.

    The other arguments, such as `timeout` and `store`, change nothing: MPI has no such settings.
    """
    told = {"WORLD_SIZE": world_size, "RANK": rank}
    for name, value in told.items():
        if value < 0 and os.environ.get(name, "").isdigit():
            told[name] = int(os.environ[name])
    size, place = (None if value < 0 else value for value in told.values())
    groups.begin(Backend(backend or Backend.GLOO), size, place)


def destroy_process_group(group: Any = None) -> None:
    """Forget the group, or all of them."""
    required(group)
    groups.end(group)


def get_rank(group: Any = None) -> int:
    """This process's number within the group."""
    return required(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes the group has."""
    return required(group).size()


def get_backend(group: Any = None) -> str:
    """The name that `init_process_group` was given; "mpi" where MPI carries the values."""
    return required(group).name()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine."""
    found = required()
    if found.comm is None:
        return 0
    from mpi4py import MPI

    return int(found.comm.Split_type(MPI.COMM_TYPE_SHARED).Get_rank())


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number within a group of a rank among all processes. ValueError for others."""
    return required(group).place(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all processes of a number within a group."""
    return required(group).ranks[group_rank]


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The members' ranks among all processes."""
    return list(required(group).ranks)


def new_group(ranks: Sequence[int] | None = None, *args: Any, **options: Any) -> Any:
    """A group of some ranks; every process has to call this. ValueError for unknown ranks.

    Those outside get GroupMember.NON_GROUP_MEMBER.
    """
    world = required()
    part = world.part(world.ranks if ranks is None else list(ranks))
    return GroupMember.NON_GROUP_MEMBER if part is None else part


def new_subgroups(group_size: int | None = None, *args: Any, **options: Any) -> Any:
    """This process's group of `group_size` neighbouring ranks, and the list of all such groups.

    ValueError where the processes cannot be divided so.
    """
    world = required()
    size = world.size() if group_size is None else group_size
    if size < 1 or world.size() % size:
        raise ValueError(f"new_subgroups: {world.size()} processes are no groups of {size}")
    parts = [new_group(world.ranks[i : i + size]) for i in range(0, world.size(), size)]
    return parts[world.rank() // size], parts


def _done(async_op: bool, value: Any) -> Work | None:
    return Work(value) if async_op else None


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until every process of the group is here."""
    found = required(group)
    if found.comm is not None:
        found.comm.Barrier()
    return _done(async_op, None)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until every process of the group is here."""
    barrier(group)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put the sum, mean, product or extreme over the processes into every one's `tensor`.

    async_op: returns a Work, whose `wait` writes the values. ValueError for an unknown op.
    """
    found = required(group)
    if found.comm is None:
        return _done(async_op, [tensor])
    if not async_op:
        put(tensor, reduced(found, tensor, op.name, found.comm.Allreduce))
        return None
    sent = packed(tensor)
    received = np.empty_like(sent)
    request = found.comm.Iallreduce(sent, received, op=groups.operation(op.name))
    work = Work([tensor], request)

    def write() -> None:
        mean = op is ReduceOp.AVG
        put(tensor, received / received.dtype.type(found.size()) if mean else received)

    work.after = write
    return work


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As all_reduce, into the tensor of rank `dst` alone. ValueError for an unknown rank."""
    found, root = _root("reduce", group, dst, group_dst)
    if found.comm is not None:
        values = reduced(
            found, tensor, op.name, lambda s, r, op: found.comm.Reduce(s, r, op=op, root=root)
        )
        if found.rank() == root:
            put(tensor, values)
    return _done(async_op, [tensor])


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the tensor of rank `src` into everybody's. ValueError for a rank not in the group."""
    found, root = _root("broadcast", group, src, group_src)
    if found.comm is not None:
        values = packed(tensor)
        found.comm.Bcast(values, root=root)
        put(tensor, values)
    return _done(async_op, [tensor])


def _root(name: str, group: Any, rank: int | None, place: int | None) -> tuple[ProcessGroup, int]:
    """The group, and the number within it of a rank among all processes or within the group."""
    found = required(group)
    if place is not None:
        if not 0 <= place < found.size():
            raise ValueError(f"{name}: {place} is out of range for {found.size()} processes")
        return found, place
    try:
        return found, found.place(rank or 0)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _gathered(group: ProcessGroup, tensor: Tensor) -> list[Any]:
    """The values of everybody's tensor, as arrays."""
    own = packed(tensor)
    if group.comm is None:
        return [own]
    rows = np.empty((group.size(), *own.shape), own.dtype)
    group.comm.Allgather(own, rows)
    return list(rows)


def _fill(name: str, outs: Sequence[Tensor], values: Sequence[Any], group: ProcessGroup) -> None:
    if len(outs) != len(values):
        raise ValueError(
            f"{name}: {len(outs)} tensors for {len(values)}; the group has {group.size()} processes"
        )
    for out, value in zip(outs, values, strict=True):
        if out.numel() != value.size:
            raise ValueError(
                f"{name}: a tensor of shape {tuple(out.shape)} takes no {value.size} values"
            )
        put(out, value)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write everybody's tensor, all of one shape, into the list, by rank."""
    found = required(group)
    _fill("all_gather", tensor_list, _gathered(found, tensor), found)
    return _done(async_op, tensor_list)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write everybody's input into the output, one after another or stacked."""
    found = required(group)
    rows = np.stack(_gathered(found, input_tensor))
    _fill("all_gather_into_tensor", [output_tensor], [rows], found)
    return _done(async_op, output_tensor)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write everybody's tensor into the list of rank `dst`."""
    found, root = _root("gather", group, dst, group_dst)
    rows = _gathered(found, tensor)
    if found.rank() == root:
        _fill("gather", gather_list or [], rows, found)
    return _done(async_op, gather_list)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the tensors of the list that rank `src` has into everybody's tensor, by rank."""
    found, root = _root("scatter", group, src, group_src)
    values = None
    if found.rank() == root:
        values = [packed(value) for value in scatter_list or []]
        if len(values) != found.size():
            raise ValueError(f"scatter: {len(values)} tensors for {found.size()} processes")
    received = packed(tensor)
    if found.comm is None:
        assert values is not None
        received = values[0]
    else:
        found.comm.Scatter(None if values is None else np.stack(values), received, root=root)
    _fill("scatter", [tensor], [received], found)
    return _done(async_op, tensor)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Put what is reduced of everybody's list into the outputs, by rank."""
    found = required(group)
    if len(input_list) != found.size():
        raise ValueError(f"reduce_scatter: {len(input_list)} tensors for {found.size()} processes")
    values = [
        packed(t) if found.comm is None else reduced(found, t, op.name, found.comm.Allreduce)
        for t in input_list
    ]
    _fill("reduce_scatter", [output], [values[found.rank()]], found)
    return _done(async_op, output)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Put what is reduced of everybody's input, in parts of the output's size, into the outputs."""
    parts = list(input.reshape(required(group).size(), *output.shape).unbind(0))
    return reduce_scatter(output, parts, op, group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send tensor i of the inputs to rank i, and write what comes from rank i to output i."""
    found = required(group)
    values = [packed(tensor) for tensor in input_tensor_list]
    if len(values) != found.size():
        raise ValueError(f"all_to_all: {len(values)} tensors for {found.size()} processes")
    _fill(
        "all_to_all",
        output_tensor_list,
        values if found.comm is None else found.comm.alltoall(values),
        found,
    )
    return _done(async_op, output_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """all_to_all of parts along the first dim, of equal sizes unless they are given."""
    count = required(group).size()
    parts = [
        list(x.split(list(sizes) if sizes else x.shape[0] // count, 0))
        for x, sizes in ((output, output_split_sizes), (input, input_split_sizes))
    ]
    all_to_all(parts[0], parts[1], group)
    return _done(async_op, output)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to rank `dst`, which calls `recv`. ValueError for this or an unknown rank."""
    found, place = _root("send", group, dst, group_dst)
    if place == found.rank():
        raise ValueError(f"send: rank {place} is this process; send to another one")
    found.comm.Send(packed(tensor), dest=place, tag=tag)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Write what rank `src`, or with None any, has sent into `tensor`; the sender's rank."""
    found = required(group)
    if found.comm is None:
        raise ValueError("recv: there is one process; nobody sends")
    from mpi4py import MPI

    some = src is not None or group_src is not None
    place = _root("recv", group, src, group_src)[1] if some else MPI.ANY_SOURCE
    values, status = packed(tensor), MPI.Status()
    found.comm.Recv(values, source=place, tag=tag, status=status)
    put(tensor, values)
    return found.ranks[status.Get_source()]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put everybody's object into the list, by rank; they travel as pickles."""
    found = required(group)
    object_list[:] = [obj] if found.comm is None else found.comm.allgather(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put everybody's object into the list of rank `dst`."""
    found, root = _root("gather_object", group, dst, group_dst)
    values = [obj] if found.comm is None else found.comm.gather(obj, root=root)
    if found.rank() == root and object_gather_list is not None:
        object_gather_list[:] = values


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Put the objects of rank `src` into everybody's list."""
    found, root = _root("broadcast_object_list", group, src, group_src)
    if found.comm is not None:
        object_list[:] = found.comm.bcast(list(object_list), root=root)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put object i of the list that rank `src` has into the first place of rank i's list."""
    found, root = _root("scatter_object_list", group, src, group_src)
    values = scatter_object_input_list
    if found.rank() == root and len(values or ()) != found.size():
        raise ValueError(f"scatter_object_list: {len(values or ())} for {found.size()} processes")
    own = (values or [None])[0] if found.comm is None else found.comm.scatter(values, root=root)
    scatter_object_output_list[0] = own


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function itself; torch's elastic launcher notes its errors."""
    return fn


@contextmanager
def _coalescing_manager(*args: Any, **options: Any) -> Iterator[Work]:
    yield Work()


globals().update(refuse_all(
    "distributed", "isend irecv batch_isend_irecv P2POp send_object_list "
    "recv_object_list TCPStore FileStore HashStore PrefixStore Store init_device_mesh DeviceMesh "
    "launch rpc", LAUNCHER,
))  # fmt: skip
