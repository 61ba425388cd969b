"""Files of PyTorch and NumPy by ranges: their tensors, and the storages that a stream fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout
from rushlight.core.io import kind_of
from rushlight.core.io.weights.source import Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.io.weights.zips import LEAD, read_zip

_MOST_NUMBERS = 64  # beside the tensors


@dataclass(frozen=True, slots=True)
class Stored:
    """The tensors of a file as the storages that they lie in, for a stream of the file's bytes.

    plain: storages whose tensors are whole ones; others: those that are seen with strides, from the
    middle or as two dtypes. views: key of its storage and layout, for each tensor. records: where
    the records before the members of a zip begin; `offset` of an entry then counts from the end of
    such a record as if neither name nor more stood behind it (see `read_zip`). numbers:
    those beside the tensors, by name. counts: bytes that must stand at these places.
    """

    plain: Table
    others: Table
    views: dict[str, tuple[str, Layout]]
    records: tuple[int, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    counts: Sequence[tuple[int, bytes]] = ()


def read_storages(source: Source) -> Stored | None:
    """The storages of a file of PyTorch or of an .npz file; reads no tensor.

    None for a file of another kind, and for one whose arrays are compressed. Raises FormatError for
    a broken file and for code in it.
    """
    kind = kind_of(bytes(source.read(0, 24)))
    if kind == "zip" and any(name.endswith(".npy") for name in read_zip(source)):
        return _of_npz(source)
    return _of_pytorch(source) if kind in ("pickle", "zip") else None


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file of PyTorch or NumPy says of its tensors: format, table, records as in `Stored`.

    closed: why the bytes of some tensors cannot be read row by row, by name.
    """

    format: str
    table: Table
    closed: dict[str, str]
    records: tuple[int, ...] = ()


def read_saved(source: Source) -> Saved | None:
    """All tensors of a file of PyTorch or NumPy; None for another kind. Reads no tensor."""
    kind = kind_of(bytes(source.read(0, 24)))
    if kind == "npy":
        from rushlight.core.io.weights.numpy_files import read_npy_table

        return Saved("NumPy, npy", read_npy_table(source), {})
    if kind not in ("pickle", "zip"):
        return None
    members = read_zip(source) if kind == "zip" else {}
    records = tuple(member.header for member in members.values())
    if any(name.endswith(".npy") for name in members):
        from rushlight.core.io.weights import numpy_files

        rows = list(numpy_files.arrays(source, lazily=True, texts={}))
        closed = {name: "is compressed" for name, member, _ in rows if member.deflated}
        closed |= {name: "lies column by column" for name, _, a in rows if a.fortran}
        table = numpy_files.table_of((name, m.offset, a) for name, m, a in rows)
        return Saved("NumPy, npz", table, closed, records)
    from rushlight.core.io.weights.pickles import pytorch

    table, strided = pytorch.table_of(pytorch.SavedFile(source, lazily=True).read())
    format_name = "PyTorch, zip" if members else "PyTorch, before 1.6"
    return Saved(format_name, table, dict.fromkeys(strided, "is a view with strides"), records)


# Modules of formats that a page seldom has are imported when they are used.


def _of_pytorch(source: Source) -> Stored:
    from rushlight.core.io.weights.pickles.pytorch import SavedFile, described, state_dict
    from rushlight.core.io.weights.pickles.tensors import TensorRef

    file = SavedFile(source, lazily=True).read()
    refs = state_dict(described(file), TensorRef)
    entries: dict[str, Entry] = {}
    seen: set[str] = set()
    views: dict[str, tuple[str, Layout]] = {}
    kinds: dict[str, DType] = {}
    for name, ref in refs.items():
        storage, layout, dtype = ref.storage.key, ref.layout, ref.dtype
        offset, nbytes = file.places[storage]
        key, count = f"{storage} {dtype.name}", nbytes // dtype.itemsize
        size = count * dtype.itemsize
        entries[key] = Entry(key, dtype, (count,), offset, size, file.swapped)
        views[name] = key, layout
        covers_storage = layout.is_contiguous and layout.numel == count
        if not covers_storage or kinds.setdefault(storage, dtype) is not dtype:
            seen.update((key, f"{storage} {kinds.get(storage, dtype).name}"))
    tables = [{k: e for k, e in entries.items() if (k in seen) is other} for other in (False, True)]
    zipped = {e.offset - LEAD for e in entries.values()} if file.zipped else ()
    records, numbers = tuple(sorted(zipped)), numbers_beside(file.value)
    return Stored(Table(tables[0]), Table(tables[1]), views, records, numbers, file.counts)


def _of_npz(source: Source) -> Stored | None:
    from rushlight.core.io.weights.numpy_files import arrays

    rows = list(arrays(source, lazily=True, texts={}))
    if any(member.deflated for _, member, _ in rows):
        return None
    tables: tuple[dict[str, Entry], dict[str, Entry]] = {}, {}
    views = {}
    for name, member, a in rows:
        shape = a.shape[::-1] if a.fortran else a.shape
        layout = Layout.contiguous(shape)
        views[name] = name, layout.permute(range(len(shape))[::-1]) if a.fortran else layout
        entry = Entry(name, a.dtype, shape, member.offset + a.begin, a.nbytes, a.swapped)
        tables[a.fortran][name] = entry
    records = tuple(sorted(member.header for _, member, _ in rows))
    return Stored(Table(tables[0]), Table(tables[1]), views, records)


def numbers_beside(value: Any) -> dict[str, int]:
    """The sizes that OpenAI's files of Whisper hold beside the state dict: dims.NAME -> number."""
    dims = value.get("dims") if type(value) is dict else None
    if type(dims) is not dict or not 0 < len(dims) <= _MOST_NUMBERS:
        return {}
    all_numbers = all(type(k) is str and type(v) is int and abs(v) < 2**31 for k, v in dims.items())
    return {f"dims.{name}": number for name, number in dims.items()} if all_numbers else {}


# What a layer of hqq says of itself beside its tensors, in `meta` or without it, once more for the
# scales and zeros that are quantized themselves.
_HQQ_KEYS = frozenset(
    "nbits group_size shape axis packing quant_scale quant_zero channel_wise".split()
)
_HQQ_META = ("meta", "meta_zero", "meta_scale")


def hqq_settings(value: Any) -> dict[str, int | list[int]]:
    """The plain values of layers of hqq by name, as it writes them to safetensors: texts as codes.

    value: what a file held: a state dict, or hqq's own dict of one for each module.
    """
    settings: dict[str, int | list[int]] = {}

    def walk(layer: dict[Any, Any], before: str, depth: int = 0) -> None:
        for key, item in layer.items():
            if key in _HQQ_META and type(item) is dict and depth < len(_HQQ_META):
                walk(item, f"{before}{key}.", depth + 1)
            elif type(key) is str and key.rpartition(".")[2] in _HQQ_KEYS:
                if type(item) is str and len(item) <= _MOST_NUMBERS:
                    settings[before + key] = [ord(letter) for letter in item]
                elif type(item) in (int, bool) and abs(item) < 2**31:
                    settings[before + key] = int(item)
                elif type(item) in (list, tuple) and len(item) <= _MOST_NUMBERS:
                    if all(type(n) is int and abs(n) < 2**62 for n in item):
                        settings[before + key] = list(item)

    if type(value) is not dict:
        return {}
    if any(type(key) is str and key.endswith(".W_q") for key in value):
        walk(value, "")
        return settings
    for name, layer in value.items():
        if type(name) is str and type(layer) is dict and "W_q" in layer:
            walk(layer, f"{name}.")
    return settings
