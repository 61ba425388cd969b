"""Run mutated files through a reader and its reference; one line of JSON a case.

    python worker.py safetensors|gguf FOLDER FIRST LAST SEED...

Case i is mutation i of seed number i modulo their count. While the reader runs, the address space
is limited to what the process has, what the case may take, and 64 MB more.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import resource
import signal
import struct
import sys
import traceback
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors

import rushlight as rl
from rushlight.core.basis.dtype import from_safetensors
from rushlight.core.io.weights.gguf import load_gguf
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

ROOM = 64 << 20
NUMBERS = {
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
}
Found = tuple[dict[str, Any], dict[str, Any]]  # tensors, metadata
# The package says 40 bytes. In ggml-common.h block_q8_1 is two halves and 32 bytes.
gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.Q8_1] = (32, 36)


def load_files(path: Path) -> tuple[dict[str, rl.Tensor], dict[str, Any]]:
    """(tensors, metadata) of a safetensors file, by our reader."""
    return load_safetensors(path), {**open_tables(path)[0][1].metadata}


def reference_safetensors(content: bytes, path: Path) -> Found:
    """What the reference reads; raises where it refuses."""
    rows: Any = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    with safetensors.safe_open(path, "np") as file:
        metadata = dict(file.metadata() or {})
    dtypes = {text: dtype.name for text, dtype in from_safetensors.items()}
    tensors = {n: (dtypes[r["dtype"]], tuple(r["shape"]), bytes(r["data"])) for n, r in rows}
    return tensors, metadata


def reference_gguf(content: bytes, path: Path) -> Found:
    """What the reference reads; raises where it refuses.

    Of arrays of arrays it keeps no structure: they are left out.
    """
    reader = gguf.GGUFReader(path)
    metadata: dict[str, Any] = {}
    for name, f in reader.fields.items():
        if name in ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count"):
            continue
        parts = [f.parts[i] for i in f.data]
        if f.types[:2] == [gguf.GGUFValueType.ARRAY] * 2:
            metadata[name] = "nested"
        elif f.types[-1] == gguf.GGUFValueType.STRING:
            metadata[name] = [p.tobytes() for p in parts]
        else:
            metadata[name] = [repr(p[0].item()) for p in parts]
    tensors = {}
    for t in reader.tensors:
        name = NUMBERS.get(t.tensor_type.name, t.tensor_type.name.lower())
        shape = tuple(int(n) for n in t.shape[::-1])
        tensors[t.name] = (name, shape, t.data.tobytes())
    return tensors, metadata


def _as_reference(value: Any) -> Any:
    """Metadata of a GGUF file in the form that reference_gguf gives."""
    if isinstance(value, str):
        return [value.encode("utf-8", "surrogateescape")]
    if isinstance(value, list) and value and not isinstance(value[0], str):
        return "nested"
    if isinstance(value, list):
        return [v.encode("utf-8", "surrogateescape") for v in value]
    values = value.tolist() if isinstance(value, np.ndarray) else [value]
    return [repr(v) for v in values]


FORMATS: dict[str, tuple[Any, Any]] = {
    "safetensors": (load_files, reference_safetensors),
    "gguf": (load_gguf, reference_gguf),
}


@contextlib.contextmanager
def _given(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after some seconds: the reference may count to what a file says."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def reference(kind: str, content: bytes, path: Path) -> Found | None:
    """What the reference reads, or None where it refuses."""
    try:
        with _given(20 if len(content) > 1 << 24 else 2), np.errstate(all="ignore"):
            found: Found = FORMATS[kind][1](content, path)
    except BaseException as error:  # the one of safetensors panics on some files
        if isinstance(error, KeyboardInterrupt | MemoryError):
            raise
        return None
    return found


@contextlib.contextmanager
def _limited(more: int) -> Iterator[None]:
    """Give the process at most `more` bytes of addresses beyond those it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def one(kind: str, path: Path, content: bytes) -> dict[str, Any]:
    """The outcome of one case: "equal", "refused", or what is wrong; its calls and its peak."""
    path.write_bytes(content)
    expected = reference(kind, content, path)
    header = min(len(content), 4 << 20)
    if kind == "safetensors":
        (claimed,) = struct.unpack("<Q", content[:8].ljust(8, b"\0"))
        header = claimed if claimed <= max(0, len(content) - 8) else 0
    found: tuple[dict[str, rl.Tensor], dict[str, Any]] | None = None
    outcome = ""
    limit = len(content) + 32 * header + (1 << 20)
    tracemalloc.start()
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        with _limited(len(content) + limit + ROOM):  # the mapped file, and memory
            found = FORMATS[kind][0](path)
    except rl.FormatError:
        outcome = "refused" if expected is None else "stricter"
    except BaseException:
        outcome = traceback.format_exc()
    finally:
        sys.setprofile(None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if found is not None:
        outcome = _compare(kind, *found, expected)
    return {"outcome": outcome, "calls": calls, "bytes": len(content), "peak": peak, "limit": limit}


def _compare(
    kind: str, tensors: dict[str, rl.Tensor], metadata: dict[str, Any], expected: Any
) -> str:
    if expected is None:
        return "loaded what the reference refuses"
    found = {n: (t.dtype.name, t.shape, t.raw_bytes()) for n, t in tensors.items()}
    if found != expected[0]:
        return "loaded other tensors than the reference"
    if kind == "gguf":
        metadata = {key: _as_reference(value) for key, value in metadata.items()}
    return "equal" if metadata == expected[1] else "loaded other metadata than the reference"


def main() -> None:
    """Run the cases that the command line names."""
    kind, folder, first, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    seeds = [Path(p).read_bytes() for p in sys.argv[5:]]
    mutate, path = importlib.import_module(f"{kind}_mutations").mutate, folder / f"case.{kind}"
    for seed in seeds:  # warm: what is imported on first use is not the cases' doing
        warm = one(kind, path, seed)
        assert warm["outcome"] == "equal", warm
    for number in range(first, last):
        content = mutate(seeds[number % len(seeds)], number)
        print(json.dumps(one(kind, path, content)), flush=True)


if __name__ == "__main__":
    main()
