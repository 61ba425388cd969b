"""Loading a pipeline of a folder of diffusers, or of a single file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.backends import device as as_device
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import FormatError
from rushlight.core.io import read_tables
from rushlight.models.diffusion.files import FIRST, INDEX
from rushlight.models.diffusion.model import DiffusionModel
from rushlight.models.diffusion.parts import Folder, Parts, Source
from rushlight.models.diffusion.registry import pipeline_class
from rushlight.models.diffusion.single_file.denoiser_file import DenoiserFile, may_draw
from rushlight.models.diffusion.single_file.source import SingleFile
from rushlight.models.diffusion.transformers.originals import layout_of


def of_diffusion(name: str | Path, device: str | Device, dtype: Any) -> DiffusionModel | None:
    """The pipeline of a folder of diffusers; None for another model."""
    place = Path(name)
    try:
        if not (place / INDEX).is_file() and not _is_single(place):
            return None
    except (OSError, ValueError):  # a name that no file can have
        return None
    return load_pipeline(place, device, dtype)


def _is_single(place: Path) -> bool:
    """Whether a file is a pipeline, or its denoiser, in the authors' layout."""
    if place.suffix not in (".safetensors", ".ckpt", ".gguf") or not place.is_file():
        return False
    if place.suffix == ".gguf" and not may_draw(place):
        return False
    try:
        names = [name for _, table, _ in read_tables(place) for name in table.entries]
    except FormatError:
        return False  # it is told where it is read
    return any(name.endswith(FIRST) for name in names) or layout_of(names) is not None


def _source(place: Path) -> Source:
    """What reads the parts of a folder or of a file."""
    if place.is_dir():
        return Folder(place)
    names = [name for _, table, _ in read_tables(place) for name in table.entries]
    return SingleFile(place) if layout_of(names) is None else DenoiserFile(place)


def load_pipeline(
    place: Path, device: str | Device = "cpu", dtype: str | DType | None = None
) -> DiffusionModel:
    """The pipeline of a folder or a single file; its parts are loaded when they are used.

    `device` is where it computes. dtype: that of its weights, default as stored; a quantized one
    is that of the matrices. LoadError for a class that is not supported and for a missing part.
    """
    source = _source(place)
    kind = pipeline_class(source.index.get("_class_name"))
    wanted = None if dtype is None else as_dtype(dtype)
    model: DiffusionModel = kind(Parts(source, as_device(device), wanted))
    return model
