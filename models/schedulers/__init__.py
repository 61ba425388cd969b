"""Schedulers of diffusion and flow matching, under diffusers' names. `rl.schedulers`.

A scheduler adds noise to samples in a training loop (`add_noise`, `get_velocity`), and takes a
model's outputs back to a sample without noise (`set_timesteps`, `scale_model_input`, `step`). Their
configs have diffusers' keys, and files of either are read by the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rushlight.models.schedulers.base import Scheduler, SchedulerOutput, read_config_file
from rushlight.models.schedulers.discrete import DDIMScheduler, DDPMScheduler, LCMScheduler
from rushlight.models.schedulers.euler import (
    DPMSolverSDEScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    HeunDiscreteScheduler,
)
from rushlight.models.schedulers.flow import (
    FlowMatchEulerDiscreteScheduler,
    FlowMatchHeunDiscreteScheduler,
)
from rushlight.models.schedulers.pndm import PNDMScheduler
from rushlight.models.schedulers.solvers import DPMSolverMultistepScheduler, UniPCMultistepScheduler

__all__ = [
    "DDIMScheduler", "DDPMScheduler", "DPMSolverMultistepScheduler", "DPMSolverSDEScheduler",
    "EulerAncestralDiscreteScheduler", "EulerDiscreteScheduler", "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler", "HeunDiscreteScheduler", "LCMScheduler", "PNDMScheduler",
    "Scheduler", "SchedulerOutput", "UniPCMultistepScheduler", "from_config", "from_pretrained",
]  # fmt: skip


CLASSES: dict[str, type[Scheduler]] = {
    kind.__name__: kind
    for kind in (
        DDIMScheduler,
        DDPMScheduler,
        DPMSolverMultistepScheduler,
        DPMSolverSDEScheduler,
        EulerAncestralDiscreteScheduler,
        EulerDiscreteScheduler,
        FlowMatchEulerDiscreteScheduler,
        FlowMatchHeunDiscreteScheduler,
        HeunDiscreteScheduler,
        LCMScheduler,
        PNDMScheduler,
        UniPCMultistepScheduler,
    )
}


def from_config(config: Mapping[str, Any], **changes: Any) -> Scheduler:
    """The scheduler of the class that `_class_name` of a config names, with `changes` of its keys.

    ValueError for another class, or for a value that is not supported.
    """
    name = config.get("_class_name")
    if name not in CLASSES:
        raise ValueError(
            f"the scheduler {name!r} is not supported; supported: {', '.join(CLASSES)}"
        )
    return CLASSES[str(name)].from_config(config, **changes)


def from_pretrained(folder: str | Path, subfolder: str | None = None, **changes: Any) -> Scheduler:
    """The scheduler of scheduler_config.json in a folder, of the class that it names.

    `subfolder` is in it, such as a pipeline's "scheduler"; `changes` are keys with other values.
    Raises what `Scheduler.from_pretrained` raises, and ValueError for a class that is not there.
    """
    return from_config(read_config_file(folder, subfolder), **changes)
