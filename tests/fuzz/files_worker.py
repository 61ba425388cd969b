"""Load mutated weight files; one line of JSON a case: its outcome, calls and memory.

    python files_worker.py FOLDER FIRST LAST SEED...

Case i is mutation i of seed number i modulo their count. While a file is read, the address space is
limited to what the process has, what the case may take, and 64 MB more. Calls are counted in every
fourth case, memory in every sixteenth.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import tracemalloc
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.core.io.weights.pickles.pytorch import flat

worker: Any = importlib.import_module("worker")
# As unpickle.py bounds what a pickle makes, and zips.py what an archive holds.
FREE, TIMES = 12 << 20, 80


def used(found: Any) -> int:
    """Read every tensor of a file that was loaded; returns how many there are."""
    count = 0
    for _, tensor in flat(found):
        count += 1
        if tensor.numel() <= 1 << 16 and tensor.device.type != "meta":
            tensor.raw_bytes()
    return count


def one(path: Path, content: bytes, number: int) -> dict[str, Any]:
    """The outcome of one case: "loaded", "refused", or what is wrong."""
    path.write_bytes(content)
    limit = TIMES * len(content) + FREE
    calls = peak = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    if number % 16 == 0:
        tracemalloc.start()
    elif number % 4 == 0:
        sys.setprofile(count)
    try:
        with worker._limited(len(content) + limit + worker.ROOM):
            found = rl.load(path)
            outcome = "loaded"
    except rl.FormatError as error:
        outcome = "refused" if str(error) else "refused without a word"
    except BaseException:
        outcome = traceback.format_exc()
    finally:
        sys.setprofile(None)
        if tracemalloc.is_tracing():
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    try:
        if outcome == "loaded":
            used(found)
    except rl.FormatError:
        outcome = "refused"
    except BaseException:
        outcome = traceback.format_exc()
    return {"outcome": outcome, "calls": calls, "bytes": len(content), "peak": peak, "limit": limit}


def main() -> None:
    """Run the cases that the command line names."""
    path, first, last = Path(sys.argv[1]) / "case", int(sys.argv[2]), int(sys.argv[3])
    seeds = [Path(p).read_bytes() for p in sys.argv[4:]]
    mutate = importlib.import_module("files_mutations").mutate
    for seed in seeds:  # what is imported on first use is not the cases' doing
        warm = one(path, seed, 1)
        assert warm["outcome"] == "loaded", warm
    for number in range(first, last):
        print(json.dumps(one(path, mutate(seeds[number % len(seeds)], number), number)), flush=True)


if __name__ == "__main__":
    main()
