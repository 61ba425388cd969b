"""Mutated weight files load as in the reference or raise FormatError, within bounds."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis.dtype import from_safetensors
from rushlight.core.io.weights.safetensors import save_safetensors
from rushlight.models.hub.names import resolve

pytestmark = pytest.mark.native  # needs a process of its own

HERE = Path(__file__).parent
CASES = int(os.environ.get("RUSHLIGHT_FUZZ_CASES", "2400"))  # of each format, in parts
HANGING = 600.0  # seconds without an answer: a case that never ends, on the busiest machine
CALLS = 10_000  # of functions, that reading any file may take


def _every_dtype(path: Path) -> Path:
    """A small file with all dtypes, empty and 0-d tensors, odd names and metadata."""
    rng = np.random.default_rng(0)
    tensors = {}
    for i, dtype in enumerate(from_safetensors.values()):
        for shape in ((), (0,), (3, 2), (1, 4, 1)):
            data = rng.integers(0, 2, dtype.nbytes(int(np.prod(shape)))).astype(np.uint8)
            tensors[f"{i}.{len(shape)} é"] = rl.Tensor.from_buffer(data, dtype, shape)
    save_safetensors(tensors, path, {"format": "pt", "note": "a \u2028 b"})
    return path


def _run(kind: str, folder: Path, first: int, last: int, *seeds: Path) -> list[dict[str, Any]]:
    """The outcomes of these cases; fails when the worker dies or a case hangs."""
    process = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "worker.py"),
            kind,
            str(folder),
            str(first),
            str(last),
            *map(str, seeds),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    lines: queue.Queue[str] = queue.Queue()
    stdout, stderr = process.stdout, process.stderr

    def read() -> None:
        for line in stdout:
            lines.put(line)
        lines.put("")

    reader = threading.Thread(target=read)
    reader.start()
    outcomes: list[dict[str, Any]] = []
    try:
        while line := lines.get(timeout=HANGING):
            outcomes.append(json.loads(line))
    except queue.Empty:
        pytest.fail(f"case {first + len(outcomes)} hangs")
    finally:
        if process.poll() is None and len(outcomes) < last - first:
            process.kill()
        said = stderr.read()
        process.wait()
        reader.join()
        stdout.close()
        stderr.close()
    assert len(outcomes) == last - first, f"case {first + len(outcomes)} ended the process: {said}"
    return outcomes


def _check(outcomes: list[dict[str, Any]], first: int) -> Counter[str]:
    wrong = {
        first + i: o
        for i, o in enumerate(outcomes)
        if o["outcome"] not in {"equal", "refused", "stricter"}
        or o["calls"] > CALLS + o["bytes"]  # a few per tensor, a tensor takes tens of bytes
        or o["peak"] > o["limit"]
    }
    assert not wrong, f"{len(wrong)} cases, the first: {next(iter(wrong.items()))}"
    return Counter(o["outcome"] for o in outcomes)


@pytest.mark.parametrize("part", range(4))
def test_safetensors_load_equal_or_raise(part: int, tmp_path: Path) -> None:
    seeds = [
        HERE.parent / "models" / "data" / "bert_tiny.safetensors",
        HERE.parent / "parity" / "data" / "minilm.safetensors",
        _every_dtype(tmp_path / "every.safetensors"),
    ]
    first, last = CASES * part // 4, CASES * (part + 1) // 4
    counts = _check(_run("safetensors", tmp_path, first, last, *seeds), first)
    # Mutations that all do the same would test little; a reader that refuses all would pass.
    assert counts["equal"] > 0.1 * (last - first)
    assert counts["refused"] > 0.3 * (last - first)
    assert counts["stricter"] < 0.1 * (last - first)


def test_safetensors_of_a_real_model(tmp_path: Path) -> None:
    first, last = 10**6, 10**6 + 16
    seed = resolve("all-minilm-l6-v2") / "model.safetensors"
    counts = _check(_run("safetensors", tmp_path, first, last, seed), first)
    assert counts["equal"] and counts["refused"]


def _gguf(path: Path, blocks: bool) -> Path:
    """A small GGUF file by the reference: all value types, and tensors of every type we have."""
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        getattr(writer, f"add_{name}")(f"a.{name}", 100)
    writer.add_float32("a.float32", 0.1)
    writer.add_float64("a.float64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "candle \u2028")
    writer.add_array("a.strings", ["", "x", "é", "word"])
    writer.add_array("a.numbers", [1, -2, 3])
    writer.add_array("a.floats", [0.5, 1.5])
    kinds = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0") if blocks else ("F32", "F16", "BF16", "F64")
    for i, kind in enumerate(kinds):
        for shape in ((4, 32), (2, 3, 64)):
            number = gguf.GGMLQuantizationType[kind]
            values = rng.normal(size=shape).astype(np.float64 if kind == "F64" else np.float32)
            stored = values if kind == "F64" else gguf.quants.quantize(values, number)
            writer.add_tensor(f"w.{i}.{len(shape)}", stored, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("part", range(4))
def test_gguf_load_equal_or_raise(part: int, tmp_path: Path) -> None:
    seeds = [_gguf(tmp_path / "plain.gguf", False), _gguf(tmp_path / "blocks.gguf", True)]
    first, last = CASES * part // 4, CASES * (part + 1) // 4
    counts = _check(_run("gguf", tmp_path, first, last, *seeds), first)
    assert counts["equal"] > 0.1 * (last - first)
    assert counts["refused"] > 0.3 * (last - first)
    # The reference takes what lies past the end of a file for empty, and any offset.
    assert counts["stricter"] < 0.25 * (last - first)
