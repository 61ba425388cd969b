"""NumPy's files: what NumPy saved is read alike, in every order; what needs code is refused."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import read_tables
from rushlight.core.io.weights.numpy_files import load_npy, load_npz
from rushlight.core.io.weights.source import BytesSource

KINDS = ["?", "u1", "i1", "i2", "i4", "u4", "i8", "f2", "f4", "f8"]


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    rng, found = np.random.default_rng(0), {}
    for kind in KINDS:
        for order in "<>":
            for shape in ((), (0, 3), (5,), (3, 4, 5)):
                values = rng.integers(0, 2 if kind == "?" else 100, shape)
                array = np.asarray(values).astype(order + kind)
                found[f"{kind[-2:]}{order}{len(shape)}"] = array
                found[f"{kind[-2:]}{order}{len(shape)} f"] = np.asfortranarray(array)
    return found


def same(tensor: rl.Tensor, array: np.ndarray[Any, Any]) -> bool:
    native = array.astype(array.dtype.newbyteorder("="))
    return tensor.numpy().dtype == native.dtype and np.array_equal(tensor.numpy(), native)


def test_every_dtype_order_and_version() -> None:
    for name, array in arrays().items():
        for version in ((1, 0), (2, 0), (3, 0)):
            found = load_npy(BytesSource(npy(array, version=version)))
            assert found.shape == array.shape and same(found, array), (name, version)
        if "f" in name and array.ndim > 1 and array.size:
            assert found.layout.strides == tuple(s // array.itemsize for s in array.strides)


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive(packed: bool, tmp_path: Path) -> None:
    path, expected = tmp_path / "weights", arrays()
    with path.open("wb") as file:
        save: Any = np.savez_compressed if packed else np.savez
        save(file, **expected)
    found = rl.load(path)
    assert found.keys() == expected.keys()
    assert all(same(found[name], array) for name, array in expected.items())
    ((_, table, metadata),) = read_tables(path)
    assert {n: e.shape for n, e in table.entries.items()} == {
        n: a.shape for n, a in expected.items()
    } and metadata == {}


def test_on_every_device(tmp_path: Path, device: str) -> None:
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "b.npz", a=array)
    for found in (rl.load(tmp_path / "a.npy", device), rl.load(tmp_path / "b.npz", device)["a"]):
        assert found.device.type == rl.device(device).type
        assert np.array_equal(found.numpy(), array)


@pytest.mark.native
def test_arrays_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    values = np.arange(4000, dtype=np.float32).reshape(40, 100)
    np.savez(tmp_path / "a.npz", a=values, b=np.asfortranarray(values))
    found = rl.load(tmp_path / "a.npz")
    content = (tmp_path / "a.npz").read_bytes()
    offsets = content.index(values.tobytes()), content.index(values.tobytes("F"))
    addresses = [found[name].storage.address for name in "ab"]
    # Where both lie at whole elements of the file.
    if all(at % 4 == 0 for at in offsets):
        assert addresses[1] - addresses[0] == offsets[1] - offsets[0]


GOOD = npy(np.arange(3.0))


def changed(**keys: str) -> bytes:
    found = {"descr": "'<f8'", "fortran_order": "False", "shape": "(3,)"} | keys
    text = "{" + ", ".join(f"'{k}': {v}" for k, v in found.items()) + "}\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode() + bytes(24)


WRONG: dict[str, tuple[bytes, str]] = {
    "version": (b"\x93NUMPY\4" + GOOD[7:], "is not an .npy array"),
    "header past the end": (GOOD[:60], "a header of 118 bytes does not fit a file of 60"),
    "long header": (b"\x93NUMPY\2\0\xff\xff\xff\x7f" + bytes(99), "a header of 2147483647 bytes"),
    "cut off": (GOOD[:-1], "takes 24 bytes, the file has 23"),
    "shape": (changed(shape="(4,)"), "takes 32 bytes, the file has 24"),
    "huge": (changed(shape="(1152921504606846977,)"), "is too large"),
    "huge but empty": (changed(shape="(0, 9999999999999999999)"), "is too large"),
    "many digits": (changed(shape="(" + "9" * 9000 + ",)"), "is too large"),
    "dims": (changed(shape="(" + "1," * 33 + ")"), "is too large"),
    "negative": (changed(shape="(-3,)"), "not that of an array of numbers"),
    "a number as shape": (changed(shape="3"), "not that of an array of numbers"),
    "text as shape": (changed(shape="'3'"), "the header is"),
    "order": (changed(fortran_order="'a'"), "the header is"),
    "call": (changed(shape="(__import__('os'),)"), "not that of an array of numbers"),
    "nested": (changed(shape="(" * 5000 + ")" * 5000), "not that of an array of numbers"),
    "key twice": (changed().replace(b"fortran_order", b"shape"), "header"),
    "records": (changed(descr="[('a', '<f8')]"), "arrays of records are not supported"),
    "objects": (changed(descr="'|O'"), "'|O' are not supported\n.*objects would need a pickle"),
    "text": (changed(descr="'<U3'"), "'<U3' are not supported"),
    "complex": (changed(descr="'<c32'"), "'<c32' are not supported"),
    "no such": (changed(descr="'<f3'"), "'<f3' are not supported"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_malformed_array_is_named(which: str) -> None:
    content, message = WRONG[which]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", content)
    tracemalloc.start()
    try:
        for load, source in (
            (load_npy, BytesSource(content, "m.npy")),
            (load_npz, BytesSource(buffer.getvalue(), "m.npz")),
        ):
            with pytest.raises(rl.FormatError, match=message.replace("|", r"\|")) as told:
                load(source)
            assert source.name in str(told.value)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(rl.FormatError, match="objects would need a pickle"):
        rl.load(tmp_path / "o.npy")


def test_texts_and_times_beside_numbers_are_numpys_own(tmp_path: Path) -> None:
    others = {
        "labels": np.array(["cat", "d\u00f6gs"]),
        "bytes": np.array([b"x"]),
        "days": np.array(["2020-01-01"], "M8[D]"),
        "table": np.asfortranarray(np.array([["a", "b"], ["c", "dd"]])),
        "none": np.array([], "U3"),
    }
    objects = {"o": np.array([1, "a"], object), "r": np.array([(1, 2.0)], "i4,f8")}
    saves: tuple[Any, ...] = (np.savez, np.savez_compressed)
    for save in saves:
        file = tmp_path / "labelled.npz"
        save(file, x=np.arange(3), **others, **objects)
        values = rl.load(file)
        assert set(values) == {"x", *others} and values["x"].tolist() == [0, 1, 2]
        for name, array in others.items():
            assert values[name].dtype == array.dtype and np.array_equal(values[name], array)
    np.save(tmp_path / "labels.npy", others["labels"])
    assert rl.load(tmp_path / "labels.npy").tolist() == others["labels"].tolist()


# --- archives ------------------------------------------------------------------------------------


def archive(compress: bool = True, /, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if compress else 0) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def refused(content: bytes, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError, match=message):
            rl.load(BytesSource(content, "m.npz"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_an_archive_that_would_fill_the_memory_is_refused() -> None:
    zeros = npy(np.zeros(5 << 20, np.float32))
    content = archive(w=zeros)
    assert len(content) < 30_000
    assert rl.load(BytesSource(content))["w"].shape == (5 << 20,)  # little enough
    refused(archive(**{f"w{i}": zeros for i in range(4)}), r"\d+ bytes would unpack to \d+")


def test_members_that_share_bytes_are_refused() -> None:
    """Each of them of a size that the archive may have, all of them more than it has."""
    content = archive(False, a=GOOD, b=GOOD)
    at, second = content.index(b"PK\1\2"), content.rindex(b"PK\1\2")
    begin = content.index(b"PK\3\4", 4).to_bytes(4, "little")
    assert content[second + 42 :][:4] == begin
    refused(content[: second + 42] + bytes(4) + content[second + 46 :], "share bytes")
    assert at < second


def test_damaged_archives_are_named() -> None:
    content = archive(w=GOOD)
    end, entry = content.rindex(b"PK\5\6"), content.index(b"PK\1\2")
    cases = {
        "directory at the end of the zip is missing": content[:-1],
        r"no b'PK\\x03\\x04' record of a zip": b"PK\3\5" + content[4:],
        "entry 0 of the zip's directory is damaged": content.replace(b"PK\1\2", b"PK\1\3"),
        "does not fit before byte": content[: end + 10] + b"\xff\xff" + content[end + 12 :],
        "is encrypted": content[: entry + 8] + b"\1\0" + content[entry + 10 :],
        "packed by method 12": content[: entry + 10] + b"\x0c\0" + content[entry + 12 :],
        "do not fit in": content[: entry + 20] + b"\xff\xff\0\0" + content[entry + 24 :],
        "is damaged|invalid": content[:50] + b"\xff" * 20 + content[70:],
        "another checksum": content[: entry + 16] + b"abcd" + content[entry + 20 :],
        "two members have one name": archive(a=GOOD, b=GOOD).replace(b"b.npy", b"a.npy"),
    }
    for message, damaged in cases.items():
        kind = load_npz if damaged[:4] != b"PK\3\4" else rl.load
        with pytest.raises(rl.FormatError, match=message):
            kind(BytesSource(damaged, "m.npz"))


@pytest.mark.native
def test_an_archive_of_more_than_4_gigabytes(tmp_path: Path) -> None:
    """The 64-bit form; sparse, and only the directory and the headers are read."""
    path, header = tmp_path / "big.npz", npy(np.zeros((0, 4800), np.uint8))
    shaped = header.replace(b"(0, 4800)", b"(1048576, 4800)")
    length = int.from_bytes(header[8:10], "little") + 10
    shaped = shaped[: shaped.index(b"}") + 1].ljust(length - 1) + b"\n"
    with zipfile.ZipFile(path, "w") as made, made.open("w.npy", "w", force_zip64=True) as member:
        member.write(shaped)
        raw: Any = made.fp
        size = 4800 << 20
        raw.seek(size, 1)
        # What zipfile would have counted.
        info: Any = member
        info._file_size += size
        info._compress_size += size
    found = rl.load(path)["w"]
    assert path.stat().st_size > 5 * 10**9 and found.shape == (1 << 20, 4800)
    assert found[-1, -1].item() == 0
