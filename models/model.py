"""Model: the base class of every family's top module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rushlight.core import nn
from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType
from rushlight.core.io.text.tokenizer import Tokenizer


class Model(nn.Module):
    """A module with its configuration and, if the checkpoint has one, its tokenizer.

    tasks: the names of the tasks that its family serves, the default first. duplicates: names that
    a checkpoint may hold beside the parameter that they are equal to; "" for what is computed.
    """

    config: Any
    tasks: tuple[str, ...] = ()
    duplicates: Mapping[str, str] = {}
    tokenizer: Tokenizer | None = None

    @property
    def device(self) -> Device:
        """The device of the parameters."""
        return next(iter(self.parameters())).device

    @property
    def dtype(self) -> DType:
        """The dtype of the first parameter."""
        return next(iter(self.parameters())).dtype

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the checkpoint's small files other than config.json; families override this."""

    if TYPE_CHECKING:  # families have different methods: encode, generate, ...

        def __getattr__(self, name: str) -> Any: ...


def runs_in_software(device: Device) -> bool:
    """Whether a device computes on the CPU: there the amount of work counts, not the steps."""
    return str(device.info.get("type", "CPU")) == "CPU"
