"""Datasets from files: right, damaged and lying ones; in a DataLoader."""

from __future__ import annotations

import gzip
import importlib
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError

pytestmark = pytest.mark.native
datasets = rl.datasets
DRAWS = np.random.default_rng(0)
KINDS = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def idx(array: Any, kind: int = 8) -> bytes:
    """An idx file, written by the format's description."""
    head = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content: bytes = array.astype(KINDS[kind]).tobytes()
    return head + content


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(tmp_path: Path, kind: int, packed: bool) -> None:
    array = DRAWS.integers(0, 100, (3, 4, 5))
    content = idx(array, kind)
    (tmp_path / "x").write_bytes(gzip.compress(content) if packed else content)
    found = datasets.read_idx(tmp_path / "x")
    wanted = np.dtype(KINDS[kind]).newbyteorder("=")
    assert found.numpy().dtype == wanted
    np.testing.assert_array_equal(found.numpy(), array)
    for bad, words in (
        (content[:-1], "needs"),
        (content + b"x", "there are more"),
        (content[:6], "its header"),
        (b"\0\0\7\1", "is no idx file"),
        (b"", "is no idx file"),
        (bytes([0, 0, 14, 3]) + b"\xff" * 12, "are allowed"),
        (bytes([0, 0, 8, 2]) + struct.pack(">2I", 2**15, 2**15) + b"abc", "there are 3"),
    ):
        (tmp_path / "x").write_bytes(gzip.compress(bad) if packed else bad)
        with pytest.raises(FormatError, match=words):
            datasets.read_idx(tmp_path / "x")
    (tmp_path / "x").write_bytes(gzip.compress(content)[:-9])
    with pytest.raises(FormatError):
        datasets.read_idx(tmp_path / "x")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist_folders(tmp_path: Path, ending: str) -> None:
    images, labels = DRAWS.integers(0, 256, (7, 28, 28)), np.arange(7)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        content = idx(array)
        place = tmp_path / f"train-{name}-ubyte{ending}"
        place.write_bytes(gzip.compress(content) if ending else content)
    given = datasets.FashionMNIST(tmp_path, transform=lambda x: 1 - x)
    assert len(given) == 7 and given.classes[9] == "Ankle boot"
    image, label = given[3]
    np.testing.assert_allclose(image.numpy(), 1 - images[3:4] / 255, atol=1e-6)
    batches = list(rl.utils.data.DataLoader(given, 3))
    assert [tuple(x.shape) for x, _ in batches] == [(3, 1, 28, 28)] * 2 + [(1, 1, 28, 28)]
    np.testing.assert_array_equal(rl.cat([y for _, y in batches]).numpy(), labels)
    np.testing.assert_array_equal(batches[1][0][0].numpy(), image.numpy())
    with pytest.raises(FileNotFoundError, match="neither t10k-images-idx3-ubyte nor"):
        datasets.MNIST(tmp_path, train=False)
    (tmp_path / f"train-labels-idx1-ubyte{ending}").write_bytes(
        gzip.compress(idx(labels[:5])) if ending else idx(labels[:5])
    )
    with pytest.raises(FormatError, match="7 images, but 5 classes"):
        datasets.MNIST(tmp_path)


@pytest.mark.parametrize("kind", [datasets.CIFAR10, datasets.CIFAR100])
def test_cifar_folders(tmp_path: Path, kind: Any) -> None:
    folder = tmp_path / kind._folders[0]
    folder.mkdir()
    rows = DRAWS.integers(0, 10, (4, 3072 + kind._labels)).astype(np.uint8)
    for name in kind._files[0]:
        rows.tofile(folder / name)
    given = kind(tmp_path)
    assert len(given) == 4 * len(kind._files[0])
    image, label = given[1]
    assert int(label) == rows[1, kind._labels - 1]
    wanted = rows[1, kind._labels :].reshape(3, 32, 32) / 255
    np.testing.assert_allclose(image.numpy(), wanted, atol=1e-6)
    (folder / kind._files[0][0]).write_bytes(b"short")
    with pytest.raises(FormatError, match="has 5 bytes, no multiple of"):
        kind(folder)
    with pytest.raises(FileNotFoundError, match="of the binary version of CIFAR or that for Pyth"):
        kind(folder, train=False)


