"""Model: the base class of every family's top module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rushlight.core import nn
from rushlight.core.backends import KINDS, Device
from rushlight.core.basis.dtype import DType
from rushlight.core.io.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from rushlight.models.placing.carrying import Runs
    from rushlight.models.placing.parts import Paths
    from rushlight.models.placing.plan import Placement


# Attributes of a model in use, which a copy begins without.
_CONVERSATIONS = frozenset({"_batch", "_session", "_sessions", "layer_runs", "prefix_cache"})


class Model(nn.Module):
    """A module with its configuration and, if the checkpoint has one, its tokenizer.

    tasks: the names of the tasks that its family serves, the default first. duplicates: names that
    a checkpoint may hold beside the parameter that they are equal to; "" for what is computed.
    lacking: tasks of a head that the checkpoint does not have, with the name of a tensor of it.
    headless: the name of the head's weight, if the model itself is what is below the head.
    placement: where its parts lie, if `load` placed them on several devices.
    """

    config: Any
    tasks: tuple[str, ...] = ()
    duplicates: Mapping[str, str] = {}
    lacking: Mapping[str, str] = {}
    headless: str = ""
    tokenizer: Tokenizer | None = None
    placement: Placement | None = None
    layer_runs: Runs | None = None  # the captured runs of layers on one device
    files: Mapping[str, bytes] = {}  # the small files that `save_pretrained` writes again

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: the model without its conversations and their caches."""
        return {name: value for name, value in vars(self).items() if name not in _CONVERSATIONS}

    @property
    def device(self) -> Device:
        """The device of the parameters; of several, that of inputs and results."""
        if self.placement is not None:
            return self.placement.main
        return next(iter(self.parameters())).device

    def parts_in_order(self) -> Paths | None:
        """The paths of its modules for `device_map`; None where its layers cannot be placed."""
        return None

    def to(self, *args: Any, **options: Any) -> Self:
        """`Module.to`. RuntimeError for a device where `device_map` placed the parts on several."""
        if self.placement is not None:
            kinds = [a for a in args if isinstance(a, Device) or str(a).partition(":")[0] in KINDS]
            if kinds or options.get("device") is not None:
                raise RuntimeError(
                    f"to: device_map placed the parts of this {self.config.model_type} on "
                    f"{', '.join(map(str, self.placement.devices))}; load it again for another"
                )
        return super().to(*args, **options)

    @property
    def dtype(self) -> DType:
        """The dtype of the first parameter."""
        return next(iter(self.parameters())).dtype

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the checkpoint's small files other than config.json; families override this."""

    def untie(self, name: str) -> dict[str, str]:
        """Give one of the `duplicates` a parameter of its own, as its values differ in the file.

        Returns the new parameters' names, each with the tensor whose values it takes: `name`, or
        that of a parameter; {} where the family has one tensor for both.
        """
        return {}

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        dequantize: DType | str | None = None,
        max_shard_bytes: int = 5 << 30,
        overwrite: bool = False,
    ) -> list[Path]:
        """Write safetensors, config.json and the tokenizer's files, which transformers loads.

        dequantize: the dtype that quantized weights are written in; without it they raise
        ValueError. Weights of more than max_shard_bytes are written in shards with an index. A new
        folder appears once it is complete. FileExistsError for a folder that holds such files
        already, unless overwrite. Returns the files' paths.
        """
        from rushlight.models.saving import save_folder

        return save_folder(self, folder, dequantize, max_shard_bytes, overwrite)

    def onnx_form(self, task: str | None = None) -> Any:
        """What `rl.onnx.export` writes of the model for a task: see models/onnx_forms.py."""
        from rushlight.models.onnx_forms import form_of

        return form_of(self, task)

    if TYPE_CHECKING:  # families have different methods: encode, generate, ...

        def __getattr__(self, name: str) -> Any: ...


def runs_in_software(device: Device) -> bool:
    """Whether a device computes on the CPU: there the amount of work counts, not the steps."""
    return str(device.info.get("type", "CPU")) == "CPU"
