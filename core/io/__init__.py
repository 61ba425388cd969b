"""Readers and writers of weight files, the hub, tokenizers and templates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.gguf import MAGIC, gguf_in, load_gguf, open_gguf
from rushlight.core.io.weights.gguf_writer import save_gguf
from rushlight.core.io.weights.llamas.llama2c import is_llama2c
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables, save_safetensors
from rushlight.core.io.weights.shards import read_index, taken, weights_in
from rushlight.core.io.weights.source import Source, is_address, open_regular, open_source
from rushlight.core.io.weights.table import Table
from rushlight.core.io.weights.whisper_ggml import is_whisper
from rushlight.core.tensor.tensor import Tensor

__all__ = ["load", "load_gguf", "load_safetensors", "save", "save_gguf", "save_safetensors"]

# The first bytes of formats that are read; safetensors and JSON have none of their own.
_KINDS = {
    MAGIC: "gguf", b"lmgg": "ggml", b"fmgg": "ggml", b"tjgg": "ggml", b"PK\3\4": "zip",
    b"\x93NUMPY": "npy", b"\1\0\0\0": "marian",
    b"\6\0\0\0": "ctranslate2",
    **{bytes([0x80, version]): "pickle" for version in (2, 3, 4, 5)},
}  # fmt: skip
# Files that are models by themselves, beside GGUF.
_WHOLE = ("ggml", "llama2c")
# And the first bytes of others, for a message that says what a file is.
_SIGNATURES = (
    (b"PK\5\6", "an empty zip"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x08", "perhaps an ONNX model"),
    (b"version https://git-lfs", "a Git LFS pointer; the file itself was not fetched"),
    (b"<", "perhaps a web page that was saved instead of the file"),
)


def save(tensors: Any, path: str | os.PathLike[str]) -> None:
    """Write a dict of tensors to a safetensors file of any name, and anything else as torch does.

    A .pt file of torch takes nested dicts, lists and tuples of tensors, numbers, text and None.
    Raises TypeError for other values, ValueError for a name or a dtype that the format does not
    support.
    """
    if isinstance(tensors, Mapping) and all(isinstance(t, Tensor) for t in tensors.values()):
        save_safetensors(tensors, path)
        return
    from rushlight.core.io.weights.pickles.pytorch_writer import save_pytorch

    save_pytorch(tensors, path)


def load(
    path: str | os.PathLike[str] | Source, device: str = "cpu", *,
    map_location: str | Device | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """The tensors of a file by name; the file's content decides its format.

    Reads safetensors, GGUF (all parts of a split file), ggml files from before GGUF and those of
    whisper.cpp, llama2.c's .bin, Marian's, CTranslate2's, PyTorch's .pt, .pth and .bin, and NumPy's
    .npz and .npy; the index of a sharded checkpoint, or a folder with one of them; also an http(s)
    address, or a Source such as a file dropped on a page. An .npy file gives one tensor, and a file
    of PyTorch what was saved: nested dicts, lists and tuples of tensors and plain values; nothing
    of it is run. On `cpu` the tensors are views of the mapped file: nothing is read until it is
    used. map_location is torch's word for the device; weights_only changes nothing. Raises
    FormatError for a file of another format or a broken one, saying what it looks like, and
    FileNotFoundError for a missing file.
    """
    device = device if map_location is None else str(map_location)
    if not isinstance(path, str | os.PathLike):
        return _load_source(path, device)
    if is_address(path):
        return load_gguf(path, device)[0] if _names_gguf(path) else load(open_source(path), device)
    if gguf := gguf_in(Path(path)):
        return load_gguf(gguf, device)[0]
    place = weights_in(Path(path)) if Path(path).is_dir() else Path(path)
    if place.name.endswith(".bin.index.json"):
        return _load_shards(place, device)
    if kind_of_file(place) in ("safetensors", "json"):
        return load_safetensors(place, device)
    source = open_source(place)
    try:
        return _load_source(source, device)
    finally:
        source.close()


# Modules of formats that a page seldom has are imported when they are used.


def _load_source(source: Source, device: str) -> Any:
    """What one file holds."""
    kind = _kind_in(source)
    if kind == "gguf":
        return load_gguf(source, device)[0]
    if kind in _WHOLE:
        return _load_whole(source, device)[0]
    if kind in ("npy", "npz"):
        from rushlight.core.io.weights.numpy_files import load_npy, load_npz

        return (load_npy if kind == "npy" else load_npz)(source, device)
    if kind == "marian":
        from rushlight.core.io.weights.marian import load_marian

        return load_marian(source, device)
    if kind == "ctranslate2":
        from rushlight.core.io.weights.ctranslate2 import load_ctranslate2

        return load_ctranslate2(source, device)
    if kind == "whisper":
        from rushlight.core.io.weights.whisper_ggml import load_whisper_ggml

        return load_whisper_ggml(source, device)
    if kind in ("pickle", "zip"):
        from rushlight.core.io.weights.pickles.pytorch import load_pytorch

        return load_pytorch(source, device)
    return load_safetensors(source, device)


def _read_source(source: Source) -> tuple[Table, dict[str, Any]]:
    """The table and the metadata of a file of ggml, NumPy or PyTorch."""
    kind = _kind_in(source)
    if kind == "ggml":
        from rushlight.core.io.weights.llamas.ggml import read_ggml

        found = read_ggml(source)
        return found.table, found.metadata
    if kind == "llama2c":
        from rushlight.core.io.weights.llamas.llama2c import read_llama2c

        found = read_llama2c(source)
        return found.table, found.metadata
    if kind in ("npy", "npz"):
        from rushlight.core.io.weights.numpy_files import read_npy_table

        return read_npy_table(source), {}
    if kind == "marian":
        from rushlight.core.io.weights.marian import read_marian

        return read_marian(source), {}
    if kind == "ctranslate2":
        from rushlight.core.io.weights.ctranslate2 import read_ctranslate2

        table = read_ctranslate2(source)
        return table, dict(table.metadata)
    if kind == "whisper":
        from rushlight.core.io.weights.whisper_ggml import read_whisper_ggml

        return read_whisper_ggml(source), {}
    from rushlight.core.io.weights.pickles.pytorch import read_pytorch_table

    return read_pytorch_table(source), {}


def _state_dict(found: Any) -> dict[str, Tensor]:
    """The tensors by name in what `load` gave."""
    if type(found) is dict and all(type(value) is Tensor for value in found.values()):
        return found
    from rushlight.core.io.weights.pickles.pytorch import state_dict
    from rushlight.core.io.weights.pickles.storages import numbers_beside
    from rushlight.core.tensor.convert import tensor

    numbers = {name: tensor(number) for name, number in numbers_beside(found).items()}
    return state_dict(found) | numbers


def _load_shards(index: Path, device: str) -> dict[str, Tensor]:
    """The tensors of a sharded checkpoint of PyTorch by name, those that its index names."""
    named = read_index(index)
    shards = {shard: _state_dict(load(index.parent / shard, device)) for shard in named}
    names = taken(index, named, shards)
    return {n: t for shard, part in shards.items() for n, t in part.items() if n in names[shard]}


def load_weights(
    path: str | os.PathLike[str] | Source,
) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """(tensors by name, metadata) for a model, of a file or folder as in `load`.

    The metadata is that of GGUF, else None. Of nested dicts, as trainers save them, the tensors
    have the names of the model's state dict.
    """
    gguf: Any = None
    if not isinstance(path, str | os.PathLike):
        kind = _kind_in(path)
        whole, gguf = kind in ("gguf", *_WHOLE), path if kind == "gguf" else None
    elif whole := states_metadata(path):
        gguf = path if is_address(path) else gguf_in(Path(path))
    if not whole:
        return _state_dict(load(path)), None
    if gguf is not None:
        return load_gguf(gguf)
    return _load_whole(path, "cpu")


def _load_whole(
    path: str | os.PathLike[str] | Source, device: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, metadata) of a file that is a model by itself, though not of GGUF."""
    kind = kind_of_file(Path(path)) if isinstance(path, str | os.PathLike) else _kind_in(path)
    if kind == "llama2c":
        from rushlight.core.io.weights.llamas.llama2c import load_llama2c

        return load_llama2c(path, device)
    from rushlight.core.io.weights.llamas.ggml import load_ggml

    return load_ggml(path, device)


