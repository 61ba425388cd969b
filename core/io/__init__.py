"""Readers and writers of weight files, the hub, tokenizers and templates."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.opening import opened
from rushlight.core.io.placing import Place, placed, placing
from rushlight.core.io.saving import save
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


@dataclass(frozen=True)
class _Format:
    """A format of weights: what a file begins with, and its readers.

    module: in core/io/weights/, imported when such a file is read, as a page seldom has one. table:
    the function that gives its Table and metadata. tensors: the one that gives its tensors, or
    (tensors, metadata) of a file that is a model by itself (`model`).
    """

    kind: str
    signatures: tuple[bytes, ...]  # safetensors, JSON, llama2.c and whisper have none of their own
    module: str
    table: str
    tensors: str
    model: bool = False

    def reader(self, function: str) -> Any:
        """A function of the module."""
        return getattr(import_module(f"{__name__}.weights.{self.module}"), function)


_PYTORCH = "pickles.pytorch", "read_pytorch_table", "load_pytorch"
_FORMATS = {
    row.kind: row
    for row in (
        _Format("gguf", (MAGIC,), "gguf", "", "load_gguf", True),
        _Format("ggml", (b"lmgg", b"fmgg", b"tjgg"), "llamas.ggml", "read_ggml", "load_ggml", True),
        _Format("zip", (b"PK\3\4",), *_PYTORCH),
        _Format("npy", (b"\x93NUMPY",), "numpy_files", "read_npy_table", "load_npy"),
        _Format("npz", (), "numpy_files", "read_npy_table", "load_npz"),
        _Format("marian", (b"\1\0\0\0",), "marian", "read_marian", "load_marian"),
        _Format(
            "ctranslate2", (b"\6\0\0\0",), "ctranslate2", "read_ctranslate2", "load_ctranslate2"
        ),
        _Format("pickle", tuple(bytes([0x80, version]) for version in (2, 3, 4, 5)), *_PYTORCH),
        _Format("llama2c", (), "llamas.llama2c", "read_llama2c", "load_llama2c", True),
        _Format("whisper", (), "whisper_ggml", "read_whisper_ggml", "load_whisper_ggml"),
        _Format("safetensors", (), "safetensors", "", "load_safetensors"),
        _Format("json", (), "safetensors", "", "load_safetensors"),
    )
}
_SIGNATURES = {begin: row.kind for row in _FORMATS.values() for begin in row.signatures}
# Files that are models by themselves.
_MODELS = tuple(row.kind for row in _FORMATS.values() if row.model)
# And the first bytes of others, for a message that says what a file is.
_OTHERS = (
    (b"PK\5\6", "an empty zip"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x08", "perhaps an ONNX model"),
    (b"version https://git-lfs", "a Git LFS pointer; the file itself was not fetched"),
    (b"<", "perhaps a web page that was saved instead of the file"),
)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    device: str | Device | None = None,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    **options: Any,
) -> Any:
    """The tensors of a file by name; the file's content decides its format.

    Reads safetensors, GGUF (all parts of a split file), ggml files from before GGUF and those of
    whisper.cpp, llama2.c's .bin, Marian's, CTranslate2's, PyTorch's .pt, .pth and .bin, and NumPy's
    .npz and .npy. An .npy file gives one tensor, and a file of PyTorch what was saved: tensors, and
    plain values of Python and NumPy in dicts, lists, tuples and sets. Nothing of it is run: what
    only code could make is left out, and named in its place and in a warning of the log.

    f: a path to a file, to the index of a sharded checkpoint or to a folder with one of them; an
    http(s) address; bytes; a file that is open for bytes, from where it stands; or a Source such as
    a file dropped on a page. On `cpu` the tensors of a file are views of the mapped file: nothing
    is read until it is used.
    map_location (or device): a device or its name, a dict from the devices that a file names to
    others, a function of (storage, name) that returns the storage in its place, or None for the
    host. encoding: of texts that Python 2 pickled, or "bytes". weights_only and mmap=False change
    nothing; mmap=True asks for a path. errors and fix_imports are taken as torch takes them.

    Raises FormatError for a file of another format or a broken one, saying what it looks like,
    FileNotFoundError for a missing file, TypeError for what is no file, and for a file open for
    text.

    `pickle_module` may be Python's pickle alone; `options` are those two.
    """
    _check_options(f, pickle_module, mmap, encoding, options)
    if map_location is not None and device is not None:
        raise ValueError("load: device and map_location say the same; give one of them")
    place = placing(device if map_location is None else map_location)
    if not isinstance(f, str | os.PathLike):
        return _load_source(opened(f), place, encoding)
    if is_address(f):
        if _names_gguf(f):
            return placed(load_gguf(f)[0], place)
        return _load_source(open_source(f), place, encoding)
    if gguf := gguf_in(Path(f)):
        return placed(load_gguf(gguf)[0], place)
    file = weights_in(Path(f)) if Path(f).is_dir() else Path(f)
    if file.name.endswith(".bin.index.json"):
        return _load_shards(file, place)
    if kind_of_file(file) in ("safetensors", "json"):
        return placed(load_safetensors(file), place)
    source = open_source(file)
    try:
        return _load_source(source, place, encoding)
    finally:
        source.close()


def _check_options(
    f: Any, pickle_module: Any, mmap: Any, encoding: str, options: dict[str, Any]
) -> None:
    """Raise for keywords of torch.load that ask for what is not done."""
    if pickle_module is not None and getattr(pickle_module, "__name__", "") != "pickle":
        raise ValueError(
            f"load: pickle_module {getattr(pickle_module, '__name__', pickle_module)!r} is not "
            "supported; rushlight reads pickles by itself and runs nothing of them"
        )
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("load: mmap=True takes the path of a file")
    for name in options:
        if name not in ("errors", "fix_imports"):
            raise TypeError(
                f"load: the keyword {name!r} is not supported; supported: map_location, device, "
                "pickle_module, weights_only, mmap, encoding, errors, fix_imports"
            )
    if encoding != "bytes":
        try:
            "".encode(encoding)
        except (LookupError, TypeError):
            raise ValueError(f"load: there is no encoding {encoding!r}") from None


def _load_source(source: Source, place: Place, encoding: str = "utf-8") -> Any:
    """What one file holds."""
    row = _FORMATS[_kind_in(source)]
    load_tensors = row.reader(row.tensors)
    if row.module == "pickles.pytorch":  # what it holds is placed as it is made
        return load_tensors(source, place, encoding)
    tensors = load_tensors(source)
    return placed(tensors[0] if row.model else tensors, place)


def table_of(source: Source) -> tuple[Table, dict[str, Any]]:
    """The table and the metadata of a file of ggml, Marian, CTranslate2, NumPy or PyTorch.

    Raises FormatError for a damaged file and for another format.
    """
    row = _FORMATS[_kind_in(source)]
    if not row.table:  # the reader of pickles refuses it by name
        row = _FORMATS["pickle"]
    table = row.reader(row.table)(source)
    # Of a file that is a model by itself: a record of both.
    return getattr(table, "table", table), dict(table.metadata)


def _state_dict(loaded: Any) -> dict[str, Tensor]:
    """The tensors by name in what `load` gave."""
    if type(loaded) is dict and all(type(value) is Tensor for value in loaded.values()):
        return loaded
    from rushlight.core.io.weights.pickles.pytorch import state_dict
    from rushlight.core.io.weights.pickles.storages import hqq_settings, numbers_beside
    from rushlight.core.tensor.convert import tensor

    tensors = state_dict(loaded)
    numbers = numbers_beside(loaded) | hqq_settings(loaded)
    return tensors | {name: tensor(number) for name, number in numbers.items()}


def _load_shards(index: Path, place: Place) -> dict[str, Tensor]:
    """The tensors of a sharded checkpoint of PyTorch by name, those that its index names."""
    named = read_index(index)
    shards = {shard: _state_dict(load(index.parent / shard)) for shard in named}
    names = taken(index, named, shards)
    return {
        name: placed(tensor, place)
        for shard, tensors in shards.items()
        for name, tensor in tensors.items()
        if name in names[shard]
    }


def load_weights(
    path: str | os.PathLike[str] | Source,
) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """(tensors by name, metadata) for a model, of a file or folder as in `load`.

    The metadata is that of GGUF, else None. Of nested dicts, as trainers save them, the tensors
    have the names of the model's state dict.
    """
    file: Any = path
    if not isinstance(path, str | os.PathLike):
        kind = _kind_in(path)
    elif not states_metadata(path):
        return _state_dict(load(path)), None
    else:
        gguf = path if is_address(path) else gguf_in(Path(path))
        kind, file = ("gguf", gguf) if gguf else (kind_of_file(Path(path)), path)
    row = _FORMATS[kind]
    if not row.model:
        return _state_dict(load(path)), None
    tensors, metadata = row.reader(row.tensors)(file)
    return tensors, metadata


def states_metadata(path: str | os.PathLike[str]) -> bool:
    """Whether a file, folder or address is a model by itself: of GGUF, ggml or llama2.c."""
    if is_address(path):
        return _names_gguf(path)
    place = Path(path)
    return gguf_in(place) is not None or (place.is_file() and kind_of_file(place) in _MODELS)


def _names_gguf(address: str | os.PathLike[str]) -> bool:
    return str(address).partition("?")[0].lower().endswith(".gguf")


def read_tables(path: str | os.PathLike[str]) -> list[tuple[str, Table, dict[str, Any]]]:
    """(file, its tensors, its metadata) for each file that `path` stands for, as in `load`."""
    opened: list[tuple[Source, Table, dict[str, Any]]]
    if gguf := gguf_in(Path(path)):
        opened = [(source, file.table, file.metadata) for source, file in open_gguf(gguf)]
    else:
        place = weights_in(Path(path)) if Path(path).is_dir() else Path(path)
        if place.name.endswith(".bin.index.json"):
            return [row for shard in read_index(place) for row in read_tables(place.parent / shard)]
        if kind_of_file(place) in ("safetensors", "json"):
            opened = [(s, table, dict(table.metadata)) for s, table in open_tables(place)]
        else:
            source = open_source(place)
            opened = [(source, *table_of(source))]
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
    if kind not in _FORMATS:
        raise FormatError(
            f"{name} looks like {kind}, which cannot be read",
            hint="convert it to safetensors, or fetch the model's .safetensors file",
        )
    return kind


def kind_of(first: bytes) -> str:
    """The format that begins with these bytes (32 suffice): a short name, or words for others."""
    if first[8:9] == b"{" and first[:4] not in _SIGNATURES:  # a header may have 0x280 bytes
        return "safetensors"
    if is_whisper(first):
        return "whisper"
    for signature, kind in _SIGNATURES.items():
        if first.startswith(signature):
            return kind
    if is_llama2c(first):
        return "llama2c"
    for signature, kind in _OTHERS:
        if first.startswith(signature):
            return kind
    if first.lstrip()[:1] == b"{":
        return "json"
    return f"an unknown format (it begins with {first[:8]!r})" if first else "an empty file"
