"""Mutated files of users (sound, images, tables, datasets) are read or raise FormatError."""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
import pickle
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.native  # needs a process of its own

HERE = Path(__file__).parent
CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "200"))  # of each kind
WAVES = HERE.parent / "models" / "data" / "wav_files.npz"


def _waves() -> list[bytes]:
    found = np.load(WAVES)
    names = ("WAV PCM_16 LITTLE 2", "WAV ULAW LITTLE 1", "WAVEX PCM_24 LITTLE 1",
             "WAV IMA_ADPCM LITTLE 2", "WAV MS_ADPCM LITTLE 1", "RF64 FLOAT LITTLE 1",
             "WAV PCM_32 BIG 1")  # fmt: skip
    return [bytes(found[name].tobytes()) for name in names]


def _images() -> list[bytes]:
    from PIL import Image

    rng, found = np.random.default_rng(0), []
    raw = rng.integers(0, 256, (20, 30, 4), np.uint8)
    for mode, kind in (("RGB", "png"), ("RGBA", "png"), ("RGB", "jpeg"), ("P", "gif"), ("L", "bmp"),
                       ("RGB", "webp"), ("RGB", "tiff"), ("RGB", "ppm"), ("RGB", "tga"),
                       ("RGB", "ico"), ("I;16", "png"), ("F", "tiff")):  # fmt: skip
        buffer = io.BytesIO()
        image = Image.fromarray(raw).convert("RGB" if mode in ("I;16", "F") else mode)
        if mode in ("I;16", "F"):
            dtype = np.uint16 if mode == "I;16" else np.float32
            image = Image.fromarray(raw[:, :, 0].astype(dtype))
        image.save(buffer, kind)
        found.append(buffer.getvalue())
    return found


def _arrow() -> list[bytes]:
    import pyarrow
    from pyarrow import feather, parquet

    table = pyarrow.table({
        "x": [1, 2, None], "y": ["a", "bb", None], "z": [[1], [], None],
        "d": pyarrow.array(["u", "v", "u"]).dictionary_encode(), "s": [{"k": 1}] * 3,
        "b": [b"ab", b"", None],
    })  # fmt: skip
    stream, plain, packed, rows = (io.BytesIO() for _ in range(4))
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    feather.write_feather(table, plain, compression="uncompressed")
    feather.write_feather(table, packed, compression="lz4")
    parquet.write_table(table, rows)
    return [buffer.getvalue() for buffer in (stream, plain, packed, rows)]


def _idx() -> list[bytes]:
    plain = struct.pack(">BBBB3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))
    return [plain, gzip.compress(plain), struct.pack(">BBBBI", 0, 0, 13, 1, 2) + bytes(8)]


def _cifar() -> list[bytes]:
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 9], b"batch_label": b"x"}
    return [pickle.dumps(batch, protocol) for protocol in (2, 4, 5)]


def _darknet() -> list[bytes]:
    spec = importlib.util.spec_from_file_location("darknet", HERE.parent / "models" / "darknet.py")
    assert spec is not None and spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    return [b"%b\n;;\n%b" % (text.encode(), table.weights_of(name))
            for name, text in table.CFGS.items()]  # fmt: skip


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "wav": _waves,
    "image": _images,
    "arrow": _arrow,
    "jsonl": lambda: [b'{"a": 1, "b": [1.5, null, true]}\n\n{"c": {"d": "\xc3\xa9"}}\n'],
    "csv": lambda: [b'a,b,"c,d"\n1,2.5,-3e4\n\n"4",nan,6\n'],
    "idx": _idx,
    "cifar": _cifar,
    "darknet": _darknet,
}


@pytest.mark.parametrize("kind", SEEDS)
def test_mutated_files_are_read_or_raise(
    kind: str, tmp_path: Path, outcomes_of: Callable[..., list[dict[str, Any]]]
) -> None:
    seeds = []
    for i, content in enumerate(SEEDS[kind]()):
        seeds.append(tmp_path / f"seed{i}")
        seeds[-1].write_bytes(content)
    outcomes = outcomes_of("users_worker.py", CASES, kind, tmp_path, 0, CASES, *seeds)
    told = [o["outcome"] for o in outcomes]
    wrong = {n: o for n, o in enumerate(told) if o not in ("read", "refused")}
    assert not wrong, f"{len(wrong)} cases, the first: {next(iter(wrong.items()))}"
    counts = Counter(told)
    assert min(counts["read"], counts["refused"]) > 0.01 * CASES, counts
