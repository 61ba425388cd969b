"""Load and run mutated ONNX files; one line of JSON a case: its outcome and its work.

    python onnx_worker.py FOLDER FIRST LAST SEED...

Case i is mutation i of seed number i modulo their count. While it is read and runs, the address
space is limited to what the process has and 1 GB more.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.basis.errors import PlaceError, SizeError

worker: Any = importlib.import_module("worker")
ROOM = 1 << 30
SIZE = 3  # of a free dim


def value_of(kind: Any) -> Any:
    """A value of a declared type, small and of ones."""
    if kind is None:
        return np.ones(SIZE, np.float32)
    if kind.form == "optional":
        return None
    if kind.form == "sequence":
        return [value_of(kind.inner)]
    if kind.form == "map":
        return {1: 1.0}
    shape = [n if isinstance(n, int) and n < 64 else SIZE for n in kind.shape or ()]
    if kind.kind is not None and kind.kind.name == "string":
        return np.full(shape, "a", np.object_)
    return np.ones(shape, kind.kind.carried.name if kind.kind is not None else "float32")


def outcome_of(content: bytes) -> str:
    """ "ran" or "refused", or what is wrong."""
    try:
        with worker._limited(ROOM):
            module = rl.onnx.load(content)
            module(**{info.name: value_of(info.type) for info in module.inputs})
        return "ran"
    except (rl.FormatError, rl.DeviceMemoryError, SizeError, PlaceError) as error:
        return "refused" if str(error) else "refused without a word"
    except (ValueError, TypeError) as error:
        # Of inputs that the changed file does not take.
        return "refused" if "input" in str(error) else traceback.format_exc()
    except BaseException:
        return traceback.format_exc()


def one(content: bytes) -> dict[str, Any]:
    """The outcome of one case, and the calls of functions that it took."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        outcome = outcome_of(content)
    finally:
        sys.setprofile(None)
    return {"outcome": outcome, "calls": calls, "bytes": len(content)}


def main() -> None:
    """Run the cases that the command line names."""
    first, last = int(sys.argv[2]), int(sys.argv[3])
    seeds = [Path(p).read_bytes() for p in sys.argv[4:]]
    mutate = importlib.import_module("onnx_mutations").mutate
    np.seterr(all="ignore")
    for seed in seeds:  # what is imported on first use is not the cases' doing
        warm = one(seed)
        assert warm["outcome"] == "ran", warm
    for number in range(first, last):
        print(json.dumps(one(mutate(seeds[number % len(seeds)], number))), flush=True)


if __name__ == "__main__":
    main()
