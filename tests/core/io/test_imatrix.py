"""Importance matrices: both formats of llama.cpp, and files that are none."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.gguf_writer import save_gguf
from rushlight.core.io.weights.imatrix import read_imatrix, write_imatrix

SUMS = {
    "blk.0.attn_q.weight": np.array([2, 4, 6], np.float32),
    "blk.0.ffn_up_exps.weight": np.array([[1, 2], [3, 9], [0, 0]], np.float32),
}
COUNTS: dict[str, Any] = {
    "blk.0.attn_q.weight": 4,
    "blk.0.ffn_up_exps.weight": np.array([2, 3, 0]),
}


def legacy(
    entries: dict[str, tuple[int, list[float]]], rest: bytes = b"", count: int | None = None
) -> bytes:
    out = struct.pack("<i", len(entries) if count is None else count)
    for name, (calls, sums) in entries.items():
        raw = name.encode("utf-8", "surrogateescape")
        out += struct.pack("<i", len(raw)) + raw + struct.pack("<ii", calls, len(sums))
        out += np.array(sums, "<f4").tobytes()
    return out + rest


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.imatrix.gguf"
    write_imatrix(path, SUMS, COUNTS, 7, chunk_size=64, datasets=["a.txt"])
    found = read_imatrix(path)
    assert found.keys() == SUMS.keys() and all(v.dtype == np.float32 for v in found.values())
    assert found["blk.0.attn_q.weight"].tolist() == [0.5, 1, 1.5]
    # An expert that met no token counts as much as another.
    assert found["blk.0.ffn_up_exps.weight"].tolist() == [[0.5, 1], [1, 3], [1, 1]]
    tensors, metadata = load_gguf(path)
    assert metadata == {
        "general.type": "imatrix",
        "imatrix.datasets": ["a.txt"],
        "imatrix.chunk_count": 7,
        "imatrix.chunk_size": 64,
    }
    shapes = {name: t.shape for name, t in tensors.items()}
    assert shapes["blk.0.ffn_up_exps.weight.in_sum2"] == (3, 2)
    assert shapes["blk.0.ffn_up_exps.weight.counts"] == (3, 1)
    with pytest.raises(FileExistsError):
        write_imatrix(path, SUMS, COUNTS, 7)
    write_imatrix(path, {}, {}, 0, overwrite=True)
    with pytest.raises(rl.FormatError, match=r"without \.in_sum2 tensors, so it is no importance"):
        read_imatrix(path)


def test_the_older_format(tmp_path: Path) -> None:
    entries = {"blk.0.attn_q.weight": (4, [2.0, 4.0]), "output.weight": (0, [3.0])}
    for rest in (b"", struct.pack("<ii", 7, 1) + b"a"):  # later versions add calls and a data set
        (tmp_path / "m.dat").write_bytes(legacy(entries, rest))
        found = read_imatrix(tmp_path / "m.dat")
        assert {name: v.tolist() for name, v in found.items()} == {
            "blk.0.attn_q.weight": [0.5, 1],
            "output.weight": [3],
        }


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({}, r"'w' has sums of shape \(2, 2\) and counts of shape \(0,\)"),
        ({"w": 3}, r"counts of shape \(1,\); sums are \(columns,\) with one count"),
        ({"w": np.ones((2, 2))}, r"counts of shape \(2, 2\)"),
    ],
)
def test_sums_that_do_not_fit_their_counts(
    tmp_path: Path, counts: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write_imatrix(tmp_path / "m", {"w": np.ones((2, 2))}, counts, 1)
    assert [*tmp_path.iterdir()] == []


GOOD = legacy({"w": (1, [1.0, 2.0])})
WRONG = {
    "empty": (b"", "is no importance matrix: 4 bytes at 0 lie past the end of a file of 0"),
    "no entries": (bytes(8), "its number of entries is 0"),
    "many entries": (b"\xff\xff\xff\x7f", "its number of entries is 2147483647"),
    "fewer entries": (legacy({"w": (1, [1.0])}, count=2), "lie past the end"),
    "a long name": (GOOD[:4] + struct.pack("<i", 1 << 20) + GOOD[8:], "its length of a name is"),
    "not UTF-8": (legacy({"\udcff": (1, [1.0])}), r"the name b'\\xff' is not UTF-8"),
    "many values": (GOOD[:13] + struct.pack("<i", (1 << 31) - 1) + GOOD[17:], "lie past the end"),
    "no values": (legacy({"w": (1, [])}), "its number of values is 0"),
    "nan": (legacy({"w": (1, [1.0, np.nan])}), "importance of 'w' has a value that is negative or"),
    "infinite": (legacy({"w": (1, [np.inf])}), "negative or not finite"),
    "negative": (legacy({"w": (1, [-1.0])}), "negative or not finite"),
    "text": (b"once upon a time there was", "is no importance matrix"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_file_is_named(tmp_path: Path, which: str) -> None:
    content, message = WRONG[which]
    (tmp_path / "m.dat").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError, match=message) as told:
            read_imatrix(tmp_path / "m.dat")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert "m.dat" in str(told.value)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"w.in_sum2": rl.ones(4)}, "has 'w.in_sum2' and no counts of it"),
        ({"w.in_sum2": rl.ones(4), "w.counts": rl.ones(3)}, "4 sums, which 3 counts do not divide"),
        ({"w.in_sum2": rl.ones(4), "w.counts": rl.ones(0)}, "4 sums, which 0 counts"),
        ({"w.in_sum2": rl.ones(4).half(), "w.counts": rl.ones(1)}, "is float16, not float32"),
        ({"w.in_sum2": -rl.ones(4), "w.counts": rl.ones(1)}, "'w' has a value that is negative"),
    ],
)
def test_a_wrong_gguf_file_is_named(
    tmp_path: Path, tensors: dict[str, rl.Tensor], message: str
) -> None:
    save_gguf(tensors, tmp_path / "m.gguf")
    with pytest.raises(rl.FormatError, match=message):
        read_imatrix(tmp_path / "m.gguf")
