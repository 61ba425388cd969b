"""torch.distributed with one process: rank 0 of a group of size 1.

A program of several processes runs with one: collectives give the process its own values back.
What needs a second process says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import Enum
from typing import Any

from rushlight.core.settings.standins import refuse_all
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.torch_paths.machine.futures import Future

ALONE = "there is one process here, of rank 0 and world size 1; run the program without a launcher"


class Backend(str):
    """The name of a backend, in lower case."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


class _Operation(Enum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class ReduceOp:
    """How values of several processes are joined; of one process all give the value itself."""

    SUM, AVG, PRODUCT = _Operation.SUM, _Operation.AVG, _Operation.PRODUCT
    MIN, MAX = _Operation.MIN, _Operation.MAX
    BAND, BOR, BXOR = _Operation.BAND, _Operation.BOR, _Operation.BXOR
    PREMUL_SUM, RedOpType = _Operation.PREMUL_SUM, _Operation


reduce_op = ReduceOp


class ProcessGroup:
    """A group of processes: this one."""

    def rank(self) -> int:
        """0."""
        return 0

    def size(self) -> int:
        """1."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return str(_state.get("backend", Backend.GLOO))


class GroupMember:
    """Names for groups: WORLD, once there is one, and NON_GROUP_MEMBER."""

    NON_GROUP_MEMBER = -100


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return _state.get("world")


class group(metaclass=_World):
    """`group.WORLD` is the group of all processes."""


class Work:
    """What a collective with async_op=True returns: it is done."""

    def __init__(self, value: Any = None) -> None:
        self._value = value

    def wait(self, timeout: Any = None) -> bool:
        """True."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    is_success = is_completed

    def result(self) -> Any:
        """The tensors of the call."""
        return self._value

    def get_future(self) -> Future:
        """A future that has the tensors."""
        future = Future()
        future.set_result(self._value)
        return future


_state: dict[str, Any] = {}
default_pg_timeout = timedelta(minutes=30)


def is_available() -> bool:
    """True: a group of one process."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return "world" in _state


def is_gloo_available() -> bool:
    """True: any backend's name serves a group of one."""
    return True


def is_nccl_available() -> bool:
    """False: there is no CUDA."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether a launcher of torch started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_backend_available(backend: str) -> bool:
    """Whether this is "gloo"."""
    return backend.lower() == Backend.GLOO


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
    """Make the group of this process. Any backend's name is accepted.

    ValueError for a world size above 1, given or in the environment (WORLD_SIZE), for another rank
    than 0, and when there is a group already.
    """
    size = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", 1))
    place = rank if rank >= 0 else int(os.environ.get("RANK", 0))
    if size != 1 or place != 0:
        raise ValueError(
            f"init_process_group: world size {size} and rank {place} are not supported; {ALONE}"
        )
    if is_initialized():
        raise ValueError(
            "init_process_group: there is a group already; call destroy_process_group() first"
        )
    _state.update(world=ProcessGroup(), backend=Backend(backend or Backend.GLOO))


def destroy_process_group(group: Any = None) -> None:
    """Forget the group."""
    _world(group)
    if group is None or group is _state.get("world"):
        _state.clear()


def _world(group: Any = None) -> None:
    if not is_initialized():
        raise ValueError("there is no process group; call init_process_group first")


def get_rank(group: Any = None) -> int:
    """0."""
    _world(group)
    return 0


def get_world_size(group: Any = None) -> int:
    """1."""
    _world(group)
    return 1


def get_backend(group: Any = None) -> str:
    """The name that `init_process_group` was given."""
    _world(group)
    return str(_state["backend"])


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """0."""
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """0."""
    return 0


get_global_rank = get_group_rank


def get_process_group_ranks(group: Any = None) -> list[int]:
    """[0]."""
    return [0]


def new_group(ranks: Sequence[int] | None = None, *args: Any, **options: Any) -> ProcessGroup:
    """A group of this process. ValueError for ranks beside 0."""
    _world()
    if any(ranks or ()):
        raise ValueError(f"new_group: ranks {list(ranks or ())} are not supported; {ALONE}")
    return ProcessGroup()


def new_subgroups(*args: Any, **options: Any) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """The group of this process, and the list of it."""
    subgroup = new_group()
    return subgroup, [subgroup]


def _done(async_op: bool, value: Any) -> Work | None:
    return Work(value) if async_op else None


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Nothing to wait for."""
    _world(group)
    return _done(async_op, None)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Nothing to wait for."""
    _world(group)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The tensor stays as it is: it is the sum, product, mean or extreme of one."""
    _world(group)
    return _done(async_op, [tensor])


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The tensor stays as it is. ValueError for another dst than 0."""
    _only_me("reduce", dst or group_dst)
    return all_reduce(tensor, op, group, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """The tensor stays as it is. ValueError for another src than 0."""
    _only_me("broadcast", src or group_src)
    return all_reduce(tensor, None, group, async_op)


def _only_me(name: str, rank: int | None) -> None:
    if rank:
        raise ValueError(f"{name}: rank {rank} is not supported; {ALONE}")


def _fill(name: str, outs: Sequence[Tensor], values: Sequence[Tensor], group: Any) -> None:
    _world(group)
    if len(outs) != len(values):
        raise ValueError(
            f"{name}: {len(outs)} tensors for {len(values)}; the group has one process"
        )
    with no_grad():
        for out, value in zip(outs, values, strict=True):
            out.copy_(value)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor into the only one of the list."""
    _fill("all_gather", tensor_list, [tensor], group)
    return _done(async_op, tensor_list)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the input into the output."""
    _fill(
        "all_gather_into_tensor",
        [output_tensor],
        [input_tensor.reshape(output_tensor.shape)],
        group,
    )
    return _done(async_op, output_tensor)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the tensor into the only one of gather_list."""
    _only_me("gather", dst or group_dst)
    _fill("gather", gather_list or [], [tensor], group)
    return _done(async_op, gather_list)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the only one of scatter_list into the tensor."""
    _only_me("scatter", src or group_src)
    _fill("scatter", [tensor], scatter_list or [], group)
    return _done(async_op, tensor)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the only one of input_list into the output."""
    _fill("reduce_scatter", [output], input_list, group)
    return _done(async_op, output)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the input into the output."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the only input into the only output."""
    _fill("all_to_all", output_tensor_list, input_tensor_list, group)
    return _done(async_op, output_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the input into the output."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the object into the list's only place."""
    _world(group)
    object_list[0] = obj


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Put the object into the list's only place."""
    if object_gather_list is not None:
        all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, *args: Any, **options: Any
) -> None:
    """The list stays as it is."""
    _only_me("broadcast_object_list", src)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    *args: Any,
    **options: Any,
) -> None:
    """Put the only object into the list's first place."""
    scatter_object_output_list[0] = (scatter_object_input_list or [None])[0]


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function itself; torch's elastic launcher notes its errors."""
    return fn


@contextmanager
def _coalescing_manager(*args: Any, **options: Any) -> Iterator[Work]:
    yield Work()


globals().update(refuse_all(
    "distributed", "send recv isend irecv batch_isend_irecv P2POp send_object_list "
    "recv_object_list TCPStore FileStore HashStore PrefixStore Store init_device_mesh DeviceMesh "
    "launch rpc", ALONE,
))  # fmt: skip
