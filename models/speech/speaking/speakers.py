"""Vectors of speakers: numbers, or files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.errors import FormatError

FILES = (".npy", ".npz", ".bin", ".pt", ".pth", ".safetensors")


def numbers_of(value: Any, what: str = "speaker_embeddings") -> npt.NDArray[np.float32]:
    """The float32 numbers of an array, a tensor, a list, or of a file of them.

    A .bin file has float32 numbers alone, as transformers.js has them; files of other kinds have
    one tensor. `what` is the name of the option, for messages. ValueError for a file that is
    missing, of another kind, or with several tensors, and for what is no numbers.
    """
    if isinstance(value, str | Path):
        value = _in_file(Path(value), what)
    elif hasattr(value, "numpy"):
        value = value.numpy()
    try:
        numbers = np.asarray(value).astype(np.float32)
    except (TypeError, ValueError):
        raise ValueError(f"text-to-speech: {what} is {type(value).__name__}, no numbers") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"text-to-speech: {what} has numbers that are not finite")
    return numbers


def vector_of(value: Any, size: int) -> npt.NDArray[np.float32]:
    """A vector of `size` numbers of a speaker, of what `numbers_of` takes as `value`.

    ValueError for another number of them, and as `numbers_of` has it.
    """
    numbers = numbers_of(value)
    if numbers.size != size or numbers.ndim > 2:
        raise ValueError(
            f"text-to-speech: speaker_embeddings are {numbers.shape}; the voice takes {size} "
            "numbers, the x-vector of a speaker"
        )
    return numbers.reshape(size)


def _in_file(path: Path, what: str) -> Any:
    from rushlight.core.io import load

    if not path.is_file() or path.suffix not in FILES:
        raise ValueError(
            f"text-to-speech: {what} is {str(path)!r}, which is no file of {', '.join(FILES)}"
        )
    data = path.read_bytes()
    if path.suffix == ".bin" and not data.startswith((b"PK", b"\x80")):
        if len(data) % 4:
            raise ValueError(f"text-to-speech: {path} is no list of float32 numbers")
        return np.frombuffer(data, "<f4")
    try:
        value = load(path)
    except FormatError as error:
        raise ValueError(f"text-to-speech: {what}: {error}") from None
    if isinstance(value, dict) and len(value) == 1:
        [value] = value.values()
    if not hasattr(value, "numpy"):
        raise ValueError(f"text-to-speech: {path} holds more than one tensor, or none")
    return value.float().numpy()
