"""ggml files from before GGUF: every magic, versions and types, and a llama that runs."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io import read_tables
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.llamas.ggml import load_ggml, read_ggml
from rushlight.core.io.weights.source import BytesSource

pytestmark = pytest.mark.native  # needs gguf

WIDTH, HEADS, FED, LAYERS, ROT = 64, 4, 96, 2, 16
WORDS = [
    b"",
    b"",
    b"",
    *(bytes([i]) for i in range(256)),
    b" a",
    b" ab",
    b"ab",
    b"xy",
    b"\xc3\xa9",
]
MAGICS = {"ggml": b"lmgg", "ggmf": b"fmgg", "ggjt": b"tjgg"}
FORMATS = [("ggml", 0), ("ggmf", 1), ("ggjt", 1), ("ggjt", 2), ("ggjt", 3)]
NAMES = {
    "tok_embeddings": "token_embd",
    "norm": "output_norm",
    "output": "output",
    **{
        f"layers.{i}.{theirs}": f"blk.{i}.{ours}"
        for i in range(LAYERS)
        for theirs, ours in {
            "attention.wq": "attn_q",
            "attention.wk": "attn_k",
            "attention.wv": "attn_v",
            "attention.wo": "attn_output",
            "attention_norm": "attn_norm",
            "feed_forward.w1": "ffn_gate",
            "feed_forward.w2": "ffn_down",
            "feed_forward.w3": "ffn_up",
            "ffn_norm": "ffn_norm",
        }.items()
    },
}


def shape_of(name: str) -> tuple[int, ...]:
    if "norm" in name:
        return (WIDTH,)
    if name in ("tok_embeddings", "output"):
        return (len(WORDS), WIDTH)
    if "wk" in name or "wv" in name:
        return (WIDTH // 2, WIDTH)  # two heads of keys and values
    if name.endswith("w2"):
        return (WIDTH, FED)
    return (FED, WIDTH) if "feed_forward" in name else (WIDTH, WIDTH)


def weights(kind: str) -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    """(shape, type number, bytes) of each tensor; norms stay float32."""
    rng, found = np.random.default_rng(0), {}
    for name in NAMES:
        shape = shape_of(name)
        number = gguf.GGMLQuantizationType["F32" if len(shape) == 1 else kind]
        values = rng.normal(size=shape).astype(np.float32) / 8 + (len(shape) == 1)
        found[f"{name}.weight"] = shape, int(number), gguf.quants.quantize(values, number).tobytes()
    return found


def ggml(
    name: str = "ggjt",
    version: int = 3,
    kind: str = "F32",
    *,
    hyper: dict[int, int] | None = None,
    words: list[bytes] | None = None,
    rows: dict[str, tuple[tuple[int, ...], int, bytes]] | None = None,
) -> bytes:
    """A file as llama.cpp wrote it."""
    words = WORDS if words is None else words
    numbers = [len(words), WIDTH, 32, HEADS, LAYERS, ROT, 0]
    for at, value in (hyper or {}).items():
        numbers[at] = value
    content = MAGICS[name] + (struct.pack("<I", version) if version else b"")
    content += struct.pack("<7I", *numbers)
    for i, word in enumerate(words):
        content += struct.pack("<I", len(word)) + word
        content += struct.pack("<f", -i) if name != "ggml" else b""
    for stored, (shape, number, data) in (weights(kind) if rows is None else rows).items():
        content += struct.pack("<3I", len(shape), len(stored), number)
        content += struct.pack(f"<{len(shape)}I", *shape[::-1]) + stored.encode()
        content += bytes(-len(content) % 32 if name == "ggjt" else 0) + data
    return content


def as_gguf(path: Path, kind: str) -> Path:
    """The same model, as llama.cpp's converter makes it."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS // 2)
    writer.add_rope_dimension_count(ROT)
    writer.add_layer_norm_rms_eps(5e-6)
    writer.add_tokenizer_model("llama")
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % i for i in range(256))]
    tokens += [word.replace(b" ", b"\xe2\x96\x81") for word in WORDS[259:]]
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(WORDS))])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * (len(WORDS) - 259)])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, (shape, number, data) in weights(kind).items():
        raw = np.frombuffer(data, np.float32 if number == 0 else np.uint8)
        rows = raw.reshape(*shape[:-1], -1)
        kind_of = gguf.GGMLQuantizationType(number)
        writer.add_tensor(f"{NAMES[name.removesuffix('.weight')]}.weight", rows, raw_dtype=kind_of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(("name", "version"), FORMATS)
@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0", "Q8_0"])
def test_a_file_is_read_as_its_conversion(
    name: str, version: int, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(ggml(name, version, kind))
    if kind[0] == "Q" and (name, version) != ("ggjt", 3):
        message = f"{kind.lower()} in a {name} file of version {version} has another layout"
        with pytest.raises(rl.FormatError, match=message):
            rl.load(path)
        return
    tensors, metadata = load_ggml(path)
    expected, stated = load_gguf(as_gguf(tmp_path / "m.gguf", kind))
    assert tensors.keys() == expected.keys() == rl.load(path).keys()
    for n, t in expected.items():
        found = tensors[n].dtype, tensors[n].shape, tensors[n].raw_bytes()
        assert found == (t.dtype, t.shape, t.raw_bytes()), n
    for key, value in stated.items():
        if key == "tokenizer.ggml.scores" and name == "ggml":
            assert not metadata[key].any()  # the format has none
        elif isinstance(value, float):
            assert metadata[key] == pytest.approx(value)
        else:
            assert np.array_equal(metadata[key], value), key
    ((_, table, shown),) = read_tables(path)
    assert len(table.entries) == len(NAMES) and shown["llama.block_count"] == LAYERS


@pytest.mark.parametrize("kind", ["F16", "Q4_0"])
def test_a_llama_gives_the_logits_of_its_conversion(kind: str, tmp_path: Path, device: str) -> None:
    (tmp_path / "model.bin").write_bytes(ggml(kind=kind))
    models: list[Any] = [
        rl.models.load(path, device=device)
        for path in (tmp_path / "model.bin", as_gguf(tmp_path / "m.gguf", kind))
    ]
    ids = rl.tensor([[1, 70, 260, 5]], device=device)
    ours, theirs = (m(ids).detach().numpy() for m in models)
    assert ours.shape == (1, 4, len(WORDS)) and np.ptp(ours) > 0.1
    assert np.array_equal(ours, theirs)
    tokens = [m.tokenizer.encode(" ab é") for m in models]
    assert tokens[0] == tokens[1]


WRONG: dict[str, tuple[bytes, str]] = {
    "version": (ggml("ggjt", 4), "version 4 of ggjt is not supported; supported: ggml, ggmf 1"),
    "words": (ggml(hyper={0: 2**31}), "has 2147483648 tokens in"),
    "few words": (ggml(words=[b""] * 2), "has 2 tokens in .* it is not a llama"),
    "long word": (ggml(words=[b"", b"", b"", b"x" * 5000]), "token 3 has 5000 bytes"),
    "cut off in the words": (ggml()[:1500], "lie past the end of a file of 1500"),
    "cut off in a tensor": (ggml()[:-1], "tensor 'layers.1.ffn_norm.weight': 256 bytes at .* do"),
    "nothing": (ggml(rows={}), "is not a llama: 0 tensors"),
    "heads": (ggml(hyper={3: 0}), "n_head 0"),
    "other heads": (ggml(hyper={3: 5}), "n_embd 64, n_head 5"),
    "dims": (ggml(rows={"w": ((1,) * 5, 0, b"")}), "does not begin a tensor: 5 dims"),
    "type": (ggml(rows={"w": ((1,), 99, b"")}), "tensor 'w': type 99 is not supported"),
    "removed": (ggml(rows={"w": ((32,), 4, b"")}), "q4_2 is not supported; nearest: q4_"),
    "columns": (ggml(rows={"w": ((31,), 2, b"")}), r"of shape \(31,\) does not fit q4_0"),
    "huge": (ggml(rows={"w": ((2**32 - 1,) * 4, 0, b"")}), "does not fit float32"),
    "twice": (
        ggml(rows={"norm.weight": ((1,), 0, bytes(4)), "output_norm.weight": ((1,), 0, bytes(4))}),
        "'output_norm.weight' occurs twice",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_malformed_file_is_named(which: str) -> None:
    content, message = WRONG[which]
    tracemalloc.start()
    try:
        with pytest.raises(rl.FormatError, match=message) as told:
            read_ggml(BytesSource(content, "m.bin"))
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert "m.bin" in str(told.value)
