"""Published ONNX files in one tab beside onnxruntime-web: wasm on one thread, and WebGPU.

    python benchmarks/onnx_web.py [--site DIR] [--devices cpu,webgpu] [--files ocr-direction,silero]

Results are compared with each other before anything is timed. Both read theirs in each call. WebGPU
is SwiftShader, which computes on the CPU: "by processor time" is of its process there. A file that
the provider of the peer does not run is named and left out.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import (
    HERE,
    WEBGPU,
    browser_processes,
    markdown,
    opened,
    processor_ms,
    run,
    served,
    tell,
    tell_row,
)
from onnx_files import compare
from peers import ORT_WEB, WEB, npm
from turns import alternate, compared, page_process

NAMES = ["rushlight", "onnxruntime-web"]
# The calls of a sample, on cpu and on webgpu.
WORK = {
    "ocr-direction": (20, 2), "silero": (50, 5), "ocr-recognizer": (3, 1), "ocr-detector": (5, 1),
    "magika": (2, 1), "yolov8n": (3, 1), "titles-encoder": (3, 1), "titles-decoder": (3, 1),
    "dinov2-small": (1, 1),
}  # fmt: skip
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,"><script type="module" src="./web/onnx.js"></script>"""
READY = "window.bench !== undefined"
LOAD = "([name, file, inputs, device]) => bench.load(name, file, inputs, device)"
SAMPLE = "([name, count]) => bench.sample(name, count)"


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """A page for each device and file."""
    sys.path.insert(0, str(HERE.parent / "tests" / "core" / "onnx"))
    real: Any = import_module("real_files")
    results: list[dict[str, Any]] = []
    version = ""
    for device in chosen.devices.split(","):
        for kind in chosen.files.split(","):
            with TemporaryDirectory() as place:
                inputs, files = {}, {"file.onnx": real.file(kind)}
                for number, (name, value) in enumerate(real.inputs(kind).items()):
                    path = Path(place) / f"{number}.bin"
                    path.write_bytes(np.ascontiguousarray(value).tobytes())
                    files[path.name] = path
                    row = {"dtype": str(value.dtype), "shape": list(value.shape)}
                    inputs[name] = {**row, "file": path.name}
                shared = {"": chosen.site, "node_modules": npm(WEB), "web": HERE / "web"}
                flags = WEBGPU if device == "webgpu" else []
                with served(PAGE, {**shared, **files}) as address, opened(address, flags) as page:
                    page.wait_for_function(READY)
                    try:
                        row = measured(page, inputs, device, kind, chosen.rounds)
                    except Exception as error:
                        tell(f"{kind} on {device} is left out: {str(error).splitlines()[0]}")
                        continue
                    version = page.context.browser.version
            results.append(row)
            tell_row(cells(row))
    return {"results": results, "versions": {**ORT_WEB, "chromium": version}}


def measured(page: Any, inputs: Any, device: str, kind: str, rounds: int) -> dict[str, Any]:
    """A row of the table."""
    begun = {name: page.evaluate(LOAD, [name, "file.onnx", inputs, device]) for name in NAMES}
    outs = {}
    for name in NAMES:
        page.evaluate(SAMPLE, [name, 2])
        values = page.evaluate("(name) => bench.values(name)", name)
        outs[name] = [np.asarray(x, np.float32) for x in values]
    outs["onnxruntime"] = outs[NAMES[1]]
    worst = compare(outs, kind)
    gpu = device == "webgpu"
    (process,) = browser_processes(os.getpid(), "gpu-process") if gpu else (page_process(page),)
    count = WORK[kind][gpu]

    def sample(name: str, _: int) -> dict[str, Any]:
        before = processor_ms(process)
        result: dict[str, Any] = page.evaluate(SAMPLE, [name, count])
        return {**result, "processor_s": (processor_ms(process) - before) / 1000}

    samples = alternate(NAMES, sample, rounds)
    row = {"what": kind, "device": device, **compared(samples, count), "samples": samples}
    return {**row, "largest_difference": worst, "begun": begun}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    took = [1000 / per_s for per_s in row["per_s"].values()]
    times = [*row["times"].values(), *row["times_by_processor"].values()]
    return [row["what"], row["device"], *took, *times, *row["begun"].values()]


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a call, the ratios, and seconds to the first results."""
    head = [
        "ms of a call",
        "device",
        *NAMES,
        "onnxruntime-web by rushlight",
        "by processor time",
        "first results s, Pyodide included",
        "onnxruntime-web s",
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--rounds": {"type": int, "default": 3, "help": "samples of each"},
        "--devices": {"default": "cpu,webgpu", "help": "cpu is wasm to the peer"},
        "--files": {"default": ",".join(WORK), "help": "those to measure"},
    }
    run("onnx_web", __doc__, {"tab": tab}, table, options)
