"""Files of users within bounds: memory counted while parsed, pipes refused, no program started."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.source import BytesSource
from rushlight.models import finetune

pytestmark = pytest.mark.native  # Pillow, pyarrow, pipes


def peak(run: Callable[[], Any]) -> int:
    """The most bytes that Python held during a call."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(run: Callable[[], Any], words: str) -> Callable[[], None]:
    """A call that must raise FormatError with these words."""

    def call() -> None:
        with pytest.raises(FormatError, match=words):
            run()

    return call


# --- pipes, devices, folders ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        rl.datasets.read_idx,
        rl.datasets.read_csv,
        rl.datasets.read_jsonl,
        rl.datasets.read_table,
        rl.datasets.arrays,
        rl.load,
        finetune.read_rows,
        rl.audio.load,
        rl.image.load,
        rl.datasets.CIFAR10,
        rl.models.load,
        rl.load_gguf if hasattr(rl, "load_gguf") else rl.load,
    ],
)
def test_pipes_devices_and_folders_are_refused(read: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "folder"):
        with pytest.raises((OSError, FormatError, ValueError, rl.LoadError)) as told:
            read(place)
        assert str(told.value)


# --- images --------------------------------------------------------------------------------------


def _png(width: int, height: int, depth: int, kind: int, rows: int | None = None) -> bytes:
    """A PNG of zeros, of which there are `rows`."""
    channels = {0: 1, 2: 3, 6: 4}[kind]
    row = b"\0" * (1 + width * channels * depth // 8)
    packer = zlib.compressobj(9)
    data = (
        b"".join(packer.compress(row) for _ in range(height if rows is None else rows))
        + packer.flush()
    )

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_images_of_too_many_pixels_are_refused() -> None:
    bmp = b"BM" + struct.pack(
        "<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 8000, 8000, 1, 24, 0, 0, 0, 0, 0, 0
    )
    tiff = (
        b"II*\0\x08\0\0\0\x05\0"
        + b"".join(
            struct.pack("<HHII", tag, 4, 1, value)
            for tag, value in ((256, 8000), (257, 8000), (258, 8), (262, 1), (273, 8))
        )
        + bytes(4)
    )
    claims = [(bmp, "claims 8000 x 8000 pixels in 54 bytes"), (tiff, "claims 8000 x 8000")]
    for content, words in (
        *claims,
        (_png(13370, 13370, 16, 0, 9), "13370 x 13370 pixels; at most 67108864"),
        (b"P5 9000 9000 255\n", "9000 x 9000 pixels"),
        (b"P5 60000 60000 255\n", "could be decompression bomb"),
    ):
        assert peak(refused(lambda c=content: rl.image.load(c), words)) < 8 << 20  # type: ignore[misc]


def test_deep_and_clear_images_take_little_more_than_their_pixels() -> None:
    from PIL import Image

    for content in (_png(1024, 1024, 16, 0), _png(1024, 1024, 8, 6)):
        found: list[Any] = []
        assert peak(lambda c=content, f=found: f.append(rl.image.load(c))) < 24 << 20  # type: ignore[misc]
        assert found[0].shape == (1024, 1024, 3)
        assert (found[0] == (255 if content[25] == 6 else 0)).all()
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (1200, 1000, 4), np.uint8)  # more than a strip
    buffer = io.BytesIO()
    Image.fromarray(raw).save(buffer, "png")
    white = Image.new("RGBA", (1000, 1200), "white")
    right = np.asarray(Image.alpha_composite(white, Image.fromarray(raw)).convert("RGB"))
    np.testing.assert_array_equal(rl.image.load(buffer.getvalue()), right)
    deep = rng.integers(0, 65536, (1200, 1000), np.uint16)
    buffer = io.BytesIO()
    Image.fromarray(deep).save(buffer, "png")
    np.testing.assert_array_equal(
        rl.image.load(buffer.getvalue())[:, :, 1], np.rint(deep / 65535 * 255).astype(np.uint8)
    )


