"""Run mutated safetensors files through the reader and the reference; one line of JSON a case.

    python safetensors_worker.py FOLDER FIRST LAST SEED...

Case i is mutation i of seed number i modulo their count. While the reader runs, the address space
is limited to what the process has, what the case may take, and 64 MB more.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import resource
import struct
import sys
import time
import traceback
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors

import rushlight as rl
from rushlight.core.dtype import from_safetensors
from rushlight.core.io.safetensors import load_safetensors, open_tables

ROOM = 64 << 20
_NAMES = {d.name: s for s, d in from_safetensors.items()}


def _mutations() -> Any:
    path = Path(__file__).with_name("safetensors_mutations.py")
    spec = importlib.util.spec_from_file_location("safetensors_mutations", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, str]] | None:
    """What the reference reads, or None where it refuses."""
    try:
        rows: Any = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
        with safetensors.safe_open(path, "np") as file:
            metadata = dict(file.metadata() or {})
    except BaseException as error:  # it panics on some files
        if isinstance(error, KeyboardInterrupt | MemoryError):
            raise
        return None
    tensors = {n: (r["dtype"], list(r["shape"]), bytes(r["data"])) for n, r in rows}
    return tensors, metadata


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


def one(path: Path, content: bytes) -> dict[str, Any]:
    """The outcome of one case: "equal", "refused", or what is wrong; its seconds and its peak."""
    path.write_bytes(content)
    expected = reference(content, path)
    (claimed,) = struct.unpack("<Q", content[:8].ljust(8, b"\0"))
    header = claimed if claimed <= max(0, len(content) - 8) else 0
    tensors: dict[str, rl.Tensor] | None = None
    outcome = ""
    limit = len(content) + 32 * header + (1 << 20)
    tracemalloc.start()
    began = time.process_time()
    try:
        with _limited(len(content) + limit + ROOM):  # the mapped file, and memory
            tensors = load_safetensors(path)
    except rl.FormatError:
        outcome = "refused" if expected is None else "stricter"
    except BaseException:
        outcome = traceback.format_exc()
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if tensors is not None:
        outcome = _compare(tensors, open_tables(path)[0][1].metadata, expected)
    return {"outcome": outcome, "seconds": seconds, "peak": peak, "limit": limit}


def _compare(tensors: dict[str, rl.Tensor], metadata: dict[str, str], expected: Any) -> str:
    if expected is None:
        return "loaded what the reference refuses"
    found = {n: (_NAMES[t.dtype.name], list(t.shape), t.raw_bytes()) for n, t in tensors.items()}
    if found != expected[0]:
        return "loaded other tensors than the reference"
    return "equal" if metadata == expected[1] else "loaded other metadata than the reference"


def main() -> None:
    """Run the cases that the command line names."""
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    seeds = [Path(p).read_bytes() for p in sys.argv[4:]]
    mutate = _mutations().mutate
    for seed in seeds:  # warm: what is imported on first use is not the cases' doing
        warm = one(folder / "case.safetensors", seed)
        assert warm["outcome"] == "equal", warm
    for number in range(first, last):
        content = mutate(seeds[number % len(seeds)], number)
        print(json.dumps(one(folder / "case.safetensors", content)), flush=True)


if __name__ == "__main__":
    main()
