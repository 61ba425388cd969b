"""A checkout in a process of its own, for commits.py. It uses only names that every commit has.

    PYTHONPATH=CHECKOUT/src python benchmarks/sides/checkout.py THREADS

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import rushlight as rl

rl.set_num_threads(int(sys.argv[1]))
held: dict[str, Any] = {}
CHAIN = 500  # ops in the replayed function


def timed(run: Callable[[], object]) -> dict[str, float]:
    """Seconds of the clock, and of this process's processor time."""
    began, spent = time.perf_counter(), time.process_time()
    run()
    return {
        "seconds": time.perf_counter() - began,
        "processor_s": time.process_time() - spent,
    }


def load(name: str, folder: str) -> dict[str, float]:
    """Load a model."""

    def run() -> None:
        held[name] = rl.models.load(folder)

    return timed(run)


def generate(text: str, tokens: int) -> dict[str, Any]:
    """Greedy tokens after a prompt. The time of the first is that of the prompt."""
    model = held["llm"]
    began, spent = time.perf_counter(), time.process_time()
    marks: list[tuple[float, float]] = []
    pieces = []
    for piece in model.generate(text, max_new_tokens=tokens, temperature=0):
        marks.append((time.perf_counter(), time.process_time()))
        pieces.append(str(piece))
    first, last = marks[0], marks[-1]
    return {
        "prompt": {"seconds": first[0] - began, "processor_s": first[1] - spent},
        "answer": {"seconds": last[0] - first[0], "processor_s": last[1] - first[1]},
        "text": "".join(pieces),
    }


def encode(texts: list[str]) -> dict[str, Any]:
    """Encodes texts; gives the sum of the first vector, to compare."""
    encoded: list[Any] = []
    times = timed(lambda: encoded.append(held["encoder"].encode(texts)))
    return {**times, "sum": float(encoded[0][0].sum().item())}


def replay(device: str, times: int) -> dict[str, float]:
    """Calls a captured chain of ops that are not fused; gives the seconds of one op."""
    if "chain" not in held or held["chain"][0] != device:

        @rl.jit(passes=())
        def chain(x: Any) -> Any:
            for _ in range(CHAIN):
                x = x + 1.0
            return x

        held["chain"] = device, chain, rl.zeros(16, device=device)
        for _ in range(3):
            chain(held["chain"][2]).numpy()
    _, run, x = held["chain"]
    took = {"seconds": 0.0, "processor_s": 0.0}
    for _ in range(times):
        outs: list[Any] = []
        times_of_run = timed(lambda found=outs: found.append(run(x)))  # type: ignore[misc]
        outs[0].numpy()
        took = {key: took[key] + times_of_run[key] for key in took}
    return {key: value / times / CHAIN for key, value in took.items()}


CALLS: dict[str, Callable[..., Any]] = {
    "load": load,
    "generate": generate,
    "encode": encode,
    "replay": replay,
}

if __name__ == "__main__":
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(CALLS[call](**arguments)), flush=True)
