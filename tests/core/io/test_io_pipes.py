"""What is no regular file is refused: a pipe would be waited for, and a device has no end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.core.io.weights.source import FileSource, MmapSource, open_source

pytestmark = pytest.mark.native
READERS: list[Callable[[Path], Any]] = [
    FileSource,
    MmapSource,
    open_source,
    load_safetensors,
    load_gguf,
    rl.load,
    rl.models.load,
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", ["a.gguf", "model.safetensors", "model.safetensors.index.json"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, read: Callable[[Path], Any], name: str) -> None:
    place = tmp_path / name
    os.mkfifo(place)
    with pytest.raises((rl.FormatError, rl.LoadError, OSError)) as caught:
        read(place)
    if read is not rl.models.load:
        assert "is not a regular file" in str(caught.value)
        assert "write the bytes to a file first" in str(caught.value)
    if read in (load_safetensors, rl.load, rl.models.load):
        with pytest.raises((rl.FormatError, rl.LoadError, OSError)):
            read(tmp_path)


def test_a_device_is_refused() -> None:
    with pytest.raises(rl.FormatError, match="/dev/zero is not a regular file"):
        open_source("/dev/zero")