def of_python_2(content: dict[str, Any]) -> bytes:
    """A pickle of lists of small numbers and arrays of bytes (n, width), as Python 2 makes it."""

    def text(value: bytes) -> bytes:
        return b"T" + len(value).to_bytes(4, "little") + value

    def array(value: Any) -> bytes:
        n, width = (b"M" + size.to_bytes(2, "little") for size in value.shape)
        head = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        kind = b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
        rest = 2 * b"J\xff\xff\xff\xff" + b"K\x00tb\x89" + text(value.tobytes()) + b"tb"
        made: bytes = head + n + width + kind + rest
        return made

    made = b"\x80\x02}("
    for key, value in content.items():
        numbers = (
            b"](" + b"".join(b"K" + bytes([n]) for n in value) + b"e"
            if (isinstance(value, list))
            else array(value)
        )
        made += text(key.encode()) + numbers
    return made + b"u."


@pytest.mark.parametrize("kind", [datasets.CIFAR10, datasets.CIFAR100])
def test_cifar_for_python_is_read_and_not_run(tmp_path: Path, kind: Any) -> None:
    folder = tmp_path / kind._folders[1]
    folder.mkdir()
    pixels = DRAWS.integers(0, 256, (300, 3072)).astype(np.uint8)
    labels = DRAWS.integers(0, 10, 300).tolist()
    content = {kind._key: labels, "data": pixels}
    assert pickle.loads(of_python_2(content), encoding="latin1")[kind._key] == labels
    first, test = kind._pickles[0], folder / kind._pickles[1][0]
    for name in first:
        (folder / name).write_bytes(of_python_2(content))
    again = {k.encode(): v for k, v in content.items()}
    for protocol in (2, 4, 5):  # as Python 3 writes it again
        test.write_bytes(pickle.dumps(again, protocol))
        given = kind(tmp_path, train=False)
        assert given.targets.tolist() == labels
        np.testing.assert_array_equal(given.data.numpy().reshape(300, 3072), pixels)
    assert kind(folder).data.shape == (300 * len(first), 3, 32, 32)
    bad: Any
    for bad, words in (
        ({"data": pixels}, f"{kind._key} is None"),
        ({**content, kind._key: [1]}, "300 numbers"),
        ({**content, kind._key: [200] * 300}, "below"),
        ([1], "a list, not CIFAR's dict"),
        ({**content, "data": pixels[:, :9]}, r"bytes \(n, 3072\)"),
        (print, "print, which is not"),
        ({**content, "data": np.array([print])}, "print, which is not"),
    ):
        test.write_bytes(pickle.dumps(bad))
        with pytest.raises(FormatError, match=words):
            kind(folder, train=False)
    test.write_bytes(of_python_2(content)[:-500])
    with pytest.raises(FormatError, match="needs"):
        kind(folder, train=False)


