"""Voice activity of an hour of speech and silence, beside the package's graph on onnxruntime.

    python benchmarks/silero.py [--minutes 60]

Probabilities are compared first: they may differ by 1e-4 at most.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import markdown, run, step
from peers import ORT, SILERO, pypi
from speech_mix import mixed
from turns import measured, python_side, sides

MEMBER = "silero_vad/data/silero_vad.onnx"
MOST = 1e-4


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, one thread each."""
    from rushlight.core.io.hub.fetch import cache_dir
    from rushlight.core.io.hub.fetch.packages import wheel_member

    ((package, version),) = SILERO.items()
    graph = cache_dir() / "benchmarks" / f"{package}-{version}.onnx"
    if not graph.is_file():
        wheel_member(package, version, MEMBER, graph)
    command, env = python_side("python.py", 1)
    other, paths = python_side("python.py", 1, pypi(ORT))
    commands = {
        "rushlight": ([*command, "rushlight"], env),
        "silero-vad": ([*other, "silero-vad"], paths),
    }
    with TemporaryDirectory() as folder, sides(commands) as started:
        path, out = Path(folder) / "hour.wav", {name: f"{folder}/{name}.npy" for name in commands}
        with step(f"write {chosen.minutes} minutes of sound"):
            mixed(path, 60 * chosen.minutes)
        started["silero-vad"].ask("open", direction=str(graph))

        def sample(who: str, _: int) -> dict[str, float]:
            times: dict[str, float] = started[who].ask("scan", path=str(path), out=out[who])
            return times

        row = measured(started, sample, chosen.rounds, f"{chosen.minutes} minutes", 1, warm=0)
        a, b = (np.load(file) for file in out.values())
        row["largest_difference"] = float(np.abs(a - b).max())
        if len(a) != len(b) or row["largest_difference"] > MOST:
            raise SystemExit(f"probabilities differ by {row['largest_difference']}")
        versions = started["rushlight"].ask("about")
    return {"results": [row], "versions": {**versions, **SILERO, **ORT}}


def table(result: dict[str, Any]) -> str:
    """Seconds of an hour, and memory."""
    head = [
        "seconds for",
        "rushlight",
        "silero-vad on onnxruntime",
        "times the peer",
        "by processor time",
        "peak MB",
        "the peer's",
        "largest difference",
    ]
    rows = []
    for row in result["results"]:
        speed, peak = row["per_s"], row["peak_mb"]
        rows.append([row["what"], 1 / speed["rushlight"], 1 / speed["silero-vad"],
                     row["times"]["silero-vad"], row["times_by_processor"].get("silero-vad", ""),
                     peak["rushlight"], peak["silero-vad"], row["largest_difference"]])  # fmt: skip
    return markdown(head, rows)


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--minutes": {"type": int, "default": 60, "help": "the length of the recording"},
        "--rounds": {"type": int, "default": 2, "help": "samples of each"},
    }
    run("silero", __doc__, {"native": native}, table, options)
