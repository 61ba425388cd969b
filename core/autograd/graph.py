"""What the graph keeps, under the names of torch.autograd.graph."""

from __future__ import annotations

from rushlight.core.backends import Device
from rushlight.core.tensor.autograd import Node
from rushlight.core.tensor.saving import saved_tensors_hooks
from rushlight.core.tensor.tensor import Tensor

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


class save_on_cpu(saved_tensors_hooks):  # noqa: N801  torch's name
    """Context manager: what ops inside save for backward lies on cpu until it is needed."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_pack, _unpack)


def _pack(x: Tensor) -> tuple[Device, Tensor]:
    return x.device, x.detach().to("cpu", copy=True)


def _unpack(kept: tuple[Device, Tensor]) -> Tensor:
    device, x = kept
    return x.to(device)
