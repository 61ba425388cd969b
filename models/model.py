"""Model: what every family's top module has besides its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.dtype import DType
from rushlight.core.io.tokenizer import Tokenizer


class Model(nn.Module):
    """A module with its configuration and, where the checkpoint brings one, its tokenizer."""

    config: Any
    tokenizer: Tokenizer | None = None

    @property
    def device(self) -> Device:
        """The device of the parameters."""
        return next(iter(self.parameters())).device

    @property
    def dtype(self) -> DType:
        """The dtype of the first parameter."""
        return next(iter(self.parameters())).dtype

    def configure(self, files: dict[str, bytes]) -> None:
        """Take what the checkpoint's small files say beyond config.json; families override it."""

    if TYPE_CHECKING:  # families differ in what they offer: encode, generate, ...

        def __getattr__(self, name: str) -> Any: ...


def runs_in_software(device: Device) -> bool:
    """Whether a device computes on the processor: then work counts, not the number of steps."""
    return str(device.info.get("type", "CPU")) == "CPU"
