"""Mutated files of each format of weights load or raise FormatError, within bounds."""

from __future__ import annotations

import io
import os
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

pytestmark = pytest.mark.native  # needs a process of its own

HERE = Path(__file__).parent
DATA = HERE.parent / "core" / "data"
CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "550"))  # of each format
CALLS = 10_000  # of functions, that reading any file may take


def _numpy(how: str) -> bytes:
    rng, buffer = np.random.default_rng(0), io.BytesIO()
    arrays = {
        f"{kind}{i}": np.asarray(rng.integers(0, 2, shape), order="CF"[i % 2]).astype(kind)  # type: ignore[call-overload]
        for kind in ("?", "u1", ">i2", "<f4", ">f8")
        for i, shape in enumerate([(), (0, 2), (3, 4)])
    }
    if how == "npy":
        np.save(buffer, np.asfortranarray(rng.normal(size=(4, 6))))
    else:
        (np.savez if how == "npz" else np.savez_compressed)(buffer, **arrays)
    return buffer.getvalue()


def _ggjt() -> bytes:
    """A llama of one layer, in float32 and blocks."""
    width, words = 32, [b"", b"", b"", *(b"%d" % i for i in range(20))]
    content = b"tjgg" + struct.pack("<8I", 3, len(words), width, 32, 4, 1, 8, 2)
    content += b"".join(struct.pack("<I", len(w)) + w + struct.pack("<f", -1) for w in words)
    names = ["tok_embeddings", "norm", "output"]
    names += [f"layers.0.attention.w{x}" for x in "qkvo"] + ["layers.0.attention_norm"]
    names += [f"layers.0.feed_forward.w{n}" for n in (1, 2, 3)] + ["layers.0.ffn_norm"]
    for i, name in enumerate(names):
        stored = f"{name}.weight".encode()
        kind, size = ((0, 4), (1, 2), (2, 18 / 32), (8, 34 / 32))[0 if "norm" in name else i % 4]
        dims = (width,) if "norm" in name else (width, width)
        content += struct.pack("<3I", len(dims), len(stored), kind)
        content += struct.pack(f"<{len(dims)}I", *dims) + stored
        content += bytes(-len(content) % 32) + bytes(int(np.prod(dims) * size))
    return content


