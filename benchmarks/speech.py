"""Whisper beside faster-whisper with the same weights: seconds for a recording.

    python benchmarks/speech.py [--threads 1,2]

Both decode greedily, by windows with their defaults otherwise. Texts are compared with what is read
first: a contender that hears otherwise ends the run.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from measure import HERE, markdown, run
from peers import FASTER_WHISPER, pypi
from turns import measured, python_side, sides

sys.path.append(str(HERE.parent / "tests" / "models"))
from recordings import TEXTS, recording, word_errors

MODEL = "whisper-tiny.en"
# Rushlight's dtype of weights and the peer's.
PRECISIONS = {"float": ("float16", "float32"), "8 bits": ("q8_0", "int8")}
MOST_ERRORS = 0.03


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads and precision."""
    from rushlight.core.io.hub.names import resolve

    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    folder = str(resolve(MODEL))
    for threads in map(int, chosen.threads.split(",")):
        own, env = python_side("python.py", threads)
        other, paths = python_side("python.py", threads, pypi(FASTER_WHISPER))
        commands = {"rushlight": ([*own, "rushlight"], env),
                    "faster-whisper": ([*other, "faster-whisper"], paths)}  # fmt: skip
        for precision, kinds in PRECISIONS.items():
            with sides(commands) as at:
                for kind, side in zip(kinds, at.values(), strict=True):
                    side.ask("listen", folder=folder, dtype=kind)
                for name in TEXTS:
                    path = str(recording(name))

                    def sample(who: str, _: int, at: Any = at, path: str = path,
                               name: str = name) -> dict[str, float]:  # fmt: skip
                        found: dict[str, Any] = at[who].ask("transcribe", path=path)
                        if (off := word_errors(found.pop("text"), TEXTS[name])) > MOST_ERRORS:
                            raise SystemExit(f"{who}: {off:.0%} of {name}'s words are wrong")
                        return found

                    what = f"{name}, {precision}"
                    row = measured(at, sample, chosen.rounds, what, threads)
                    results.append(row)
                    print(cells(row), flush=True)
                for side in at.values():
                    versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **FASTER_WHISPER}}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    (peer,) = row["times"]
    speed, peak = row["per_s"], row["peak_mb"]
    return [row["what"], row["threads"], 1 / speed["rushlight"], 1 / speed[peer],
            row["times"][peer], row["times_by_processor"].get(peer, ""), peak["rushlight"],
            peak[peer]]  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Seconds of a recording, and memory."""
    head = ["seconds for a recording", "threads", "rushlight", "faster-whisper", "times the peer",
            "by processor time", "peak MB", "faster-whisper's"]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 5, "help": "samples of each"},
    }
    run("speech", __doc__, {"native": native}, table, options)