def test_folders_of_images(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    for name, level in (("cat", 10), ("ant", 200)):
        (tmp_path / name).mkdir()
        for i in range(2):
            pixels = np.full((4, 6, 3), level + i, np.uint8)
            pillow.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat" / "notes.txt").write_text("x")
    given = datasets.ImageFolder(tmp_path)
    assert given.classes == ["ant", "cat"] and len(given) == 4
    image, label = given[2]
    assert tuple(image.shape) == (3, 4, 6) and int(label) == 1
    assert float(image.mean()) == pytest.approx(10 / 255)
    own = datasets.ImageFolder(tmp_path, loader=lambda path: path.name)
    assert own[1][0] == "1.png"
    with pytest.raises(FileNotFoundError, match="one for each class"):
        datasets.ImageFolder(tmp_path / "cat")


def test_tables(tmp_path: Path) -> None:
    place = tmp_path / "a.csv"
    place.write_text('x,"y, z",kind\n1,2.5,ant\n-3,4e1,cat\n\n5,6,ant\n', encoding="utf-8-sig")
    given = datasets.read_csv(place, "kind")
    assert given.columns == ["x", "y, z"] and given.classes == ["ant", "cat"]
    features, goal = given[1]
    assert features.tolist() == [-3.0, 40.0] and int(goal) == 1
    assert datasets.read_csv(place, "x", ["y, z"]).tensors[1].dtype == rl.int64
    [alone] = datasets.read_csv(place, columns=["y, z"])[0]
    assert alone.tolist() == [2.5]
    with pytest.raises(FormatError, match="a.csv:2: could not convert string to float: 'ant'"):
        datasets.read_csv(place)
    with pytest.raises(KeyError, match="no column 'w'; it has x, y, z, kind"):
        datasets.read_csv(place, "w")
    for text, words in (
        ("a,b\n1\n", "a.csv:2 has 1 fields"),
        ("a\n", "has no rows"),
        ("a\n\xff", "utf-8"),
    ):
        place.write_bytes(text.encode("latin-1"))
        with pytest.raises(FormatError, match=words):
            datasets.read_csv(place)
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    rows: Any = datasets.read_jsonl(tmp_path / "a.jsonl")
    assert [b["a"].tolist() for b in rl.utils.data.DataLoader(rows, 2)] == [[1, 2]]
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=np.arange(3))
    pair = datasets.arrays(tmp_path / "a.npz", "x", "y")[2]
    assert [v.tolist() for v in pair] == [[0, 0, 1], 2]
    with pytest.raises(KeyError, match="no array 'z'; it has x, y"):
        datasets.arrays(tmp_path / "a.npz", "z")


def test_parquet_and_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": "a", "n": 1}, {"text": "b", "n": None}]
    arrow: Any = importlib.import_module("pyarrow")
    feather: Any = importlib.import_module("pyarrow.feather")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    table = arrow.Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, str(tmp_path / "a.arrow"))
    with arrow.OSFile(str(tmp_path / "a.stream"), "wb") as file:
        with arrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    for name in ("a.parquet", "a.arrow", "a.stream"):
        assert datasets.read_table(tmp_path / name).rows == rows
    for damaged in (b"PAR1", b"ARROW1xx", b"other", b""):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(FormatError):
            datasets.read_table(tmp_path / "bad")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'rushlight\[data\]'"):
        datasets.read_table(tmp_path / "a.parquet")


def test_datasets_of_other_libraries_are_taken_as_they_are() -> None:
    class Theirs:
        """What the datasets of Hugging Face offer: columns of a batch by a list of numbers."""

        def __len__(self) -> int:
            return 5

        def __getitem__(self, key: int) -> dict[str, Any]:
            return {"ids": [key, key + 1], "text": str(key)}

        def __getitems__(self, keys: list[int]) -> list[dict[str, Any]]:
            return [self[key] for key in keys]

    [first, *_] = rl.utils.data.DataLoader(Theirs(), 2)
    assert [t.tolist() for t in first["ids"]] == [[0, 1], [1, 2]] and first["text"] == ["0", "1"]


def test_texts_in_blocks() -> None:
    given = datasets.text_blocks(list(range(10)), 4)
    assert [[t.tolist() for t in given[i]] for i in range(2)] == [
        [[0, 1, 2, 3], [1, 2, 3, 4]],
        [[4, 5, 6, 7], [5, 6, 7, 8]],
    ]
    assert len(datasets.text_blocks(np.arange(9), 4)) == 2
    with pytest.raises(ValueError, match="4 tokens make no block of 4"):
        datasets.text_blocks([1, 2, 3, 4], 4)
    assert json.dumps(given[0][0].tolist())