def _gguf(path: Path) -> bytes:
    """Tensors of every type that the reference knows, as random blocks."""
    rng, writer = np.random.default_rng(1), gguf.GGUFWriter(path, "llama")
    writer.add_array("a.strings", ["", "x", "é"])
    kinds = ("Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "Q8_0", "IQ4_NL", "IQ4_XS", "MXFP4", "IQ2_XXS")
    for kind in kinds:
        number = gguf.GGMLQuantizationType[kind]
        block, size = gguf.GGML_QUANT_SIZES[number]
        stored = rng.integers(0, 256, (2, 256 // block * size)).astype(np.uint8)
        writer.add_tensor(kind, stored, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def _big_endian() -> bytes:
    head = b"GGUF" + struct.pack(">I2Q", 3, 2, 1)
    head += struct.pack(">Q1sIIQ", 1, b"a", 9, 8, 2) + struct.pack(">Q2sQ1s", 2, b"ab", 1, b"c")
    head += struct.pack(">Q1sI2QIQ", 1, b"w", 2, 32, 2, 8, 0)
    head += struct.pack(">Q1sI1QIQ", 1, b"v", 1, 8, 1, 96)
    return head + bytes(-len(head) % 32) + bytes(96 + 32)


def _version_1() -> bytes:
    head = (
        b"GGUF" + struct.pack("<3I", 1, 1, 1) + struct.pack("<I1sIIII1s", 1, b"a", 9, 8, 1, 1, b"c")
    )
    head += struct.pack("<I1sI2IIQ", 1, b"w", 2, 3, 2, 0, 0)
    return head + bytes(-len(head) % 32) + bytes(32)


def _marian() -> bytes:
    """Matrices of 8 and 16 bits, plain numbers and options."""
    rows = [
        ("Wemb", 0x4101, (4, 32), 256),
        ("l1_W", 0x4101, (32, 3), 256),
        ("l2_W", 0x4102, (2, 5), 256),
        ("b", 0x404, (1, 3), 12),
        ("special:model.yml", 0x101, (9,), 9),
    ]
    out = struct.pack("<2Q", 1, len(rows))
    out += b"".join(struct.pack("<4Q", len(n) + 1, t, len(s), size) for n, t, s, size in rows)
    out += b"".join(n.encode() + b"\0" for n, *_ in rows)
    out += b"".join(struct.pack(f"<{len(s)}i", *s) for _, _, s, _ in rows)
    return out + struct.pack("<Q", 8) + bytes(8) + b"\1\2\3\1" * 200


def _ctranslate2() -> bytes:
    """Matrices of 8 and 16 bits with scales, plain numbers, and an alias."""
    rows = [
        ("w", 1, (3, 32), 96),
        ("w_scale", 0, (3,), 12),
        ("v", 1, (2, 5), 10),
        ("v_scale", 0, (2,), 8),
        ("i", 2, (2, 2), 8),
        ("i_scale", 0, (), 4),
        ("h", 4, (7,), 14),
        ("n", 2, (), 2),
    ]
    out = struct.pack("<IH", 6, 5) + b"Spec\0" + struct.pack("<2I", 3, len(rows))
    for name, kind, shape, size in rows:
        out += struct.pack("<H", len(name) + 1) + name.encode() + b"\0" + bytes([len(shape)])
        out += struct.pack(f"<{len(shape)}I", *shape) + struct.pack("<BI", kind, size)
        out += b"\1\2\3\x3f" * (size // 4) + bytes(size % 4)
    return out + struct.pack("<IH", 1, 2) + b"x\0" + struct.pack("<H", 2) + b"w\0"


def _whisper_cpp() -> bytes:
    """A vocabulary, filters, and tensors in float32, float16 and blocks."""
    out = b"lmgg" + struct.pack("<11I", 9, 3, 32, 2, 1, 4, 32, 2, 1, 5, 2008)
    out += struct.pack("<2I", 5, 3) + bytes(60) + struct.pack("<I", 4)
    out += b"".join(struct.pack("<I", n) + b"abcd"[:n] for n in (1, 2, 0, 4))
    for i, (kind, size) in enumerate(((0, 4), (1, 2), (2, 18 / 32), (6, 22 / 32), (8, 34 / 32))):
        name = b"encoder.part.%d" % i
        out += struct.pack("<5I", 2, len(name), kind, 32, 4) + name + bytes(int(128 * size))
    return out


SEEDS: dict[str, Callable[[Path], list[bytes]]] = {
    "zip": lambda _: [(DATA / f"torch_{n}.pt").read_bytes() for n in ("zip", "zip_4")],
    "row": lambda _: [(DATA / f"torch_{n}.pt").read_bytes() for n in ("row", "net")],
    "values": lambda _: [(DATA / f"torch_{n}.pt").read_bytes() for n in ("values", "values_5")],
    "numpy": lambda _: [_numpy(how) for how in ("npz", "npz packed", "npy")],
    "marian": lambda _: [_marian()],
    "ctranslate2": lambda _: [_ctranslate2()],
    "whisper": lambda _: [_whisper_cpp()],
    "ggjt": lambda _: [_ggjt()],
    "gguf": lambda folder: [_gguf(folder / "m.gguf"), _big_endian(), _version_1()],
}


@pytest.mark.parametrize("kind", SEEDS)
def test_mutated_files_load_or_raise(
    kind: str, tmp_path: Path, outcomes_of: Callable[..., list[dict[str, Any]]]
) -> None:
    seeds = []
    for i, content in enumerate(SEEDS[kind](tmp_path)):
        seeds.append(tmp_path / f"seed{i}")
        seeds[-1].write_bytes(content)
    outcomes = outcomes_of("files_worker.py", CASES, tmp_path, 0, CASES, *seeds)
    wrong = {
        number: o
        for number, o in enumerate(outcomes)
        if o["outcome"] not in {"loaded", "refused"}
        or o["calls"] > CALLS + 8 * o["bytes"]  # a few per opcode
        or o["peak"] > o["limit"]
    }
    assert not wrong, f"{len(wrong)} cases, the first: {next(iter(wrong.items()))}"
    # Mutations that all do the same would test little; a reader that refuses all would pass.
    counts = Counter(o["outcome"] for o in outcomes)
    assert counts["loaded"] > 0.1 * CASES and counts["refused"] > 0.2 * CASES, counts