def states_metadata(path: str | os.PathLike[str]) -> bool:
    """Whether a file, folder or address is a model by itself: of GGUF, ggml or llama2.c."""
    if is_address(path):
        return _names_gguf(path)
    place = Path(path)
    return gguf_in(place) is not None or (place.is_file() and kind_of_file(place) in _WHOLE)


def _names_gguf(address: str | os.PathLike[str]) -> bool:
    return str(address).partition("?")[0].lower().endswith(".gguf")


def read_tables(path: str | os.PathLike[str]) -> list[tuple[str, Table, dict[str, Any]]]:
    """(file, its tensors, its metadata) for each file that `path` stands for, as in `load`."""
    opened: list[tuple[Source, Table, dict[str, Any]]]
    if gguf := gguf_in(Path(path)):
        opened = [(source, part.table, part.metadata) for source, part in open_gguf(gguf)]
    else:
        place = weights_in(Path(path)) if Path(path).is_dir() else Path(path)
        if place.name.endswith(".bin.index.json"):
            return [row for shard in read_index(place) for row in read_tables(place.parent / shard)]
        if kind_of_file(place) in ("safetensors", "json"):
            opened = [(s, table, dict(table.metadata)) for s, table in open_tables(place)]
        else:
            source = open_source(place)
            opened = [(source, *_read_source(source))]
    for source, _, _ in opened:
        source.close()
    return [(source.name, table, metadata) for source, table, metadata in opened]


def kind_of_file(path: Path) -> str:
    """The kind of a file, as `kind_of`. Raises FormatError for one that is not read."""
    with open_regular(path) as file:
        return _read_kind(str(path), file.read(32))


def _kind_in(source: Source) -> str:
    kind = _read_kind(source.name, bytes(source.read(0, 32)))
    if kind == "zip":
        from rushlight.core.io.weights.zips import read_zip

        return "npz" if any(name.endswith(".npy") for name in read_zip(source)) else kind
    return kind


def _read_kind(name: str, first: bytes) -> str:
    kind = kind_of(first)
    if kind not in {"safetensors", "json", "llama2c", "whisper", *_KINDS.values()}:
        raise FormatError(
            f"{name} looks like {kind}, which cannot be read",
            hint="convert it to safetensors, or fetch the model's .safetensors file",
        )
    return kind


def kind_of(first: bytes) -> str:
    """The format that begins with these bytes (32 suffice): a short name, or words for others."""
    strong = {signature: kind for signature, kind in _KINDS.items() if kind != "pickle"}
    if first[8:9] == b"{" and first[:4] not in strong:  # a header may have 0x280 bytes
        return "safetensors"
    if is_whisper(first):
        return "whisper"
    for signature, kind in _KINDS.items():
        if first.startswith(signature):
            return kind
    if is_llama2c(first):
        return "llama2c"
    for signature, kind in _SIGNATURES:
        if first.startswith(signature):
            return kind
    if first.lstrip()[:1] == b"{":
        return "json"
    return f"an unknown format (it begins with {first[:8]!r})" if first else "an empty file"
