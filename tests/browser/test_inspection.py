"""The inspection's Python side, natively: headers by ranges, figures against NumPy, the model."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.basis.errors import FormatError
from rushlight.core.io import load_gguf, table_of
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.core.io.weights.source import BytesSource, FileSource
from rushlight.core.io.weights.table import Entry
from rushlight.models.hub.names import resolve
from rushlight.web.loading.held import FIRST, Held
from rushlight.web.worker.inspecting import tensor_figures
from rushlight.web.worker.inspecting.fitting import told
from rushlight.web.worker.inspecting.inspection import Inspection, read_header
from rushlight.web.worker.inspecting.tensor_figures import figures, sample, values
from rushlight.web.worker.inspecting.vocabulary import Vocabulary


class Js(bytes):
    """Bytes as JavaScript passes them."""

    def to_bytes(self) -> bytes:
        """The bytes."""
        return bytes(self)


def inspect(*paths: Path, small: dict[str, bytes] | None = None) -> tuple[Inspection, list[int]]:
    """The inspection of the parts of a checkpoint, and the lengths of the ranges it asked for."""
    found, asked = Inspection(), []
    for name, content in (small or {}).items():
        found.add_file(name, Js(content))
    for path in paths:
        with closing(FileSource(path)) as source:
            found.begin(path.name, source.size)
            wanted: list[int] | None = [0, min(FIRST, source.size)]
            while wanted is not None:
                asked.append(wanted[1])
                wanted = found.give(wanted[0], Js(source.read(*wanted)))
    return found, asked


def figures_of(found: Inspection, path: Path, number: int) -> dict[str, Any]:
    _, *ranges = found.choose(number)
    content = path.read_bytes()
    pairs = zip(ranges[::2], ranges[1::2], strict=True)
    return found.figures(Js(b"".join(content[at : at + n] for at, n in pairs)))


# --- formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file", "format", "task"),
    [
        ("bergamot-en-pt", "model.enpt.intgemm.alphas.bin", "Marian", "translation"),
        ("whisper-tiny.en", "model.bin", "CTranslate2", "automatic-speech-recognition"),
    ],
)
def test_formats_of_translators_and_of_speech(name: str, file: str, format: str, task: str) -> None:
    """What a process loads is inspected: its tensors are those that the reader gives."""
    folder = resolve(name)
    path = folder / file
    beside = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".spm", ".json")}
    found, asked = inspect(path, small=beside)
    facts = json.loads(found.facts())
    with closing(FileSource(path)) as source:
        table, _ = table_of(source)
    assert facts["format"] == format and sum(asked) < 0.1 * path.stat().st_size + 2 * FIRST
    assert [row[0] for row in facts["tensors"]] == list(table.entries)
    number = max(range(len(facts["tensors"])), key=lambda i: facts["tensors"][i][3])
    assert figures_of(found, path, number)["rows"] > 1
    fit = json.loads(found.fit(None))
    assert fit["supported"] and fit["tasks"][0] == task
    alone, _ = inspect(path)
    if format == "Marian":
        fit = json.loads(alone.fit(None))
        assert not fit["supported"] and "vocabulary" in fit["why"]


def test_files_of_llama2c_and_whisper_cpp(tmp_path: Path) -> None:
    for kind in ("ggml", "llama2c"):
        assert told({"anything"}, {}, kind)["tasks"] == ["text-generation"]
    assert told({"encoder.conv1.weight"}, {}, "whisper")["tasks"] == [
        "automatic-speech-recognition"
    ]
    assert not told({"one"}, {"tokenizer.json": b""}, "ctranslate2")["supported"]


# --- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1000, 4000])
def test_a_header_takes_few_ranges_and_no_more_than_twice_its_bytes(
    tmp_path: Path, count: int
) -> None:
    tokens = b"".join(struct.pack("<Q", 300) + b"t" * 300 for _ in range(count))
    key = b"tokenizer.ggml.tokens"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key
    head += struct.pack("<IIQ", 9, 8, count) + tokens
    path = tmp_path / "m.gguf"
    path.write_bytes(head + bytes(16 << 20))
    found, asked = inspect(path)
    assert json.loads(found.facts())["vocabulary"] == count
    assert len(asked) <= 3 + math.log2(len(head) / FIRST)
    assert len(head) <= sum(asked) <= 2 * len(head) + (1 << 20)


def test_a_long_safetensors_header_is_read_to_its_end_and_no_further(tmp_path: Path) -> None:
    tensors = {f"a.long.name.of.a.layer.{i}": rl.ones(4) for i in range(2000)}
    path = tmp_path / "m.safetensors"
    save_safetensors(tensors, path)
    found, asked = inspect(path)
    facts = json.loads(found.facts())
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert length > FIRST and asked == [FIRST, 8 + length - FIRST]
    assert len(facts["tensors"]) == 2000 and facts["parameters"] == 8000
    assert facts["bitsPerWeight"] == 32 and facts["architecture"] == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89HDF" + bytes(100), "looks like an HDF5 file"),
        (b"<!doctype html>" + bytes(100), "a web page that was saved"),
        (b"", "an empty file"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0) + bytes(100), "cannot be in"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60), "past the end"),
        (struct.pack("<Q", 50) + b'{"a":' + bytes(20), "it is cut off"),
    ],
    ids=["hdf5", "page", "empty", "tensors", "string", "cut"],
)
def test_broken_files_are_told(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.bin"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        inspect(path)


def test_a_tensor_in_two_parts_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_safetensors({"same": rl.ones(3)}, tmp_path / name)
    with pytest.raises(FormatError, match='b: tensor "same" is in another part too'):
        inspect(tmp_path / "a", tmp_path / "b")


def test_held_gives_only_what_was_added() -> None:
    held = Held("x", 100)
    held.add(0, b"ab")
    held.add(50, b"yz")
    held.add(2, b"cd")
    assert held.read(1, 9) == b"bcd" and held.read(50, 2) == b"yz" and held.read(70, 5) == b""
    with pytest.raises(FormatError, match="empty file"):
        Held("none", 0).run(read_header)


SAVED = Path(__file__).parents[1] / "core" / "data"


@pytest.mark.parametrize("name", ["torch_zip.pt", "torch_row.pt", "m.npz", "m.npy"])
def test_files_of_pytorch_and_numpy_open_by_ranges(name: str, tmp_path: Path) -> None:
    """In a zip the place of a tensor is known when the record before it was read."""
    path, w = SAVED / name, np.arange(24, dtype=np.float32).reshape(4, 6)
    if not path.exists():
        path = tmp_path / name
        np.save(path, w) if name == "m.npy" else np.savez(path, w=w, turned=np.asfortranarray(w))
    found, asked = inspect(path)
    assert len(asked) <= 6 and sum(asked) <= 2 * path.stat().st_size
    facts = json.loads(found.facts())
    assert facts["format"].startswith("PyTorch" if name.endswith("pt") else "NumPy")
    names = [row[0] for row in facts["tensors"]]
    key = {"p": "state_dict.w", "z": "w", "y": ""}[name[-1] if name[-1] != "t" else "p"]
    content, number = path.read_bytes(), names.index(key)
    place = found.record(number)
    assert (place is not None) == (name in ("torch_zip.pt", "m.npz"))
    record = Js(content[place[1] : sum(place[1:])]) if place else None
    _, *ranges = found.choose(number, record)
    pairs = zip(ranges[::2], ranges[1::2], strict=True)
    shown = found.figures(Js(b"".join(content[at : at + n] for at, n in pairs)))
    assert (shown["mean"], shown["max"], shown["first"]) == (11.5, 23, [*range(12)])
    if name != "m.npy":
        other = names.index(key.replace("w", "turned"))
        with pytest.raises(FormatError, match="its values are not shown"):
            found.choose(other, record)


# --- figures ------------------------------------------------------------------------------------


def test_figures_equal_those_of_numpy(mixed_llama: Path) -> None:
    found, _ = inspect(mixed_llama)
    expected, _ = load_gguf(mixed_llama)
    rows = json.loads(found.facts())["tensors"]
    assert {row[1] for row in rows} >= {"q4_k", "q6_k", "nvfp4", "iq4_nl", "q1_0", "mxfp4", "iq3_s"}
    seen = set()
    for number, (name, dtype, *_) in enumerate(rows):
        if dtype in seen:
            continue
        seen.add(dtype)
        x = expected[name].dequantize().numpy().astype(np.float64)
        got = figures_of(found, mixed_llama, number)
        assert got["whole"] and got["count"] == x.size and got["nan"] == got["infinite"] == 0
        assert (got["min"], got["max"]) == (x.min(), x.max())
        assert got["mean"] == pytest.approx(x.mean(), abs=1e-12)
        assert got["std"] == pytest.approx(x.std(), rel=1e-9, abs=1e-12)
        assert got["zeros"] == (x == 0).sum() and got["first"] == x.reshape(-1)[:12].tolist()
        if x.min() < x.max():
            counts, edges = np.histogram(x.astype(np.float32), 64)
            assert got["histogram"] == {"counts": counts.tolist(), "edges": edges.tolist()}
        cells = np.array(got["map"]["largest"]).reshape(len(got["map"]["rowEdges"]), -1)
        matrix = x.reshape(-1, x.shape[-1])
        (top, bottom), (left, right) = got["map"]["rowEdges"][-1], got["map"]["columnEdges"][0]
        assert bottom == len(matrix) - 1
        assert cells[-1, 0] == np.abs(matrix[top : bottom + 1, left : right + 1]).max()


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.kind == "q"])
def test_every_block_type_has_figures(name: str) -> None:
    dtype = DTYPES[name]
    data = np.random.default_rng(1).integers(0, 256, dtype.nbytes(4 * 256), np.uint8).tobytes()
    entry = Entry("w", dtype, (4, 256), 64, len(data))
    with np.errstate(all="ignore"):
        x = rl.Tensor.from_buffer(bytearray(data), dtype, (4, 256)).dequantize().numpy()
        got = figures(sample(entry), data)
    assert got["nan"] == np.isnan(x).sum() and got["infinite"] == np.isinf(x).sum()
    assert got["max"] == x[np.isfinite(x)].max()


@pytest.mark.parametrize(
    "content",
    [
        np.array([np.nan, np.inf, -np.inf, 0, 1], np.float32),
        np.array([np.nan], np.float64),
        np.array([-1.7e308, 1.7e308]),
        np.array([1e16, 1e16 + 2]),
        np.array([[True, False], [True, True]]),
        np.array([-(2**62), 2**62]),
        np.array(2.5, np.float16),
        np.zeros((0, 3), np.float32),
    ],
)
def test_odd_values(content: Any) -> None:
    t = rl.from_numpy(content)
    entry = Entry("w", t.dtype, t.shape, 0, t.nbytes)
    got = figures(sample(entry), bytes(t.raw_bytes()))
    x = np.asarray(content, np.float64)
    good = x[np.isfinite(x)]
    assert (got["nan"], got["infinite"]) == (np.isnan(x).sum(), np.isinf(x).sum())
    assert ("min" in got) == bool(good.size)
    if good.size:
        assert sum(got["histogram"]["counts"]) == good.size
        assert got["min"] == good.min() and got["max"] == good.max()
        assert math.isfinite(got["mean"]) or np.abs(good).max() > 1e300
    assert ("map" in got) == bool(x.size)


@pytest.mark.parametrize(
    "shape", [(40_000, 64), (7, 4_000_000), (3, 50, 20_000), (4_000_000,), (1_000_000, 3)]
)
def test_a_large_tensor_is_sampled(shape: tuple[int, ...]) -> None:
    rows, width = math.prod(shape[:-1]), shape[-1]
    x = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    if width == 3:
        x = x[:, :]
    entry = Entry("w", rl.float32, shape, 0, x.nbytes)
    chosen = sample(entry)
    ranges = chosen.ranges()
    assert len(ranges) <= 16 and sum(n for _, n in ranges) <= 4 * tensor_figures.MOST
    content = x.tobytes()
    got = values(chosen, b"".join(content[at : at + n] for at, n in ranges))
    numbers = [r for first, n in chosen.pieces for r in range(first, first + n)]
    assert np.array_equal(got, x[numbers][:, : chosen.columns])
    assert not chosen.whole and numbers == sorted(set(numbers))
    if len(ranges) > 1:
        assert numbers[0] == 0 and numbers[-1] == rows - 1


# --- the model, vocabulary, template ------------------------------------------------------------


def test_a_model_is_checked_as_in_loading(mixed_llama: Path) -> None:
    found, _ = inspect(mixed_llama)
    facts = json.loads(found.facts())
    assert facts["format"] == "GGUF, version 3" and facts["architecture"] == "llama"
    sizes = {n: facts[n] for n in ("contextLength", "layers", "heads", "kvHeads", "width")}
    assert sizes == {"contextLength": 64, "layers": 2, "heads": 4, "kvHeads": 2, "width": 256}
    model = rl.models.load(mixed_llama)
    assert facts["parameters"] == sum(t.numel() for t in model.parameters())
    assert facts["bytes"] == mixed_llama.stat().st_size
    fits = json.loads(found.fit(None))
    assert fits["supported"] and fits["tasks"] == ["text-generation", "chat"]
    cache = model.new_cache()
    cache.reserve(64)
    row = max(t.nbytes for kept in cache.buffers for t in kept) // 64
    held = {"perToken": cache.nbytes // 64, "largestRow": row}
    assert fits["cache"] == {"fixed": 0, **held, "windows": []}


def test_a_file_that_is_no_known_model_says_why(tmp_path: Path, tiny_model: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_safetensors({"w": rl.ones(3)}, path)
    found, _ = inspect(path)
    fits = json.loads(found.fit(None))
    assert not fits["supported"] and "config.json" in fits["why"] and fits["hint"]
    config = json.dumps({"model_type": "quux"}).encode()
    found, _ = inspect(path, small={"config.json": config})
    assert "'quux' is not supported" in json.loads(found.fit(None))["why"]
    names = ("config.json", "tokenizer.json", "tokenizer_config.json")
    small = {name: (tiny_model / name).read_bytes() for name in names}
    less = rl.load(tiny_model / "model.safetensors")
    del less["embeddings.LayerNorm.bias"]
    save_safetensors(less, tmp_path / "less.safetensors")
    found, _ = inspect(tmp_path / "less.safetensors", small=small)
    assert "embeddings.LayerNorm.bias" in json.loads(found.fit(None))["why"]
    found, _ = inspect(tiny_model / "model.safetensors", small=small)
    fits = json.loads(found.fit(None))
    assert fits["supported"] and "feature-extraction" in fits["tasks"]
    assert fits["cache"] == {"fixed": 0, "perToken": 0, "largestRow": 0, "windows": []}
    facts = json.loads(found.facts())
    assert (facts["architecture"], facts["vocabulary"]) == ("bert, BertModel", 8000)


def test_a_vocabulary_is_searched_and_paged(mixed_llama: Path) -> None:
    found, _ = inspect(mixed_llama)
    all_of_it = json.loads(found.tokens("", 0, 5))
    assert all_of_it["total"] == 256 and all_of_it["rows"][2] == [2, "ab", ""]
    assert json.loads(found.tokens("<25", 2, 9)) == {
        "total": 7,
        "rows": [[i, f"<{i}>", ""] for i in range(251, 256)],
    }
    assert json.loads(found.tokens("#7", 0, 9))["rows"] == [[7, "<7>", ""]]
    assert json.loads(found.tokens("#999", 0, 9)) == {"total": 0, "rows": []}


def test_odd_vocabularies() -> None:
    stored = {"model": {"vocab": {"a": 0, "b": 10**12, "c": True}}, "added_tokens": [7, {"id": 1}]}
    assert list(Vocabulary.of_json(stored).tokens) == ["a"]
    unigram = {"model": {"vocab": [["x", -1.0], ["\x00\u200b", 0], 5, []]}}
    assert Vocabulary.of_json(unigram).page("", 0, 9)["rows"] == [
        [0, "x", ""],
        [1, "\\x00\\u200b", ""],
    ]
    assert Vocabulary.of_gguf({"tokenizer.ggml.tokens": "no"}).page("", 0, 9)["total"] == 0
    assert len(Vocabulary(["y" * 5000], {}).page("", 0, 1)["rows"][0][1]) <= 121


def awaited(coroutine: Coroutine[Any, Any, str]) -> str:
    """What a coroutine returns; other tests' browser may have a loop in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@pytest.mark.parametrize("listed", [False, True])
