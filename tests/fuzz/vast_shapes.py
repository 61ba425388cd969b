"""Run every op at shapes whose sizes multiply to far more than any memory holds.

    python vast_shapes.py FIRST LAST [--unchecked]

Case i is a sample of op number i modulo their count, with some of its sizes replaced, by `expand`,
with numbers from 0 to 2**64. Each runs in a forked process, which may not have much memory and is
stopped after a moment: a large shape is slow, and only that. --unchecked: Python does not bound
shapes, so that the C library must. One line of JSON says how the cases ended.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.basis import layout
from rushlight.core.tensor.op import REGISTRY

SIZES = (0, 1, 3, 2**16, 2**24, 2**31 - 1, 2**31, 2**32, 2**33 + 1, 2**40, 2**46 + 1, 2**48,
         2**48 + 1, 2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64)  # fmt: skip
# Attributes that hold sizes.
NAMED = {"shape", "size", "sizes", "length", "count", "k"}
MOMENT = 0.15  # seconds of a case, of the processor
ROOM = 1 << 30  # bytes of a case
DONE, RAISED, WRONG = 10, 11, 12
# What an op may raise for operands of such shapes, or for attributes that no longer fit them.
REFUSALS = (ValueError, TypeError, IndexError, MemoryError, RuntimeError)


def samples() -> dict[str, Any]:
    """The samples of the ops that run on a device."""
    place = Path(__file__).parents[1] / "core" / "samples" / "__init__.py"
    spec = importlib.util.spec_from_file_location("rushlight_tests_samples", place)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: s for name, s in module.SAMPLES.items() if not REGISTRY[name].view}


def vast(x: np.ndarray[Any, Any], sizes: dict[int, int], dtype: str, device: str) -> rl.Tensor:
    """`x` with the sizes replaced."""
    want = [sizes.get(n, n) for n in x.shape]
    cut = tuple(
        slice(None) if n == m else slice(min(m, 1)) for n, m in zip(x.shape, want, strict=True)
    )
    t = rl.tensor(x[cut].copy(), dtype=dtype if x.dtype.kind == "f" else None, device=device)
    return t.expand(*want) if x.ndim else t


def renamed(value: Any, sizes: dict[int, int]) -> Any:
    """An attribute with the sizes replaced."""
    if isinstance(value, tuple):
        return tuple(renamed(v, sizes) for v in value)
    return sizes.get(value, value) if type(value) is int else value


def call(number: int, entries: dict[str, Any], device: str = "cpu") -> str:
    """Run case `number`; returns what was called. Raises what the call raises."""
    draw = Random(number)
    name = list(entries)[number % len(entries)]
    sample = draw.choice(entries[name].samples)
    present = {n for x in sample.inputs if x is not None for n in x.shape}
    present |= {n for n in sample.attrs.get("shape", ()) if type(n) is int}
    sizes = {n: draw.choice(SIZES) for n in present if draw.random() < 0.6}
    dtype = draw.choice(("float32", "float32", "float16", "bfloat16"))
    said = f"{name}({[None if x is None else x.shape for x in sample.inputs]}) {sizes} {dtype}"
    captured = draw.random() < 0.2
    try:
        given = [None if x is None else vast(x, sizes, dtype, device) for x in sample.inputs]
        attrs = {k: renamed(v, sizes) if k in NAMED else v for k, v in sample.attrs.items()}
        op = REGISTRY[name]
        if captured and given:
            run: Any = rl.jit(lambda *x: op(*x, device=rl.device(device), **attrs))
            run(*given)
            run(*given)
        else:
            op(*given, device=rl.device(device), **attrs)
    except BaseException as error:
        error.add_note(said)
        raise
    return said


def outcome(number: int, entries: dict[str, Any], limit: bool) -> int:
    """How a case ends: DONE, RAISED, or WRONG, which it also says."""
    if limit:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    signal.setitimer(signal.ITIMER_PROF, MOMENT if limit else 3 * MOMENT)  # sanitizers are slow
    try:
        call(number, entries)
    except BaseException as error:
        unchecked = "has too many elements" in str(error)
        if isinstance(error, REFUSALS) and (unchecked or "refused a message" not in str(error)):
            return RAISED
        print(f"case {number}: {error!r} in {error.__notes__}", file=sys.stderr, flush=True)
        return WRONG
    return DONE


def main(first: int, last: int, unchecked: bool) -> None:
    """Run the cases from `first` to `last` - 1."""
    if unchecked:
        layout.MOST_ELEMENTS = 2**63 - 1
    entries, ends = samples(), Counter[str]()
    names = {DONE: "done", RAISED: "raised", WRONG: "wrong", -signal.SIGPROF: "slow"}
    limit = "ASAN_OPTIONS" not in os.environ  # its shadow memory is larger than any limit
    crashed = []
    for number in range(first, last):
        child = os.fork()
        if not child:
            os._exit(outcome(number, entries, limit))
        end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ends[names.get(end, "crashed")] += 1
        if end not in names:
            crashed.append((number, end))
    print(json.dumps({**ends, "numbers": crashed}))


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    main(int(sys.argv[1]), int(sys.argv[2]), "--unchecked" in sys.argv)
