"""Wrappers for several devices and processes: the module itself under the name `module`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rushlight.core.distributed.buckets import LARGEST, Averager, same_everywhere, spread
from rushlight.core.distributed.groups import ProcessGroup, world
from rushlight.core.nn.module import Module
from rushlight.core.tensor.grad_mode import is_grad_enabled
from rushlight.core.tensor.tensor import Tensor

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "parallel_apply"]


class _Wrapped(Module):
    """A module whose calls go to `module`; names in the state dict begin with "module."."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **options: Any) -> Any:
        """The module's own result."""
        return self.module(*args, **options)


class DataParallel(_Wrapped):
    """torch's wrapper that splits a batch over GPUs. Here the batch runs whole, on one device.

    device_ids and output_device are for programs that give them; None, [] and one device are
    accepted, ValueError for several.

    `module` is called on the whole batch; `dim` is where torch would split it.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__(module)
        if len(device_ids or ()) > 1:
            raise ValueError(
                f"DataParallel: device_ids {list(device_ids or ())} are not "
                "supported; supported: one device"
            )
        self.dim, self.device_ids, self.output_device = dim, list(device_ids or ()), output_device


class DistributedDataParallel(_Wrapped):
    """A module whose gradients are averaged over processes while backward goes on.

    Every process of the group, which `rl.distributed.init_process_group` made, wraps the same
    module and calls it with its own samples. Parameters and buffers begin with rank 0's values.
    bucket_cap_mb: gradients travel together in buckets of about so many MB. broadcast_buffers:
    rank 0's buffers (running means) are taken before each forward in training.
    find_unused_parameters: parameters that a result does not depend on count as zero gradients;
    else such a backward is an error at the next forward, as others wait for them. In a group of one
    it is the module alone. Captured steps (`rl.jit`) are not followed: `rl.Trainer(strategy="ddp")`
    averages after them.

    `device_ids`, `output_device`, `dim`, `check_reduction`, `gradient_as_bucket_view` and
    `static_graph` are for programs that give them. ValueError where the processes' parameters
    differ, RuntimeError for gradients that never came.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(module)
        self.dim, self.device_ids, self.output_device = dim, device_ids, output_device
        self.require_backward_grad_sync = True
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        group = process_group if isinstance(process_group, ProcessGroup) else world()
        self._averager: Averager | None = None
        if group is None or group.comm is None:
            return
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel: no parameter of the module requires a gradient"
            )
        self._names = [name for name, _ in named]
        same_everywhere(module.named_parameters(), group)
        spread([*module.parameters(), *module.buffers()], group)
        params = [param for _, param in named]
        self._averager = Averager(params, group, bucket_cap_mb or LARGEST)
        for number, param in enumerate(params):
            param.register_post_accumulate_grad_hook(partial(self._arrived, number))

    def _arrived(self, number: int, _: Tensor) -> None:
        averager = self._averager
        if averager is not None and self.require_backward_grad_sync and averager.add(number):
            averager.finish()

    def forward(self, *args: Any, **options: Any) -> Any:
        """The module's own result."""
        averager = self._averager
        if averager is None:
            return self.module(*args, **options)
        if averager.begun:
            missing = [self._names[number] for number in averager.missing()[:5]]
            raise RuntimeError(
                f"DistributedDataParallel: the last backward gave no gradients for "
                f"{', '.join(missing)}, and other processes wait for them; pass "
                "find_unused_parameters=True if not every loss depends on every parameter"
            )
        if self.training and self.broadcast_buffers:
            spread(self.module.buffers(), averager.group)
        result = self.module(*args, **options)
        if self.find_unused_parameters and self.require_backward_grad_sync and is_grad_enabled():
            reached = _leaves(result)
            for number, param in enumerate(averager.params):
                if id(param) not in reached:
                    averager.add(number)
        return result

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients add up in this process alone; the next backward outside averages the sum."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, *args: Any, **options: Any) -> Iterator[None]:
        """Nothing to join: give every process as many batches (`DistributedSampler`)."""
        yield


def _leaves(result: Any) -> set[int]:
    """The ids of the leaves whose gradients a backward from these results reaches."""
    tensors = list(_tensors(result))
    found = {id(t) for t in tensors if t.grad_fn is None}
    todo: list[Any] = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = set(map(id, todo))
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is None or id(node) in seen:
                continue
            variable = getattr(node, "variable", None)
            if variable is not None:
                found.add(id(variable))
                continue
            seen.add(id(node))
            todo.append(node)
    return found


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a result, which may be a container or an object of fields."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "__dict__"):
        yield from _tensors(vars(value))


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """module(*inputs, **module_kwargs), on one device.

    `device_ids`, `output_device` and `dim` are DataParallel's, and so is the ValueError for several
    devices.
    """
    wrapped = DataParallel(module, device_ids, output_device, dim)
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return wrapped(*args, **(module_kwargs or {}))


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Any = None,
) -> list[Any]:
    """Each module called with its input, one after another.

    `modules` and `inputs` are as many; `kwargs_tup` has a dict for each; `devices` changes nothing.
    Raises ValueError for other counts.
    """
    options = kwargs_tup or [{}] * len(modules)
    return [
        module(*(each if isinstance(each, tuple) else (each,)), **kwargs)
        for module, each, kwargs in zip(modules, inputs, options, strict=True)
    ]
