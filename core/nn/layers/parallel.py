"""Wrappers for several devices, with one: the module itself under the name `module`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.core.nn.module import Module

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
    """torch's wrapper that averages gradients over processes. Here there is one process."""

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

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients add up within this block, as they do anyway."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, *args: Any, **options: Any) -> Iterator[None]:
        """Nothing to join."""
        yield


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
