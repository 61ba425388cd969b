"""Image networks of published shapes beside onnxruntime and PyTorch, with the same random weights.

    python benchmarks/vision.py native [--threads 1,2]  beside onnxruntime and PyTorch
    python benchmarks/vision.py tab [--site DIR]        beside onnxruntime-web: wasm, WebGPU

One picture at a time, warm, from pixels to what the network makes of them. onnxruntime optimizes
the graph fully; PyTorch runs in inference mode in the faster of its two memory formats. The arrays
are compared with each other before anything is timed. In the tab onnxruntime-web has one thread,
and WebGPU is SwiftShader's, which computes on the CPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import HERE, WEBGPU, markdown, opened, run, served
from peers import ORT_WEB, VISION, npm, pypi
from turns import alternate, compared, measured, python_side, sides

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


def written(folder: str, kinds: list[str]) -> None:
    """Writes each network's files into a folder of its name."""
    command, env = python_side("vision.py", 2, pypi(VISION))
    with sides({"torch": ([*command, "torch"], env)}) as at:
        for kind in kinds:
            Path(folder, kind).mkdir()
            at["torch"].ask("write", kind=kind, folder=f"{folder}/{kind}")


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads and network."""
    kinds = chosen.networks.split(",")
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    with TemporaryDirectory() as made:
        written(made, kinds)
        for threads in map(int, chosen.threads.split(",")):
            peers = {"rushlight": None, "onnxruntime": pypi(VISION), "torch": pypi(VISION)}
            commands = {}
            for name, path in peers.items():
                command, env = python_side("vision.py", threads, path)
                commands[name] = ([*command, name], env)
            for kind in kinds:
                with sides(commands) as at:
                    found, formats = {}, {}
                    for name, side in at.items():
                        formats[name] = side.ask("load", kind=kind, folder=f"{made}/{kind}")
                        side.ask("infer", count=1, out=f"{made}/{name}.npz")
                        with np.load(f"{made}/{name}.npz") as arrays:
                            found[name] = [arrays[n] for n in arrays.files]
                    worst = compare(found, kind)
                    row = measured(
                        at,
                        lambda name, _, at=at, kind=kind: at[name].ask("infer", count=WORK[kind]),  # type: ignore[misc]
                        chosen.rounds, NAMES.get(kind, kind), threads,
                    )  # fmt: skip
                    row |= {"largest_difference": worst, "format": formats["torch"]}
                    results.append(row)
                    print(cells(row), flush=True)
                    for side in at.values():
                        versions |= side.ask("about")
    return {"results": results, "versions": versions}


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/vision.js"></script>"""


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, on the CPU and on WebGPU."""
    results: list[dict[str, Any]] = []
    info: dict[str, Any] = {}
    names = ["rushlight", "onnxruntime-web"]
    kinds = [k for k in chosen.networks.split(",") if k not in ("vit_b", "sam_encoder")]
    with TemporaryDirectory() as made:
        written(made, kinds)
        for kind in kinds:
            # The page's answer to a rolling name: the arrays of `kind` that a process made.
            command, env = python_side("vision.py", 2)
            with sides({"rushlight": ([*command, "rushlight"], env)}) as at:
                at["rushlight"].ask("load", kind=kind, folder=f"{made}/{kind}")
                at["rushlight"].ask("infer", count=1, out=f"{made}/expected.npz")
                at["rushlight"].ask("pixels", kind=kind, out=f"{made}/{kind}/pixels.bin")
            with np.load(f"{made}/expected.npz") as arrays:
                expected = [arrays[n] for n in arrays.files]
            folders = {"": chosen.site, "node_modules": npm(ORT_WEB), "web": HERE / "web",
                       "models/measured": Path(made, kind)}  # fmt: skip
            for device in ("cpu", "webgpu"):
                with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
                    page.wait_for_function("window.bench")
                    info |= page.evaluate("(given) => bench.open(...given)", [kind, device])
                    found = {"native": expected}
                    for name in names:
                        told = page.evaluate("(name) => bench.arrays(name)", name)
                        found[name] = [np.asarray(v, np.float32).reshape(e.shape)
                                       for v, e in zip(told, expected, strict=True)]  # fmt: skip
                    worst = compare(found, f"{kind}, {device}")
                    samples = alternate(
                        names, lambda name, _, page=page: page.evaluate("(n) => bench.infer(n)", name),  # type: ignore[misc]
                        chosen.rounds,
                    )  # fmt: skip
                    row = {"what": f"{NAMES.get(kind, kind)}, {device}", "threads": 1,
                           **compared(samples, 1), "samples": samples,
                           "largest_difference": worst}  # fmt: skip
                    results.append(row)
                    info["chromium"] = page.context.browser.version
                    print(cells(row), flush=True)
    return {"results": results, "versions": {**info, **ORT_WEB}}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    took = {name: 1000 / per_s for name, per_s in row["per_s"].items()}
    spent = row["times_by_processor"]
    found: list[object] = [row["what"], row["threads"], *took.values(), *row["times"].values()]
    found += [spent.get(name, "") for name in row["times"]]
    return found + list(row.get("peak_mb", {}).values())


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a picture, ratios, and memory."""
    first = result["results"][0]
    peers = list(first["times"])
    head = ["ms of a picture", "threads", "rushlight", *peers, *(f"{p} by rushlight" for p in peers),
            *(f"{p}, by processor time" for p in peers),
            *(f"peak MB, {n}" for n in first.get("peak_mb", {}))]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--rounds": {"type": int, "default": 7, "help": "samples of each"},
        "--networks": {"default": ",".join(WORK), "help": "those to measure"},
    }
    run("vision", __doc__, {"native": native, "tab": tab}, table, options)