def test_a_large_jpeg_is_read_smaller_where_that_is_asked() -> None:
    from PIL import Image

    from rushlight.models.image import files

    buffer = io.BytesIO()
    Image.new("RGB", (400, 300), (200, 10, 10)).save(buffer, "jpeg")
    most, files.MOST_PIXELS = files.MOST_PIXELS, 200 * 200
    try:
        with pytest.raises(FormatError, match=r"400 x 300 pixels; at most 40000\n.*smaller"):
            rl.image.load(buffer.getvalue())
        found = rl.image.load(buffer.getvalue(), shrink=True)
    finally:
        files.MOST_PIXELS = most
    assert found.shape == (150, 200, 3) and abs(int(found[5, 5, 0]) - 200) < 4


def test_no_program_is_started_for_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    from PIL import EpsImagePlugin

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", never)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", "gs")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    for content in (
        eps,
        b"\xc5\xd0\xd3\xc6" + struct.pack("<6I", 32, len(eps), 0, 0, 0, 0) + eps,
        b"%PDF-1.4\n",
        b"\xd7\xcd\xc6\x9a" + bytes(40),
    ):
        (tmp_path / "cat.png").write_bytes(content)
        with pytest.raises(FormatError, match=r"no image that Pillow reads.*\n.*supported: JPEG"):
            rl.image.load(tmp_path / "cat.png")


# --- tables --------------------------------------------------------------------------------------


def test_tables_take_memory_by_their_size(tmp_path: Path) -> None:
    path = tmp_path / "t"
    size = 1 << 16
    for content in (b"{}\n" * (size // 3), b'{"":0}\n' * (size // 7), b'{"a":[]}\n' * (size // 9)):
        path.write_bytes(content)
        assert peak(lambda: rl.datasets.read_jsonl(path)) < 16 * size + (1 << 20)
    for content in (b"a\n" + b"1\n" * (size // 2), b"a,t\n" + b"1,x\n" * (size // 4)):
        path.write_bytes(content)
        target = "t" if b"t" in content[:4] else None
        assert peak(lambda t=target: rl.datasets.read_csv(path, t)) < 16 * size + (1 << 20)  # type: ignore[misc]
    path.write_bytes(b'{"a":[' + b"[]," * (6 << 20) + b"[]]}\n")
    with pytest.raises(FormatError, match="has more than 16777216 bytes"):
        rl.datasets.read_jsonl(path)
    path.write_bytes(b'{"a":[' + b"{}," * (2 << 20) + b"{}]}\n")
    with pytest.raises(FormatError, match=r"t:1 has so many values that they take about"):
        rl.datasets.read_jsonl(path)
    path.write_bytes(b"a," * 70_000 + b"\n1\n")
    with pytest.raises(FormatError, match="70001 columns; at most 65536"):
        rl.datasets.read_csv(path)
    path.write_bytes(b'a\n"' + b"\n," * (1 << 20))
    with pytest.raises(FormatError, match=r"more than 4194304 characters|field larger"):
        rl.datasets.read_csv(path)


def test_csv_values_and_classes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,t\n1,1e39,z\n-2.5,nan,a\n0.1,-1e400,z\n", encoding="utf-8")
    table = rl.datasets.read_csv(path, "t")
    features, goals = table.tensors
    assert features[:, 0].tolist() == [1.0, -2.5, float(np.float32(0.1))]
    assert features[0, 1].item() == np.inf and np.isnan(features[1, 1].item())
    assert features[2, 1].item() == -np.inf
    assert goals.tolist() == [1, 0, 1] and table.classes == ["a", "z"]


def test_packed_files_do_not_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    head = struct.pack(">BBBBI", 0, 0, 8, 1, 500 << 20)
    with gzip.open(path, "wb", 9) as file:
        file.write(head)
        for _ in range(500):
            file.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    call = refused(lambda: rl.datasets.read_idx(path), "would unpack to 524288000; .* are allowed")
    assert peak(call) < 200 << 20
    whole = gzip.compress(head[:4] + struct.pack(">I", 9) + bytes(range(9)))
    path.write_bytes(whole)
    assert rl.datasets.read_idx(path).tolist() == list(range(9))
    for at in range(10, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(FormatError):
            rl.datasets.read_idx(path)
    path.write_bytes(struct.pack(">BBBB", 0, 0, 8, 200) + struct.pack(">I", 1) * 200 + b"x")
    with pytest.raises(FormatError, match="more than 32 dims"):
        rl.datasets.read_idx(path)


def test_files_of_cifar_take_memory_by_their_size(tmp_path: Path) -> None:
    def batch(more: Any) -> dict[bytes, Any]:
        return {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1], b"x": more}

    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps(batch([]), 2))
    assert rl.datasets.CIFAR10(tmp_path, train=False).data.shape == (2, 3, 32, 32)
    path.write_bytes(pickle.dumps(batch([[] for _ in range(1 << 20)]), 2))
    size = path.stat().st_size
    call = refused(lambda: rl.datasets.CIFAR10(tmp_path, train=False), "makes values of")
    assert peak(call) < 10 * size + (32 << 20)


def test_json_is_counted_before_it_is_parsed(tmp_path: Path) -> None:
    header = b'{"__metadata__":{' + b",".join(b'"%d":""' % i for i in range(1 << 20)) + b"}}"
    content = struct.pack("<Q", len(header)) + header
    call = refused(lambda: rl.load(BytesSource(content, "a")), "so many values that they take")
    assert peak(call) < 4 * len(content)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {str(i): "a.safetensors" for i in range(1 << 19)}}))
    call = refused(lambda: rl.load(index), "so many values that they take")
    assert peak(call) < 8 * index.stat().st_size
    numbers = b'{"a":{"dtype":"F32","shape":[' + b"0," * (8 << 20) + b'0],"data_offsets":[0,0]}}'
    content = struct.pack("<Q", len(numbers)) + numbers
    call = refused(lambda: rl.load(BytesSource(content, "a")), "so many values")
    assert peak(call) < 4 * len(content)


