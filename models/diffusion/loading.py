"""Loading a pipeline of a folder of diffusers, or of a single file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.backends import device as as_device
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.models.diffusion.model import DiffusionModel
from rushlight.models.diffusion.parts import INDEX, Folder, Parts
from rushlight.models.diffusion.registry import pipeline_class


def of_diffusion(name: str | Path, device: str | Device, dtype: Any) -> DiffusionModel | None:
    """The pipeline of a folder of diffusers; None for another model."""
    place = Path(name)
    try:
        found = (place / INDEX).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return None
    return load_pipeline(place, device, dtype) if found else None


def load_pipeline(
    place: Path, device: str | Device = "cpu", dtype: str | DType | None = None
) -> DiffusionModel:
    """The pipeline of a folder; its parts are loaded when they are used.

    `device` is where it computes. dtype: that of its weights, default as stored; a quantized one
    is that of the matrices. LoadError for a class that is not supported and for a missing part.
    """
    source = Folder(place)
    kind = pipeline_class(source.index.get("_class_name"))
    wanted = None if dtype is None else as_dtype(dtype)
    model: DiffusionModel = kind(Parts(source, as_device(device), wanted))
    return model
