"""`rl.load` and `rl.save`: paths, bytes, open files, torch's keywords, suffixes and formats."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tempfile
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.saving import SUFFIXES, format_of

DATA = Path(__file__).parents[1] / "data"
W = rl.arange(6.0).reshape(2, 3)
FORMATS = {"a.safetensors": "safetensors", "a.pt": "pt", "a.npz": "npz", "a.gguf": "gguf"}


class Reader:
    """Only `read`."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def read(self, n: int = -1) -> bytes:
        return self.data.read(min(n, 100) if n > 0 else n)


class Writer:
    """Only `write`, which may take less than it is given."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: Any) -> int:
        piece = bytes(data)[:1000]
        self.data += piece
        return len(piece)


@pytest.mark.parametrize("name", FORMATS)
def test_every_kind_of_input(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    rl.save({"w": W}, path)
    content = path.read_bytes()
    with zipfile.ZipFile(tmp_path / "outer.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner", content)
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(content))
    spooled = tempfile.SpooledTemporaryFile()  # noqa: SIM115 (closed with the test)
    spooled.write(content)
    spooled.seek(0)
    after = io.BytesIO(b"before" + content)
    after.seek(6)
    with (
        path.open("rb") as file,
        path.open("rb", buffering=0) as raw,
        path.open("r+b") as both,
        gzip.open(packed) as unpacked,
        zipfile.ZipFile(tmp_path / "outer.zip") as archive,
        archive.open("inner") as member,
    ):
        inputs: list[Any] = [
            path, str(path), content, bytearray(content), memoryview(content), io.BytesIO(content),
            after, file, raw, both, unpacked, member, spooled, Reader(content),
        ]  # fmt: skip
        for given in inputs:
            assert rl.load(given)["w"].tolist() == W.tolist(), type(given)
    spooled.close()
    owned = bytearray(content)
    found = rl.load(owned)["w"]
    owned[:] = bytes(len(owned))  # the tensor has memory of its own
    owned.clear()
    assert found.tolist() == W.tolist()


def test_inputs_that_are_no_files(tmp_path: Path) -> None:
    rl.save({"w": W}, tmp_path / "a.pt")
    with (tmp_path / "a.pt").open(encoding="latin-1") as text:
        with pytest.raises(TypeError, match=r"a.pt is open for text; open it with mode 'rb'"):
            rl.load(text)
    with pytest.raises(TypeError, match="StringIO is open for text"):
        rl.load(io.StringIO("a"))
    for given in (3, None, [1], {"a": 1}):
        with pytest.raises(TypeError, match=r"is not a file; it takes a path, bytes"):
            rl.load(given)
    at_end = io.BytesIO()
    rl.save({"w": W}, at_end)
    with pytest.raises(rl.FormatError, match=r"no bytes left to read\n.*seek\(0\)"):
        rl.load(at_end)
    for empty in (b"", io.BytesIO()):
        with pytest.raises(rl.FormatError):
            rl.load(empty)


def test_every_kind_of_output(tmp_path: Path) -> None:
    for row in (False, True):
        more: Any = {"_use_new_zipfile_serialization": not row}
        buffer, writer = io.BytesIO(), Writer()
        rl.save({"w": W, "n": 3}, buffer, **more)
        rl.save({"w": W, "n": 3}, writer, **more)
        after = io.BytesIO(b"before")
        after.seek(6)
        rl.save({"w": W, "n": 3}, after, **more)
        assert after.getvalue()[:6] == b"before"
        with (tmp_path / "a.pt").open("wb") as file:
            rl.save({"w": W, "n": 3}, file, **more)
        for content in (
            buffer.getvalue(),
            bytes(writer.data),
            after.getvalue()[6:],
            tmp_path / "a.pt",
        ):
            found = rl.load(content)
            assert found["n"] == 3 and found["w"].tolist() == W.tolist()
    with (tmp_path / "a.txt").open("w") as text, pytest.raises(TypeError, match="open for text"):
        rl.save(W, text)
    with (tmp_path / "a.txt").open("rb") as file, pytest.raises(ValueError, match="reading only"):
        rl.save(W, file)
    for given in (3, None, Reader(b"")):
        with pytest.raises(TypeError, match="is not a file; it takes a path"):
            rl.save(W, given)


def test_map_location_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    rl.save({"w": W, "more": [W + 1]}, path)
    meta = rl.device("meta")
    calls: list[Any] = []

    def moved(storage: Any, location: str) -> Any:
        calls.append((storage.numel(), location))
        return storage.to("meta")

    for given, kind in (
        (None, "cpu"),
        ("cpu", "cpu"),
        (rl.device("cpu"), "cpu"),
        ("meta", "meta"),
        (meta, "meta"),
        ({"cpu": "meta"}, "meta"),
        ({"cuda:0": "meta"}, "cpu"),
        ({"cuda:0": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: None, "cpu"),
        (moved, "meta"),
    ):
        for source in (path, path.read_bytes()):
            found = rl.load(source, map_location=given)
            assert found["w"].device.type == found["more"][0].device.type == kind, given
        assert rl.load(path, given)["w"].device.type == kind
    assert calls[:2] == [(6, "cpu")] * 2
    for name in ("a.safetensors", "a.npz", "a.gguf"):
        rl.save({"w": W}, tmp_path / name)
        assert rl.load(tmp_path / name, map_location={"cpu": "meta"})["w"].device.type == "meta"
        assert rl.load(tmp_path / name, device="meta")["w"].device.type == "meta"
    with pytest.raises(ValueError, match="device 'cuda' is not supported"):
        rl.load(path, map_location="cuda")
    with pytest.raises(TypeError, match="map_location is a int; it takes a device"):
        rl.load(path, map_location=3)
    with pytest.raises(TypeError, match="map_location returned a str; it must return the storage"):
        rl.load(path, map_location=lambda storage, location: "cpu")
    with pytest.raises(ValueError, match="say the same; give one"):
        rl.load(path, "cpu", device="cpu")


def test_locations_that_torch_wrote() -> None:
    """The file was saved on a GPU: its names of devices are what a dict or function is asked."""
    content = (DATA / "torch_zip.pt").read_bytes().replace(b"X\x03\0\0\0cpu", b"X\x03\0\0\0gpu")
    found = rl.load(content, map_location={"gpu": "meta"})["state_dict"]
    assert {t.device.type for t in found.values()} == {"meta"}
    assert rl.load(content)["state_dict"]["w"].device.type == "cpu"
    names: set[str] = set()
    rl.load(content, map_location=lambda storage, location: names.add(location))
    assert names == {"gpu"}


def test_keywords_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    rl.save({"w": W}, path)
    for more in (
        {"weights_only": True},
        {"weights_only": False},
        {"weights_only": None},
        {"mmap": True},
        {"mmap": False},
        {"mmap": None},
        {"encoding": "latin1"},
        {"pickle_module": pickle},
        {"errors": "strict"},
        {"fix_imports": True},
    ):
        assert rl.load(path, **more)["w"].tolist() == W.tolist()
    with pytest.raises(ValueError, match="mmap=True takes the path of a file"):
        rl.load(path.read_bytes(), mmap=True)
    other = types.ModuleType("dill")
    with pytest.raises(ValueError, match="pickle_module 'dill' is not supported"):
        rl.load(path, pickle_module=other)
    with pytest.raises(ValueError, match="pickle_module 'dill' is not supported"):
        rl.save(W, path, pickle_module=other)
    with pytest.raises(ValueError, match="there is no encoding 'nope'"):
        rl.load(path, encoding="nope")
    with pytest.raises(TypeError, match="the keyword 'strict' is not supported; supported: map_"):
        rl.load(path, strict=True)
    wrong: Any
    for wrong in (0, 1, 6, "2"):
        with pytest.raises(ValueError, match=f"pickle_protocol {wrong!r} is not supported"):
            rl.save(W, path, pickle_protocol=wrong)
    for protocol in (2, 3, 4, 5):
        rl.save({"w": W}, path, pickle, protocol)
        assert rl.load(path)["w"].tolist() == W.tolist()


def test_texts_of_python_2() -> None:
    """str of Python 2: bytes of some encoding."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02U\x02\xc3\xa9.")
    assert rl.load(content.getvalue()) == "é"
    assert rl.load(content.getvalue(), encoding="latin1") == "Ã©"
    assert rl.load(content.getvalue(), encoding="bytes") == b"\xc3\xa9"


