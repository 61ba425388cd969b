"""Writing GGUF: what is read back, what the reference reads, parts, and writes that are cut off."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.io.weights.gguf import Gguf, load_gguf, read_gguf
from rushlight.core.io.weights.gguf_writer import Row, save_gguf, write_gguf
from rushlight.core.io.weights.source import FileSource

KNOWN = [dtype for dtype in DTYPES.values() if dtype.gguf is not None]
# A value of every type of GGUF, as the reader gives it and with the type told.
VALUES: dict[str, Any] = {
    **{
        f"a.{kind}": np.dtype(kind).type(7)
        for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
    },
    "a.bool": np.bool_(True),
    "a.text": "naïve \U0001f56f",
    "a.bytes": b"\xe2\x96".decode("utf-8", "surrogateescape"),
    "a.none": "",
    "a.texts": ["x", "", "é"],
    "a.empty": [],
    "a.arrays": [["x"], np.arange(3, dtype=np.int32), [[np.array([0.5])], ["deep"]]],
    **{
        f"a.array.{kind}": np.array([1, 0, 1], kind)
        for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "?")
    },
    "a.array.empty": np.zeros(0, np.float32),
}


def read(path: Path) -> Gguf:
    source = FileSource(path)
    try:
        return read_gguf(source)
    finally:
        source.close()


def row(name: str, data: bytes, dtype: str = "int8") -> Row:
    kind = DTYPES[dtype]
    return Row(name, kind, (len(data) // kind.itemsize * kind.block,), lambda: [data])


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("alignment", [None, 1, 8, 4096])
def test_what_was_written_is_read_and_written_alike(tmp_path: Path, alignment: int | None) -> None:
    metadata = VALUES | ({} if alignment is None else {"general.alignment": np.uint32(alignment)})
    rng = np.random.default_rng(1)
    rows: list[Row] = []
    expected = {}
    for i, dtype in enumerate(KNOWN):
        n = dtype.block
        for shape in ((3, n), (2, 3, 2 * n), (1, 2, 3, n), (0, n), () if n == 1 else (5 * n,)):
            data = rng.bytes(dtype.nbytes(int(np.prod(shape))))
            name = f"w.{i}.{len(rows)}"
            halves = [data[: len(data) // 2], memoryview(data)[len(data) // 2 :]]
            rows.append(Row(name, dtype, shape, lambda halves=halves: halves))  # type: ignore[misc]
            expected[name] = (dtype.name, shape, data)
    path = tmp_path / "a.gguf"
    assert write_gguf(path, metadata, rows) == [path]
    found = read(path)
    typed = found.typed()
    assert typed.keys() == metadata.keys()
    assert all(same(typed[key], value) for key, value in metadata.items())
    tensors, plain = load_gguf(path)
    assert {n: (t.dtype.name, t.shape, t.raw_bytes()) for n, t in tensors.items()} == expected
    assert type(plain["a.u2"]) is int and plain["a.bool"] is True
    again = [Row(n, t.dtype, t.shape, lambda t=t: [t.raw_bytes()]) for n, t in tensors.items()]  # type: ignore[misc]
    write_gguf(tmp_path / "b.gguf", typed, again)
    assert (tmp_path / "b.gguf").read_bytes() == path.read_bytes()


def test_values_of_python(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "bool": True, "int": 7, "negative": -7, "long": 1 << 40, "far": -(1 << 40), "float": 0.5,
        "ints": [1, 2, -3], "longs": [1 << 40, 1 << 41], "floats": [0.5, 1.0], "bools": [True],
        "unsigned": [1 << 31, 1 << 31], "texts": ("a", "b"),
    }  # fmt: skip
    write_gguf(tmp_path / "a", given, [])
    typed = read(tmp_path / "a").typed()
    kinds = {key: getattr(value, "dtype", None) for key, value in typed.items()}
    assert kinds == {
        "bool": "?", "int": "u4", "negative": "i4", "long": "u8", "far": "i8", "float": "f4",
        "ints": "i4", "longs": "u8", "floats": "f4", "bools": "?", "unsigned": "u4", "texts": None,
    }  # fmt: skip
    assert all(np.array_equal(typed[key], value) for key, value in given.items())


@pytest.mark.native
def test_the_reference_reads_it(tmp_path: Path) -> None:
    import gguf as reference

    stored = np.arange(2 * 18, dtype=np.uint8)
    rows = [Row("w", rl.q4_0, (2, 32), lambda: [stored.data]), row("v", bytes(range(40)))]
    metadata = {k: v for k, v in VALUES.items() if k not in ("a.arrays", "a.bytes", "a.empty")}
    write_gguf(tmp_path / "m.gguf", {"general.architecture": "llama", **metadata}, rows)
    found = reference.GGUFReader(tmp_path / "m.gguf")
    for key, value in metadata.items():
        contents = found.fields[key].contents()
        assert same(contents, value.tolist() if hasattr(value, "tolist") else value), key
    assert [(t.name, t.shape.tolist()) for t in found.tensors] == [("w", [32, 2]), ("v", [40])]
    assert np.array_equal(found.tensors[0].data, stored.reshape(2, 18))
    assert found.tensors[1].data.tobytes() == bytes(range(40))


def test_tensors_of_any_device(tmp_path: Path, device: str) -> None:
    x = rl.tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device)
    blocks = rl.Tensor.from_buffer(np.arange(68, dtype=np.uint8), rl.q8_0, (2, 32)).to(device)
    save_gguf({"x": x.T, "b": blocks}, tmp_path / "m.gguf", {"general.name": "tiny"})
    tensors, metadata = load_gguf(tmp_path / "m.gguf")
    assert metadata == {"general.name": "tiny"}
    assert np.array_equal(tensors["x"].numpy(), x.numpy().T)
    assert tensors["b"].raw_bytes() == bytes(range(68))
    with pytest.raises(FileExistsError, match=r"m\.gguf exists already"):
        rl.save_gguf({"x": x}, tmp_path / "m.gguf")
    rl.save_gguf({"x": x}, tmp_path / "m.gguf", overwrite=True)
    assert [*rl.load(tmp_path / "m.gguf")] == ["x"]
    # Tensors that are views of the replaced file stay valid.
    assert tensors["b"].raw_bytes() == bytes(range(68))


WRONG: list[tuple[dict[str, Any], list[Row], type[Exception], str]] = [
    ({"a": None}, [], TypeError, "metadata's 'a' is None; GGUF has text, bools, numbers"),
    ({"a": 1 << 64}, [], TypeError, "'a' is 18446744073709551616"),
    ({"a": {"b": 1}}, [], TypeError, "'a' is {'b': 1}"),
    ({"a": [1, 0.5]}, [], TypeError, "'a' mixes values of several types"),
    ({"a": [1, "x"]}, [], TypeError, "'a' is 'x'"),
    ({"a": np.zeros((2, 2))}, [], TypeError, r"'a' is an array of float64 of shape \(2, 2\)"),
    ({"a": np.zeros(2, complex)}, [], TypeError, "'a' is an array of complex128"),
    ({"general.alignment": 24}, [], ValueError, "general.alignment is 24, not a power of two"),
    ({"general.alignment": "8"}, [], TypeError, "general.alignment is '8', not a number"),
    ({}, [row("w", b"1"), row("w", b"2")], ValueError, "two tensors are named 'w'"),
    ({}, [row("é" * 32, b"")], ValueError, "has more than 63 bytes"),
    ({}, [row("w", b"1", "bool")], ValueError, "tensor 'w': GGUF does not support bool; convert"),
    ({}, [Row("w", rl.int8, (1,) * 5, lambda: [b"1"])], ValueError, "has more than 4 dims"),
    ({}, [Row("w", rl.int8, (3,), lambda: [b"12"])], ValueError, "has 2 bytes, not 3"),
    ({}, [Row("w", rl.int8, (3,), lambda: [b"1234"])], ValueError, "has 4 bytes, not 3"),
]


@pytest.mark.parametrize("which", range(len(WRONG)))
def test_what_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path, which: int) -> None:
    metadata, rows, kind, message = WRONG[which]
    with pytest.raises(kind, match=message):
        write_gguf(tmp_path / "m.gguf", metadata, rows)
    assert [*tmp_path.iterdir()] == []


# --- parts, and writes that are cut off ---------------------------------------------------------


def test_parts_are_those_of_llama_cpp(tmp_path: Path) -> None:
    """Greedy, in order, with padding counted; the first part has the metadata."""
    rows = [row(f"w{i}", bytes([i]) * n) for i, n in enumerate([64, 33, 32, 200, 1, 1])]
    metadata = {"general.architecture": "llama", "general.alignment": 32, "split.count": 9}
    paths = write_gguf(tmp_path / "m.gguf", metadata, rows, split_max_size=128)
    assert [p.name for p in paths] == [f"m-0000{i}-of-00004.gguf" for i in (1, 2, 3, 4)]
    assert sorted(tmp_path.iterdir()) == paths
    found = [read(path) for path in paths]
    assert [[*part.table.entries] for part in found] == [
        ["w0", "w1"],
        ["w2"],
        ["w3"],
        ["w4", "w5"],
    ]
    for number, part in enumerate(found):
        typed = part.typed()
        assert [typed.pop(f"split.{key}") for key in ("no", "count", "tensors.count")] == [
            number,
            4,
            6,
        ]
        assert part.kinds["split.no"] == part.kinds["split.count"] == 2
        assert part.kinds["split.tensors.count"] == 5
        assert (
            typed.keys() == {*metadata} - {"split.count"} if number == 0 else {"general.alignment"}
        )
    assert write_gguf(tmp_path / "n.gguf", {}, rows, split_max_size=1000) == [tmp_path / "n.gguf"]
    with pytest.raises(ValueError, match="split_max_size is 0"):
        write_gguf(tmp_path / "o.gguf", {}, rows, split_max_size=0)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("parts", [None, 8])
def test_a_write_that_is_cut_off_leaves_nothing(
    tmp_path: Path, error: BaseException, parts: int | None
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"12"
        raise error

    rows = [row("w", bytes(8)), Row("v", rl.int8, (4,), broken)]
    with pytest.raises(type(error)):
        write_gguf(tmp_path / "m.gguf", {}, rows, split_max_size=parts)
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "m.gguf").write_bytes(b"precious")
    with pytest.raises(type(error)):
        write_gguf(tmp_path / "m.gguf", {}, rows, overwrite=True)
    assert (tmp_path / "m.gguf").read_bytes() == b"precious"
    assert [*tmp_path.iterdir()] == [tmp_path / "m.gguf"]


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"precious")
    drawn: list[str] = []
    rows = [Row("w", rl.int8, (1,), lambda: drawn.append("read") or [b"1"])]  # type: ignore[func-returns-value]
    with pytest.raises(FileExistsError, match="hint: name another file, or overwrite it"):
        write_gguf(tmp_path / "m.gguf", {}, rows)
    assert not drawn  # told before any work is done
    (tmp_path / "p-00002-of-00002.gguf").write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="p-00002-of-00002"):
        write_gguf(tmp_path / "p.gguf", {}, [row("a", b"1"), row("b", b"2")], split_max_size=1)
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        write_gguf(tmp_path, {}, [], overwrite=True)
    assert len([*tmp_path.iterdir()]) == 2

    def another() -> list[bytes]:  # a file that appears while ours is written
        (tmp_path / "q.gguf").write_bytes(b"precious")
        return [b"1"]

    with pytest.raises(FileExistsError):
        write_gguf(tmp_path / "q.gguf", {}, [Row("w", rl.int8, (1,), another)])
    assert (tmp_path / "q.gguf").read_bytes() == b"precious"


def test_memory_is_that_of_a_piece(tmp_path: Path) -> None:
    piece, count = bytes(1 << 20), 24
    told: list[tuple[int, int | None]] = []
    rows = [
        Row(f"w{i}", rl.int8, (count << 20,), lambda: (bytes(piece) for _ in range(count)))
        for i in range(2)
    ]
    tracemalloc.start()
    try:
        write_gguf(tmp_path / "m", {}, rows, progress=lambda *now: told.append(now))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert told == [((i + 1) << 20, 2 * count << 20) for i in range(2 * count)]
