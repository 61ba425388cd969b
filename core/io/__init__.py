"""Readers and writers of weight files, the hub, tokenizers and templates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.gguf import gguf_in, load_gguf, read_gguf
from rushlight.core.io.weights.gguf_writer import save_gguf
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.core.io.weights.source import open_source
from rushlight.core.io.weights.table import Table
from rushlight.core.tensor.tensor import Tensor

__all__ = ["load", "load_gguf", "load_safetensors", "save", "save_gguf", "save_safetensors"]

# The first bytes of common formats, for a message that says what a file is.
_SIGNATURES = (
    (b"PK\x03\x04", "a zip: an .npz of NumPy or a checkpoint of PyTorch"),
    (b"\x93NUMPY", "an .npy array of NumPy"),
    (b"\x80\x02", "a pickle, perhaps an old checkpoint of PyTorch"),
    (b"\x80\x04", "a pickle"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x08", "perhaps an ONNX model"),
    (b"version https://git-lfs", "a Git LFS pointer; the file itself was not fetched"),
    (b"<", "perhaps a web page that was saved instead of the file"),
)


def save(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write a dict of tensors to a safetensors file of any name.

    Raises TypeError for values that are not tensors, ValueError for a name or a dtype that the
    format does not support.
    """
    save_safetensors(tensors, path)


def load(path: str | os.PathLike[str], device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a file by name; the file's content decides its format.

    Reads safetensors (a file, the index of a sharded checkpoint, or a folder with either) and
    GGUF. On `cpu` the tensors are views of the mapped file: nothing is read until it is used.
    Raises FormatError for a file of another format or a broken one, saying what it looks like, and
    FileNotFoundError for a missing file.
    """
    if gguf := gguf_in(Path(path)):
        return load_gguf(gguf, device)[0]
    require_safetensors(path)
    return load_safetensors(path, device)


def read_tables(path: str | os.PathLike[str]) -> list[tuple[str, Table, dict[str, Any]]]:
    """(file, its tensors, its metadata) for each file that `path` stands for, as in `load`."""
    if gguf := gguf_in(Path(path)):
        source = open_source(gguf)
        found = read_gguf(source)
        source.close()
        return [(source.name, found.table, found.metadata)]
    require_safetensors(path)
    opened = open_tables(path)
    for source, _ in opened:
        source.close()
    return [(source.name, table, dict(table.metadata)) for source, table in opened]


def require_safetensors(path: str | os.PathLike[str]) -> None:
    """Raise FormatError for a file of another format, saying what it looks like."""
    if not Path(path).is_file():
        return
    with open(path, "rb") as file:
        kind = kind_of(file.read(24))
    if kind not in {"safetensors", "json"}:
        raise FormatError(
            f"{path} looks like {kind}, which cannot be read",
            hint="convert it to safetensors, or fetch the model's .safetensors file",
        )


def kind_of(first: bytes) -> str:
    """The format that begins with these bytes (24 suffice): "safetensors", "json" or words."""
    if first[8:9] == b"{":
        return "safetensors"
    for signature, words in _SIGNATURES:
        if first.startswith(signature):
            return words
    if first.lstrip()[:1] == b"{":
        return "json"
    return f"an unknown format (it begins with {first[:8]!r})" if first else "an empty file"
