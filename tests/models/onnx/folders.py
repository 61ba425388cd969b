"""Small folders in the layout of transformers.js, unpacked from tests/models/data/onnx/."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DATA = Path(__file__).parents[1] / "data" / "onnx"


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="onnx-folders-")


@cache
def folder(name: str) -> Path:
    """The folder of a case of make_onnx_folders.py, which tests must not change."""
    place = Path(_place().name) / name
    with tarfile.open(fileobj=io.BytesIO((DATA / f"{name}.tar.xz").read_bytes())) as archive:
        archive.extractall(place, filter="data")
    return place


@cache
def answers() -> dict[str, Any]:
    """What transformers.js answers on the folders, by onnx_answers.mjs."""
    told: dict[str, Any] = json.loads((DATA / "answers.json").read_text())
    return told


def square(side: int = 16) -> npt.NDArray[np.uint8]:
    """The pixels of onnx_answers.mjs."""
    i = np.arange(side * side * 3)
    return ((i * 37 + (i >> 4) * 11) % 256).astype(np.uint8).reshape(side, side, 3)


def assert_near(found: Any, told: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Fail unless a tensor is as an array, within the given errors."""
    np.testing.assert_allclose(np.asarray(found.detach().numpy()), told, rtol=rtol, atol=atol)