# --- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_suffix_says_the_format(name: str, tmp_path: Path) -> None:
    rl.save({"w": W, "v": W[0]}, tmp_path / name)
    found = rl.load(tmp_path / name)
    assert found["w"].tolist() == W.tolist() and found["v"].tolist() == [0, 1, 2]
    first = (tmp_path / name).read_bytes()[:12]
    begins = {"pt": b"PK", "npz": b"PK", "gguf": b"GGUF"}.get(FORMATS[name])
    assert first.startswith(begins) if begins else first[8:9] == b"{"
    if name == "a.npz":
        with np.load(tmp_path / name) as arrays:
            assert arrays["w"].tolist() == W.tolist()
    rl.save(W, tmp_path / "a.npy")
    assert np.load(tmp_path / "a.npy").tolist() == rl.load(tmp_path / "a.npy").tolist()


def test_every_suffix_and_those_that_are_none(tmp_path: Path) -> None:
    told = {s: kind for kind, rows in SUFFIXES.items() for s in rows}
    for suffix, kind in told.items():
        assert format_of(f"a.b.{suffix}") == format_of(f"A.{suffix.upper()}") == kind
        assert format_of(f"a.{suffix}.tmp") == format_of(f"a.{suffix}.bak") == kind
    for name in ("latest", "model_0.95", "step.1000", ".hidden", "a.pth.tar", "x.tmp"):
        assert format_of(name) == "PyTorch"
    for name in ("a.onnx", "a.h5", "a.json", "a.safetensor", "a.pt.zip"):
        with pytest.raises(ValueError, match=r"supported: \.safetensors: s.*; \.pt, .*gguf"):
            rl.save({"w": W}, tmp_path / name)
    assert not list(tmp_path.iterdir())
    for kind, rows in SUFFIXES.items():
        assert kind and rl.save.__doc__ and f".{rows[0]}" in rl.save.__doc__
    rl.save({"w": W}, tmp_path / "latest")
    assert (tmp_path / "latest").read_bytes()[:2] == b"PK"