def test_a_template_is_shown_and_rendered(tmp_path: Path, listed: bool) -> None:
    path = tmp_path / "m.safetensors"
    save_safetensors({"w": rl.ones(3)}, path, {"note": "x" * 9000})
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
    several = [{"name": "default", "template": template}]
    stored = {"chat_template": several if listed else template, "bos_token": {"content": "<s>"}}
    found, _ = inspect(path, small={"tokenizer_config.json": json.dumps(stored).encode()})
    facts = json.loads(found.facts())
    assert facts["template"] == template and len(facts["metadata"][0][1]) < 500

    class Messages(list[Any]):
        def to_py(self) -> list[Any]:
            return list(self)

    made = awaited(found.prompt(Messages([{"role": "user", "content": "Hi"}])))
    assert made == "<s>[user] Hi"
    bare, _ = inspect(path)
    with pytest.raises(FormatError, match="no chat template"):
        awaited(bare.prompt(Messages()))


def test_damaged_bytes_of_a_tensor_are_told(mixed_llama: Path) -> None:
    found, _ = inspect(mixed_llama)
    found.choose(0)
    with pytest.raises(FormatError, match="can be read"):
        found.figures(Js(b"short"))
    source = BytesSource(b"")
    assert source.size == 0


def test_figures_of_dtypes_that_only_files_have(tmp_path: Path) -> None:
    """Rows of four bits that do not begin at bytes, and complex numbers by their magnitudes."""
    header = {
        "a": {"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]},
        "b": {"dtype": "C64", "shape": [1], "data_offsets": [3, 11]},
    }
    text = json.dumps(header).encode()
    path = tmp_path / "m.safetensors"
    data = bytes([0x21, 0x43, 0x75]) + np.array([3 + 4j], np.complex64).tobytes()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    found, _ = inspect(path)
    types = {name for name, *_ in json.loads(found.facts())["types"]}
    assert types == {"float4_e2m1fn", "complex64"}
    first, second = (figures_of(found, path, n) for n in range(2))
    assert first["count"] == 6 and first["max"] == 6.0 and first["min"] == 0.5
    assert second["max"] == second["min"] == 5.0
