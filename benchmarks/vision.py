"""Image networks of published shapes beside onnxruntime and PyTorch, with the same random weights.

    python benchmarks/vision.py [--threads 1,2] [--networks mobilenet_v2,resnet50]

One picture at a time, warm, from pixels to what the network makes of them. onnxruntime optimizes
the graph fully; PyTorch runs in inference mode in the faster of its two memory formats. The arrays
are compared with each other before anything is timed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import markdown, run, tell, tell_row
from peers import TORCH, pypi
from turns import measured, python_side, sides

# The pictures of a sample.
WORK = {"mobilenet_v2": 20, "resnet50": 3, "yolov8n": 3, "vit_b": 1, "sam_encoder": 1}
NAMES = {"sam_encoder": "sam encoder, 512"}
TOLERANCE = 1e-4  # of the largest value


def compare(found: dict[str, list[np.ndarray]], what: str) -> float:
    """The largest difference of the arrays, by their largest value; stops if it is too large."""
    first, *others = found.values()
    worst = 0.0
    for other in others:
        for a, b in zip(first, other, strict=True):
            worst = max(worst, float(np.abs(a - b).max() / np.abs(a).max()))
    if not worst <= TOLERANCE:
        raise SystemExit(f"{what}: results differ by {worst}, {TOLERANCE} is allowed")
    return worst


def written(kinds: list[str]) -> Path:
    """The folder in the cache that has each network's files in a folder of its name."""
    from rushlight.core.io.hub.fetch import cache_dir

    place = cache_dir() / "benchmarks" / f"networks-torch@{TORCH['torch']}"
    if missing := [kind for kind in kinds if not (place / kind).is_dir()]:
        command, env = python_side("vision.py", 2, pypi(TORCH))
        with sides({"torch": ([*command, "torch"], env)}) as started:
            for kind in missing:
                temporary = place / f"{kind}.part"
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir(parents=True)
                started["torch"].ask("write", kind=kind, folder=str(temporary))
                temporary.rename(place / kind)
                tell(f"{kind} is written")
    return place


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads and network."""
    kinds = chosen.networks.split(",")
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    with TemporaryDirectory() as out:
        place = written(kinds)
        for threads in map(int, chosen.threads.split(",")):
            peers = {"rushlight": None, "onnxruntime": pypi(TORCH), "torch": pypi(TORCH)}
            commands = {}
            for name, path in peers.items():
                command, env = python_side("vision.py", threads, path)
                commands[name] = ([*command, name], env)
            for kind in kinds:
                with sides(commands) as started:
                    outs, formats = {}, {}
                    for name, side in started.items():
                        formats[name] = side.ask("load", kind=kind, folder=str(place / kind))
                        side.ask("infer", count=1, out=f"{out}/{name}.npz")
                        with np.load(f"{out}/{name}.npz") as arrays:
                            outs[name] = [arrays[n] for n in arrays.files]
                    worst = compare(outs, kind)
                    row = measured(
                        started,
                        lambda name, _, at=started, kind=kind: at[name].ask(  # type: ignore[misc]
                            "infer", count=WORK[kind]
                        ),
                        chosen.rounds,
                        NAMES.get(kind, kind),
                        threads,
                    )
                    row |= {"largest_difference": worst, "format": formats["torch"]}
                    results.append(row)
                    tell_row(cells(row))
                    for side in started.values():
                        versions |= side.ask("about")
    return {"results": results, "versions": versions}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    took = {name: 1000 / per_s for name, per_s in row["per_s"].items()}
    spent = row["times_by_processor"]
    values: list[object] = [row["what"], row["threads"], *took.values(), *row["times"].values()]
    values += [spent.get(name, "") for name in row["times"]]
    return values + list(row.get("peak_mb", {}).values())


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a picture, ratios, and memory."""
    first = result["results"][0]
    peers = list(first["times"])
    head = [
        "ms of a picture",
        "threads",
        "rushlight",
        *peers,
        *(f"{p} by rushlight" for p in peers),
        *(f"{p}, by processor time" for p in peers),
        *(f"peak MB, {n}" for n in first.get("peak_mb", {})),
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 5, "help": "samples of each"},
        "--networks": {"default": ",".join(WORK), "help": "those to measure"},
    }
    run("vision", __doc__, {"native": native}, table, options)