def test_what_a_format_does_not_take(tmp_path: Path) -> None:
    half = W.to(rl.bfloat16)
    for value, name, error, words in (
        ([W], "a.safetensors", TypeError, "takes a dict of tensors by name, not a list"),
        ({"a": 3}, "a.safetensors", TypeError, "'a' is a int, not a Tensor; a.safetensors takes"),
        ({"a": W.to(rl.complex128)}, "a.safetensors", ValueError, "'a' is complex128"),
        ({"a": half}, "a.npz", ValueError, r"'a' is bfloat16, which NumPy does not have; cast it"),
        (half, "a.npy", ValueError, "the value is bfloat16"),
        ({"a": W}, "a.npy", TypeError, "the value is a dict, not a Tensor, an array or a number"),
        ({"a": "x"}, "a.npz", TypeError, "'a' is a str, not a Tensor"),
        ({"a": np.array([None])}, "a.npz", TypeError, "'a' is an array of object"),
        (W, "a.npz", TypeError, "takes a dict of tensors by name, not a Tensor"),
        (W, "a.gguf", TypeError, "takes a dict of tensors by name, not a Tensor"),
    ):
        with pytest.raises(error, match=words):
            rl.save(value, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_complex_numbers_in_every_format(tmp_path: Path) -> None:
    for dtype, names in (
        (rl.complex64, ("a.pt", "a.npz", "a.safetensors")),
        (rl.complex128, ("a.pt", "a.npz")),
    ):
        turned = rl.tensor([1 + 2j, 3 - 4j]).to(dtype)
        for name in names:
            rl.save({"c": turned, "w": W}, tmp_path / name)
            found = rl.load(tmp_path / name)
            assert found["c"].dtype is dtype and found["c"].tolist() == [1 + 2j, 3 - 4j]
            assert found["w"].tolist() == W.tolist()


def test_arrays_and_numbers_of_numpy(tmp_path: Path) -> None:
    array = np.arange(6, dtype=">f4").reshape(2, 3)
    rl.save({"a": array, "b": np.float64(3)}, tmp_path / "a.npz")
    assert rl.load(tmp_path / "a.npz")["a"].tolist() == array.tolist()
    rl.save({"a": array.T}, tmp_path / "a.safetensors")
    assert rl.load(tmp_path / "a.safetensors")["a"].tolist() == array.T.tolist()
    rl.save(array, tmp_path / "a.npy")
    assert rl.load(tmp_path / "a.npy").tolist() == array.tolist()


def test_paths_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Place:
        def __fspath__(self) -> str:
            return str(tmp_path / "a.pt")

    rl.save({"w": W}, Place())
    assert rl.load(Place())["w"].tolist() == W.tolist()
    monkeypatch.chdir(tmp_path)
    rl.save({"w": W}, "é ü.pt")
    assert rl.load("é ü.pt")["w"].tolist() == W.tolist()
    os.symlink("a.pt", "link.pt")
    rl.save({"v": W}, "link.pt")  # what the link leads to is replaced, not the link
    assert Path("link.pt").is_symlink() and list(rl.load("a.pt")) == ["v"]
    Path("a.pt").chmod(0o640)
    rl.save({"v": W}, "a.pt")
    assert Path("a.pt").stat().st_mode & 0o777 == 0o640
    rl.save({"v": W}, os.devnull)
    assert Path(os.devnull).is_char_device()
    with pytest.raises(IsADirectoryError, match="is a folder; name a file"):
        rl.save({"v": W}, tmp_path)
    with pytest.raises(FileNotFoundError, match="the folder .*nowhere does not exist"):
        rl.save({"v": W}, "nowhere/a.pt")


def test_sparse_tensors_stay_sparse() -> None:
    """torch loads these bytes too: its storages, its layout by name, whether it is coalesced."""
    x = rl.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
    rows = rl.sparse_coo_tensor([[0, 2]], rl.ones(2, 4, dtype=rl.bfloat16), (3, 4))
    empty = rl.sparse_coo_tensor(rl.zeros(2, 0).long(), rl.zeros(0), (10**6, 10**6))
    for zipped in (True, False):
        file = io.BytesIO()
        rl.save(
            {"x": x, "sum": x.coalesce(), "rows": rows, "empty": empty},
            file,
            _use_new_zipfile_serialization=zipped,
        )
        found = rl.load(io.BytesIO(file.getvalue()))
        assert found["x"].is_sparse and not found["x"].is_coalesced() and found["x"]._nnz() == 3
        assert found["sum"].is_coalesced() and found["sum"].values().tolist() == [3, 9]
        assert found["x"].to_dense().tolist() == [[0, 0, 3], [9, 0, 0]]
        assert found["rows"].dtype is rl.bfloat16 and found["rows"].to_dense().sum() == 8
        assert found["empty"].shape == (10**6, 10**6)
    said = x.coalesce()
    said._coalesced, said._at = True, x._indices()[:, [0, 0]]
    file = io.BytesIO()
    rl.save(said, file)
    assert not rl.load(io.BytesIO(file.getvalue())).is_coalesced()  # it is not, whatever it says
    said._at = x._indices() + 1
    said._data = x._values()
    file = io.BytesIO()
    rl.save(said, file)
    with pytest.raises(rl.FormatError, match="index out of range"):
        rl.load(io.BytesIO(file.getvalue()))
