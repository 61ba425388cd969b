"""Published ONNX files beside onnxruntime, on the same inputs.

    python benchmarks/onnx_files.py [--threads 1,2] [--files ocr-detector,piper]

Warm calls in turns, the seconds until the first results are there, and the peak memory of each
process. onnxruntime optimizes the graph fully. Results are compared with each other before anything
is timed.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import HERE, markdown, run, tell_row
from peers import ORT, pypi
from turns import measured, python_side, sides

# The calls of a sample.
WORK = {
    "ocr-detector": 10, "ocr-recognizer": 10, "ocr-direction": 40, "u2netp": 2, "dinov2-small": 3,
    "yolov8n": 10, "magika": 10, "silero": 400, "piper": 2, "titles-encoder": 10,
    "titles-decoder": 10,
}  # fmt: skip
# Of the largest value. 8-bit activations turn a rounding the other way into a step: see
# tests/core/onnx/test_real_files.py.
TOLERANCE = {"titles-encoder": 0.15, "titles-decoder": 0.15}


def compare(outs: dict[str, list[np.ndarray]], what: str) -> float:
    """The largest difference of the arrays, by their largest value; stops if it is too large."""
    ours, theirs = outs["rushlight"], outs["onnxruntime"]
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        worst = max(worst, float(np.abs(a.astype(np.float64) - b).max() / np.abs(b).max()))
    if not worst <= TOLERANCE.get(what, 1e-4):
        raise SystemExit(f"{what}: results differ by {worst}")
    return worst


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads and file."""
    sys.path.insert(0, str(HERE.parent / "tests" / "core" / "onnx"))
    real: Any = import_module("real_files")
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        out = Path(folder)
        for threads in map(int, chosen.threads.split(",")):
            commands = {}
            for name in ("rushlight", "onnxruntime"):
                command, env = python_side("onnx_files.py", threads, pypi(ORT))
                commands[name] = ([*command, name], env)
            for kind in chosen.files.split(","):
                path = real.file(kind)
                np.savez(out / "inputs.npz", **real.inputs(kind))
                with sides(commands) as started:
                    outs, begun = {}, {}
                    for name, side in started.items():
                        begun[name] = side.ask(
                            "load", path=str(path), inputs=str(out / "inputs.npz")
                        )
                        side.ask("infer", count=2, out=str(out / f"{name}.npz"))
                        with np.load(out / f"{name}.npz") as arrays:
                            outs[name] = [arrays[n] for n in arrays.files]
                    worst = compare(outs, kind)
                    row = measured(
                        started,
                        lambda name, _, at=started, kind=kind: at[name].ask(  # type: ignore[misc]
                            "infer", count=WORK[kind]
                        ),
                        chosen.rounds,
                        kind,
                        threads,
                    )
                    row |= {"largest_difference": worst, "begun": begun}
                    results.append(row)
                    tell_row(cells(row))
                    for side in started.values():
                        versions |= side.ask("about")
    return {"results": results, "versions": versions}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    took = [1000 / per_s for per_s in row["per_s"].values()]
    first = [begun["first_s"] for begun in row["begun"].values()]
    values: list[object] = [row["what"], row["threads"], *took, *row["times"].values()]
    return [*values, *first, *row["peak_mb"].values()]


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a call, the ratio, seconds to the first results, and memory."""
    head = [
        "ms of a call",
        "threads",
        "rushlight",
        "onnxruntime",
        "onnxruntime by rushlight",
        "first results s",
        "onnxruntime s",
        "peak MB",
        "onnxruntime MB",
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 5, "help": "samples of each"},
        "--files": {"default": ",".join(WORK), "help": "those to measure"},
    }
    run("onnx_files", __doc__, {"native": native}, table, options)