# --- Arrow ---------------------------------------------------------------------------------------


def _arrow(kind: str) -> bytes:
    import pyarrow
    from pyarrow import feather, parquet

    table = pyarrow.table({"x": [1, 2, None], "y": ["a", "bb", None], "z": [[1], [], None]})
    buffer = io.BytesIO()
    if kind == "stream":
        with pyarrow.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
    elif kind == "parquet":
        parquet.write_table(table, buffer)
    else:
        feather.write_feather(table, buffer, compression="uncompressed")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["stream", "feather", "parquet"])
def test_tables_of_arrow(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    content = _arrow(kind)
    path.write_bytes(content)
    rows = rl.datasets.read_table(path)
    assert rows[1] == {"x": 2, "y": "bb", "z": []} and len(rows) == 3
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FormatError):
        rl.datasets.read_table(path)


def test_tables_of_arrow_that_are_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "t"
    path.write_bytes(b"FEA1" + bytes(64))  # its reader follows offsets without a look
    with pytest.raises(FormatError, match="Feather file of version 1, which is not supported"):
        rl.datasets.read_table(path)
    many = pyarrow.table({"x": pyarrow.nulls(40_000_000)})
    parquet.write_table(many, path)  # a few hundred bytes
    with pytest.raises(FormatError, match="has 40000000 rows of 1 columns in"):
        rl.datasets.read_table(path)


# --- vocabularies --------------------------------------------------------------------------------


def test_tokens_that_merge_in_every_way_are_refused() -> None:
    from rushlight.core.io.text.gguf_tokenizer import from_gguf
    from rushlight.core.io.text.vocabularies.vocabulary_files import tokenizer_json

    tokens = ["<unk>", "<s>", "</s>", *("a" * n for n in range(1, 1025))]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [float(-i) for i in range(len(tokens))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [1] * 1024,
    }
    words = "can be merged from each other in so many ways"
    assert peak(refused(lambda: from_gguf(metadata), words)) < 60 << 20
    import base64

    ranks = b"".join(base64.b64encode(b"a" * n) + b" %d\n" % n for n in range(1, 513))
    call = refused(lambda: tokenizer_json({"qwen.tiktoken": ranks}), words)
    assert peak(call) < 100 << 20
