"""The safetensors reader and writer: every dtype, lazy views, shards, and files that are broken."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tracemalloc
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight as rl
from rushlight import load, save
from rushlight.core.basis.dtype import from_safetensors
from rushlight.core.io.weights.load_schedule import load_schedule, run_schedule, run_schedule_async
from rushlight.core.io.weights.safetensors import (
    load_safetensors,
    open_tables,
    read_table,
    read_table_async,
    save_safetensors,
)
from rushlight.core.io.weights.source import BytesSource, FileSource, MmapSource, Source

SHAPES = [(), (1,), (3,), (0,), (2, 3), (4, 0, 2), (2, 1, 3, 2)]


def _raw(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header (an object, or its text) and these bytes after it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _row(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def _some(dtype: rl.DType, shape: tuple[int, ...]) -> rl.Tensor:
    """A tensor whose bytes all differ, as far as the dtype allows."""
    n = dtype.nbytes(int(np.prod(shape)))
    data = (np.arange(n) % 251).astype(np.uint8)
    return rl.Tensor.from_buffer(data % 2 if dtype is rl.bool else data, dtype, shape)


def _every_dtype() -> dict[str, rl.Tensor]:
    dtypes = from_safetensors.values()
    return {f"{d.name}.{i}": _some(d, s) for d in dtypes for i, s in enumerate(SHAPES)}


def _same(a: dict[str, rl.Tensor], b: dict[str, rl.Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert tensor.dtype is b[name].dtype, name
        assert tensor.shape == b[name].shape, name
        assert tensor.raw_bytes() == b[name].raw_bytes(), name


# --- round trips ------------------------------------------------------------------------------


def test_every_dtype_and_shape_comes_back(tmp_path: Path) -> None:
    tensors = _every_dtype()
    save(tensors, tmp_path / "t.safetensors")
    _same(load(tmp_path / "t.safetensors"), tensors)


def test_views_are_saved_as_what_they_show(tmp_path: Path) -> None:
    x = rl.from_numpy(np.arange(24, dtype=np.int32).reshape(4, 6))
    views = {"t": x.transpose(0, 1), "slice": x[1:4:2, ::3], "wide": x[:1].expand(4, 6), "x": x}
    save(views, tmp_path / "v")
    for name, tensor in load(tmp_path / "v").items():
        assert np.array_equal(tensor.numpy(), views[name].numpy()), name


@given(
    names=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=6),
    metadata=st.dictionaries(st.text(), st.text(st.characters(exclude_categories=["Cs"]))),
    data=st.data(),
)
def test_any_names_and_metadata_come_back(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], metadata: Any, data: st.DataObject
) -> None:
    kinds = st.sampled_from(list(from_safetensors.values()))
    tensors = {
        n: _some(data.draw(kinds), data.draw(st.sampled_from(SHAPES)))
        for n in names
        if n != "__metadata__"
    }
    metadata = {k: v for k, v in metadata.items() if k.isprintable()}
    path = tmp_path_factory.mktemp("any") / "t.safetensors"
    save_safetensors(tensors, path, metadata)
    _same(load_safetensors(path), tensors)
    assert read_table(MmapSource(path)).metadata == metadata


@pytest.mark.native
def test_the_writer_writes_what_the_reference_writes(tmp_path: Path) -> None:
    import safetensors

    tensors = _every_dtype()
    tensors['a "quoted" \n name, é 😀 \x7f\x01'] = rl.zeros((2, 2))
    as_given = {}
    for name, t in tensors.items():
        spec = safetensors.TensorSpec(
            dtype=t.dtype.name,
            shape=list(t.shape),
            data_ptr=t.buffer.ctypes.data,
            data_len=t.nbytes,
        )
        as_given[name] = spec
    for metadata in (None, {"format": "pt"}):
        save_safetensors(tensors, tmp_path / "t", metadata)
        assert (tmp_path / "t").read_bytes() == safetensors.serialize(as_given, metadata)


@pytest.mark.native
def test_the_reader_reads_what_the_reference_writes(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    rng = np.random.default_rng(0)
    arrays = {
        f"{d.name}.{i}": rng.integers(0, 2, s).astype(d.numpy)
        for d in from_safetensors.values()
        if not d.encoded
        for i, s in enumerate(SHAPES)
    }
    save_file(arrays, tmp_path / "t", {"k": "v"})
    ours, theirs = load(tmp_path / "t"), load_file(tmp_path / "t")
    assert ours.keys() == theirs.keys() == arrays.keys()
    for name, array in theirs.items():
        assert ours[name].numpy().dtype == array.dtype
        assert np.array_equal(ours[name].numpy(), array)


@pytest.mark.parametrize(
    ("tensors", "error", "tells"),
    [
        ({"a": [1.0]}, TypeError, "'a' is a list, not a Tensor"),
        ({"__metadata__": rl.zeros(2)}, ValueError, "cannot have a tensor named '__metadata__'"),
        ({"\ud800": rl.zeros(2)}, ValueError, "cannot have a tensor named"),
        ({3: rl.zeros(2)}, ValueError, "cannot have a tensor named 3"),
    ],
)
def test_values_that_cannot_be_saved_are_named(
    tmp_path: Path, tensors: Any, error: type[Exception], tells: str
) -> None:
    with pytest.raises(error, match=tells):
        save(tensors, tmp_path / "t.safetensors")
    with pytest.raises(TypeError, match="metadata must be text"):
        save_safetensors({}, tmp_path / "t", {"a": 1})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


# --- lazy views -------------------------------------------------------------------------------


@pytest.mark.native
def test_opening_reads_only_the_header(tmp_path: Path) -> None:
    path, n = tmp_path / "huge", 3 << 40  # a hole: it has no bytes on the disk
    with path.open("wb") as file:
        file.write(_raw({"a": _row("U8", [n], [0, n])}))
        file.truncate(file.tell() + n)
    a = load(path)["a"]
    assert a.shape == (n,)
    assert a[n - 1].item() == 0


def test_writing_to_a_loaded_tensor_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save({"a": rl.zeros(3), "b": rl.ones(2)}, path)
    before = path.read_bytes()
    a = load(path)["a"]
    a.add_(1.0)
    assert a.tolist() == [1.0, 1.0, 1.0]
    assert path.read_bytes() == before


def test_saving_over_the_loaded_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    save({"a": rl.arange(5)}, path)
    tensors = load(path)
    save({"a": tensors["a"] + 1, "old": tensors["a"]}, path)
    assert tensors["a"].tolist() == [0, 1, 2, 3, 4]
    assert load(path)["a"].tolist() == [1, 2, 3, 4, 5]
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("pad", range(8))
def test_tensors_at_odd_places_are_aligned(tmp_path: Path, pad: int) -> None:
    values = np.arange(4, dtype=np.float64)
    header = json.dumps({"a": _row("F64", [4], [0, 32])}).encode() + b" " * pad
    path = tmp_path / "t"
    path.write_bytes(_raw(header, values.tobytes()))
    with contextlib.closing(FileSource(path)) as file:
        sources = (path, BytesSource(path.read_bytes()), file)
        loaded = [load_safetensors(source)["a"].numpy() for source in sources]
    for a in loaded:
        assert a.flags.aligned and a.flags.writeable
        assert np.array_equal(a, values)


def test_an_empty_file_of_tensors(tmp_path: Path) -> None:
    save({}, tmp_path / "t")
    assert load(tmp_path / "t") == {}


def test_other_devices(tmp_path: Path, device: str) -> None:
    save({"a": rl.arange(5)}, tmp_path / "t")
    a = load(tmp_path / "t", device=device)["a"]
    assert str(a.device) == device and a.tolist() == [0, 1, 2, 3, 4]
    assert str(load(tmp_path / "t", device="meta")["a"].device) == "meta"


# --- files that are broken --------------------------------------------------------------------

GOOD = {"a": _row()}
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "0 bytes are too few"),
    "too short": (b"\x02\0\0\0\0\0\0\0", "8 bytes are too few"),
    "header too long": (_raw(GOOD, length=10**8 + 1), "100000001 bytes, more than 100000000"),
    "length of -1": (_raw(GOOD, length=2**64 - 1), "more than 100000000"),
    "web page": (b"<!DOCTYPE html><html>", "is it a web page"),
    "cut in the header": (_raw(GOOD, length=5000), "the header has 5000 bytes, the file .* cut"),
    "not an object": (_raw(b"[1, 2] "), "begins with b'\\[', not with"),
    "space in front": (_raw(b" {}"), "begins with b' '"),
    "not UTF-8": (_raw(b'{"\xff": 1}'), "header is not JSON: 'utf-8' codec"),
    "UTF-16": (_raw('{"a": 1}'.encode("utf-16")), "begins with"),
    "not JSON": (_raw(b'{"a": }'), "header is not JSON: Expecting value"),
    "text after it": (_raw(b"{} x"), "header is not JSON: Extra data"),
    "open bracket": (_raw(b'{"a": [1, 2}'), "is not JSON"),
    "open string": (_raw(b'{"a'), "is not JSON"),
    "deep lists": (_raw(b'{"a":' + b"[" * 10**6), "nest deeper than 3"),
    "deep objects": (_raw(b'{"a":' * 10**6), "nest deeper than 3"),
    "nested once too often": (_raw({"a": {"b": {"c": [[]]}}}), "nest deeper than 3"),
    "objects of no use": (_raw(b'{"a": {"b": {}, "c": {}}}'), "an object has the keys"),
    "a tensor twice": (
        _raw(b'{"a": %b, "a": %b}' % ((json.dumps(_row()).encode(),) * 2), bytes(8)),
        "'a' occurs twice",
    ),
    "a key twice": (
        _raw(b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [], "data_offsets": [0, 4]}}'),
        "'dtype' occurs twice",
    ),
    "not a row": (_raw({"a": 3}), 'tensor "a" must have the keys'),
    "a key missing": (_raw({"a": {"dtype": "F32", "shape": []}}), 'tensor "a" must have the keys'),
    "a key too many": (_raw({"a": {**_row(), "x": 1}}), 'tensor "a" must have the keys'),
    "no text": (_raw(b'{"\\ud800": 1}'), "is not Unicode text"),
    "unknown dtype": (
        _raw({"a": _row("F31")}),
        "\"a\": dtype 'F31' is not supported; supported: BOOL",
    ),
    "dtype of a dict": (_raw({"a": _row([])}), r'"a": dtype \[\] is not supported'),
    "shape of text": (_raw({"a": _row(shape="12")}), '"a": shape is not a list of whole'),
    "shape of floats": (_raw({"a": _row(shape=[2.0])}), '"a": shape is not a list of whole'),
    "shape of bools": (_raw({"a": _row(shape=[True])}), '"a": shape is not a list of whole'),
    "negative dim": (_raw({"a": _row(shape=[-2])}), "-2 is negative"),
    "minus zero": (_raw(b'{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}'), "-0 is neg"),
    "endless number": (_raw(b'{"a": %b}' % (b"9" * 5000)), "header is not JSON: Exceeds"),
    "huge dim": (_raw({"a": _row(shape=[2**70])}, bytes(8)), "is too large"),
    "huge product": (_raw({"a": _row(shape=[2**40, 2**40])}, bytes(8)), "is too large"),
    "huge and zero": (_raw({"a": _row(shape=[2**62, 2**62, 0], offsets=[0, 0])}), "is too large"),
    "many dims": (_raw({"a": _row(shape=[1] * 33, offsets=[0, 4])}, bytes(4)), "has 33 dims"),
    "one offset": (_raw({"a": _row(offsets=[8])}, bytes(8)), r"data_offsets \(8,\) are not in"),
    "backward": (_raw({"a": _row(offsets=[8, 0])}, bytes(8)), r"data_offsets \(8, 0\) are not"),
    "beyond the end": (_raw({"a": _row(offsets=[0, 8])}, bytes(7)), "are not in the 7 bytes"),
    "far beyond": (_raw({"a": _row(offsets=[0, 2**80])}, bytes(7)), "are not in the 7 bytes"),
    "too few bytes": (_raw({"a": _row(shape=[3])}, bytes(8)), r"8 bytes, F32 \(3,\) takes 12"),
    "a gap at the start": (_raw({"a": _row(offsets=[4, 12])}, bytes(12)), "there is a gap"),
    "a gap": (
        _raw({"a": _row(offsets=[0, 8]), "b": _row(offsets=[9, 17])}, bytes(17)),
        r'"b" begins at byte \d+ of the file, the one before it ends at \d+: there is a gap',
    ),
    "an overlap": (
        _raw({"a": _row(offsets=[0, 8]), "b": _row(offsets=[4, 12])}, bytes(12)),
        "they overlap",
    ),
    "the same bytes": (_raw({"a": _row(), "b": _row()}, bytes(8)), "they overlap"),
    "bytes left over": (_raw(GOOD, bytes(9)), r"tensors end at byte \d+, the file has \d+"),
    "only bytes": (_raw({}, bytes(9)), r"tensors end at byte \d+, the file has \d+"),
    "metadata of numbers": (_raw({"__metadata__": {"a": 1}}), "__metadata__ is not an object of"),
    "metadata of text": (_raw({"__metadata__": "x"}), "__metadata__ is not an object of strings"),
    "metadata of halves": (_raw(b'{"__metadata__":{"a":"\\udc00"}}'), "__metadata__ is not an"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_a_format_error(case: str, tmp_path: Path) -> None:
    content, tells = BROKEN[case]
    with pytest.raises(rl.FormatError, match=tells):
        read_table(BytesSource(content))
    with pytest.raises(rl.FormatError, match="wrong.safetensors"):
        (tmp_path / "wrong.safetensors").write_bytes(content)
        load_safetensors(tmp_path / "wrong.safetensors")
    with pytest.raises(rl.FormatError):
        load(tmp_path / "wrong.safetensors")


# Where this reader is stricter than the reference.
STRICTER = {"space in front", "a key too many", "a tensor twice", "huge and zero", "many dims"}


@pytest.mark.native
@pytest.mark.parametrize("case", sorted(BROKEN.keys() - STRICTER))
def test_the_reference_refuses_it_too(case: str) -> None:
    import safetensors

    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(BROKEN[case][0])  # type: ignore[no-untyped-call]


def test_tensors_without_bytes_are_refused_where_they_cost_much() -> None:
    """A tensor takes 50 bytes of a file, and twenty times that of the process."""
    rows = ",".join(
        f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(90_000)
    )
    text = "{" + rows + "}"
    content = struct.pack("<Q", len(text)) + text.encode()
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError, match="it has more than 65536 tensors"):
            read_table(BytesSource(content))
        assert tracemalloc.get_traced_memory()[1] < 8 * len(content) + (64 << 20)
    finally:
        tracemalloc.stop()


def test_a_name_that_a_file_has_not_is_no_reason_to_fail() -> None:
    table = read_table(BytesSource(_raw({"": _row(), "__metadata__": {"": ""}}, bytes(8))))
    assert list(table.entries) == [""] and table.metadata == {"": ""}


def test_the_table_says_where_the_bytes_are() -> None:
    header = {"b": _row("BF16", [2, 2], [4, 12]), "a": _row("U8", [4], [0, 4])}
    content = _raw(header, bytes(range(12)))
    source = BytesSource(content)
    table = read_table(source)
    assert list(table.entries) == ["a", "b"]  # in the order of the bytes
    b = table.entries["b"]
    assert (b.dtype, b.shape, b.nbytes) == (from_safetensors["BF16"], (2, 2), 8)
    assert bytes(source.read(b.offset, b.nbytes)) == bytes(range(4, 12))


@pytest.mark.parametrize(
    ("content", "tells"),
    [
        (b"PK\x05\x06" + bytes(40), "looks like an empty zip"),
        (b"\x80\x01\x8a\nl\xfc" + bytes(40), "looks like an unknown format"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"", "an empty file"),
        (b"hello, world", "begins with b'hello, w'"),
    ],
)
def test_other_kinds_of_files_are_told_by_their_content(
    tmp_path: Path, content: bytes, tells: str
) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(rl.FormatError, match=tells):
        load(tmp_path / "m.safetensors")


@pytest.mark.native
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.safetensors")
    for read in (load, MmapSource, FileSource):
        with pytest.raises(rl.FormatError, match="m.safetensors is not a regular file"):
            read(tmp_path / "m.safetensors")


def test_no_file() -> None:
    with pytest.raises(FileNotFoundError, match="no/such/file"):
        load("no/such/file")


# --- shards -----------------------------------------------------------------------------------


def _sharded(folder: Path) -> dict[str, rl.Tensor]:
    """A model in two shards with its index."""
    tensors = {f"t{i}": rl.arange(i + 1) for i in range(6)}
    places: dict[str, str] = {}
    for number in (1, 2):
        part = {n: t for n, t in tensors.items() if (int(n[1]) < 3) == (number == 1)}
        shard = f"model-0000{number}-of-00002.safetensors"
        save(part, folder / shard)
        places |= dict.fromkeys(part, shard)
    _index(folder, places)
    return tensors


def _index(folder: Path, places: Any) -> None:
    text = json.dumps({"metadata": {"total_size": 1}, "weight_map": places})
    (folder / "model.safetensors.index.json").write_text(text)


def test_a_sharded_model_loads_from_its_folder_or_its_index(tmp_path: Path) -> None:
    tensors = _sharded(tmp_path)
    _same(load(tmp_path), tensors)
    _same(load(tmp_path / "model.safetensors.index.json"), tensors)
    assert len(open_tables(tmp_path)) == 2


def test_a_folder_with_one_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no model.safetensors; it has nothing"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="it has config.json"):
        load(tmp_path)
    save({"a": rl.arange(2)}, tmp_path / "other.safetensors")
    assert list(load(tmp_path)) == ["a"]
    save({"b": rl.arange(2)}, tmp_path / "model.safetensors")
    assert list(load(tmp_path)) == ["b"]


@pytest.mark.parametrize(
    "shard",
    [
        "../x.safetensors",
        "/x.safetensors",
        "a/x.safetensors",
        "a\\x.safetensors",
        "..",
        "C:x.safetensors",
        "x\0.safetensors",
        "x.bin",
        "",
        3,
        None,
        ["x.safetensors"],
    ],
)
def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path, shard: Any) -> None:
    folder = tmp_path / "model"
    (folder / "a").mkdir(parents=True)
    for place in (tmp_path, folder / "a"):
        save({"t": rl.arange(2)}, place / "x.safetensors")
    _index(folder, {"t": shard})
    with pytest.raises(rl.FormatError, match="not the name of a file beside the index"):
        load(folder)


def test_an_index_that_does_not_fit_its_shards(tmp_path: Path) -> None:
    _sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(rl.FormatError, match="shard model-00002-of-00002.safetensors is missing"):
        load(tmp_path)
    _index(tmp_path, {"t0": "model-00001-of-00002.safetensors"})
    assert list(load(tmp_path)) == ["t0", "t1", "t2"]  # all of a shard that it names, as torch
    _index(tmp_path, {"t9": "model-00001-of-00002.safetensors"})
    with pytest.raises(rl.FormatError, match='"t9" should be in model-00001'):
        load(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"weight_map": {}}', '{"weight_map": 3}', "{", "[" * 10**5, "\xff"],
    ids=["list", "empty", "no-map", "number", "open", "deep", "latin"],
)
def test_an_invalid_index_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(rl.FormatError, match="index.json is not"):
        load_safetensors(tmp_path)


# --- sources and schedules --------------------------------------------------------------------


class Failing(BytesSource):
    """Says it has more bytes than it gives."""

    def read(self, offset: int, n: int) -> memoryview:
        return self.view[offset : min(offset + n, self.size - 1)]

    async def read_async(self, offset: int, n: int) -> memoryview:
        return self.read(offset, n)


def _content() -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    values = {"a": np.arange(5, dtype=np.int64), "b": np.zeros((0, 3), np.int64)}
    header = {"a": _row("I64", [5], [0, 40]), "b": _row("I64", [0, 3], [40, 40])}
    return _raw(header, values["a"].tobytes()), values


def test_every_source_gives_the_same(tmp_path: Path) -> None:
    content, values = _content()
    (tmp_path / "t").write_bytes(content)
    sources: list[Source] = [
        BytesSource(content),
        BytesSource(bytearray(content)),
        FileSource(tmp_path / "t"),
        MmapSource(tmp_path / "t"),
    ]
    for source in sources:
        assert source.size == len(content)
        assert bytes(source.read(3, 4)) == content[3:7]
        assert bytes(source.read(len(content) - 2, 100)) == content[-2:]
        assert bytes(source.read(len(content) + 9, 100)) == b""
        found = load_safetensors(source)
        later = _finish(_load_async(source))
        source.close()
        for name, value in values.items():
            for tensors in (found, later):
                assert np.array_equal(tensors[name].numpy(), value)
                assert tensors[name].numpy().flags.writeable


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits; needs no event loop, so it works in a tab."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


async def _load_async(source: Source) -> dict[str, rl.Tensor]:
    table = await read_table_async(source)
    return await run_schedule_async(load_schedule([table], ["heap"]), [source])


def test_a_plan_goes_through_each_file_from_front_to_back() -> None:
    header = {n: _row("U8", [4], [4 * i, 4 * i + 4]) for i, n in enumerate("hgfedcba")}
    first = read_table(BytesSource(_raw(header, bytes(32))))
    second = read_table(BytesSource(_raw({"z": _row("F16", [1, 2], [0, 4])}, bytes(4))))
    steps = load_schedule([first, second], ["view", "heap"])
    places = [(s.file_index, s.offset) for s in steps]
    assert places == sorted(places)
    assert [s.name for s in steps] == list("hgfedcbaz")
    assert (steps[-1].dtype, steps[-1].shape, steps[-1].destination) == (rl.float16, (1, 2), "heap")
    with pytest.raises(rl.FormatError, match='"z" is in file 0 and in file 1'):
        load_schedule([second, second], ["view", "view"])


def test_what_is_small_or_held_otherwise_goes_to_a_device_through_the_heap() -> None:
    rows = [("large", "F32", 20_000, 4), ("wide", "I64", 20_000, 8), ("small", "F32", 8, 4)]
    header, at = {}, 0
    for name, kind, count, size in rows:
        header[name] = _row(kind, [count], [at, at + count * size])
        at += count * size
    table = read_table(BytesSource(_raw(header, bytes(at))))
    places = {s.name: s.destination for s in load_schedule([table], ["device"])}
    assert places == {"large": "device", "wide": "heap", "small": "heap"}


def test_views_share_memory_and_heap_buffers_do_not() -> None:
    content = bytearray(_content()[0])
    source = BytesSource(content)
    table = read_table(source)
    view = dict(run_schedule(load_schedule([table], ["view"]), [source]))["a"]
    heap = dict(run_schedule(load_schedule([table], ["heap"]), [source]))["a"]
    content[table.entries["a"].offset] = 77
    aligned = np.frombuffer(content, "u1").ctypes.data % 8 == table.entries["a"].offset % 8 == 0
    assert view.tolist()[0] == (77 if aligned else 0)
    assert heap.tolist()[0] == 0


@pytest.mark.parametrize("destination", ["view", "heap"])
def test_a_source_that_ends_early_is_a_format_error(destination: Any) -> None:
    whole = BytesSource(_content()[0])
    failing = Failing(_content()[0])
    steps = load_schedule([read_table(whole)], [destination])
    with pytest.raises(rl.FormatError, match="only 39 of 40 bytes can be read"):
        list(run_schedule(steps, [failing]))
    with pytest.raises(rl.FormatError, match="only 39 of 40 bytes can be read"):
        _finish(run_schedule_async(steps, [failing]))
    with pytest.raises(rl.FormatError, match=r"only \d+ of the header's \d+ bytes can be read"):
        read_table(Failing(_raw({})))


# --- dtypes that only files have ----------------------------------------------------------------


def _bits_to_float(code: int, bits: int, exponent: int, bias: int) -> float:
    """A float without infinities, of a sign, `exponent` bits and a fraction."""
    fraction = bits - 1 - exponent
    sign, e = code >> (bits - 1), code >> fraction & ((1 << exponent) - 1)
    part = (code & ((1 << fraction) - 1)) / (1 << fraction)
    size = part * 2.0 ** (1 - bias) if e == 0 else (1 + part) * 2.0 ** (e - bias)
    return -size if sign else size


NARROW_FORMATS = {
    "F4": (4, 2, 1),
    "F6_E2M3": (6, 2, 1),
    "F6_E3M2": (6, 3, 3),
    "F8_E4M3FNUZ": (8, 4, 8),
    "F8_E5M2FNUZ": (8, 5, 16),
    "F8_E8M0": (8, 8, 127),
}


@pytest.mark.parametrize("name", NARROW_FORMATS)
def test_narrow_floats_are_read_as_float32(name: str, tmp_path: Path) -> None:
    """Every code, the lowest bits first; OCP's formats, and torch's without a negative zero."""
    bits, exponent, bias = NARROW_FORMATS[name]
    codes = list(range(1 << bits))
    stream = sum(code << (bits * i) for i, code in enumerate(codes))
    data = stream.to_bytes(bits * len(codes) // 8, "little")
    if name == "F8_E8M0":
        expected = [2.0 ** (code - 127) for code in codes[:-1]] + [np.nan]
    else:
        expected = [_bits_to_float(code, bits, exponent, bias) for code in codes]
    if name.endswith("FNUZ"):
        expected[128] = np.nan
    header = {
        "a": {"dtype": name, "shape": [2, len(codes) // 2], "data_offsets": [0, len(data)]},
        "b": _row("C64", (1,), (len(data), len(data) + 8)),
    }
    path = tmp_path / "m.safetensors"
    path.write_bytes(_raw(header, data + np.array([1 - 2j], np.complex64).tobytes()))
    for found in (load(path), load_safetensors(BytesSource(path.read_bytes(), "m"))):
        assert found["a"].dtype is rl.float32
        values = np.array(expected, np.float32).reshape(2, -1)
        np.testing.assert_array_equal(found["a"].numpy(), values)
        assert found["b"].dtype is rl.complex64 and found["b"].tolist() == [1 - 2j]
    entry = read_table(BytesSource(path.read_bytes(), "m")).entries["a"]
    assert entry.nbytes == len(data) and entry.dtype.name.startswith("float")


def test_a_narrow_tensor_ends_at_a_byte(tmp_path: Path) -> None:
    for name, count in (("F4", 3), ("F6_E2M3", 6), ("F6_E3M2", 5)):
        header = {"a": {"dtype": name, "shape": [count], "data_offsets": [0, 4]}}
        with pytest.raises(rl.FormatError, match=f"{name} .* does not end at a byte"):
            load_safetensors(BytesSource(_raw(header, bytes(4)), "m"))
