"""float32 matrix products in one Chromium tab: Rushlight on WebGPU beside other libraries.

    python benchmarks/matmul_web.py [--site DIR] [--sizes 256x256x256,...] [--seconds 6]

The peers are installed from npm in pinned versions. Each runs in its documented fast form: jax-js
under `jit`, onnxruntime-web with operands and result bound to GPU buffers, tfjs with its webgpu
backend. Each multiplies operands that are on the device and waits for the product. They take turns,
warm; slow ones run fewer samples, and one of more than six seconds none after its first, of which
compiling is a small part. The last products are read and compared: a few rows with sums in float64,
and all elements with each other, to 1e-5 times the square root of the sums' length.

The adapter is SwiftShader, WebGPU on the CPU, which serves to compare libraries side by side. The
processor time of its process is recorded beside the clock's time, because other work on the machine
hardly changes it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from measure import (
    HERE,
    WEBGPU,
    browser_processes,
    markdown,
    opened,
    processor_ms,
    run,
    served,
    step,
    tell_row,
)
from peers import JAX, ORT_WEB, TFJS, WEB, npm

PEERS = {**JAX, **ORT_WEB, **TFJS}
NAMES = ["rushlight", "jax-js", "onnxruntime-web", "tfjs"]
# Nothing was tuned on the last three.
SIZES = [
    "256x256x256",
    "512x512x512",
    "1024x1024x1024",
    "2048x2048x2048",
    "384x1000x700",
    "1536x768x96",
    "333x1021x517",
]
SLOW_MS = 6000
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/matmul.js"></script>"""


def _field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer: a varint, or bytes after their length."""

    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx(n: int, k: int, m: int) -> bytes:
    """An ONNX model of one MatMul: a (n, k) @ b (k, m) = c."""

    def value(name: str, *shape: int) -> bytes:
        dims = b"".join(_field(1, _field(1, size)) for size in shape)
        tensor = _field(1, 1) + _field(2, dims)  # element type 1 is float32
        return _field(1, name.encode()) + _field(2, _field(1, tensor))

    node = _field(1, b"a") + _field(1, b"b") + _field(2, b"c") + _field(4, b"MatMul")
    graph = _field(1, node) + _field(2, b"product")
    graph += _field(11, value("a", n, k)) + _field(11, value("b", k, m))
    graph += _field(12, value("c", n, m))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 17))


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Every size in one page of one browser."""
    sizes = [tuple(map(int, text.split("x"))) for text in chosen.sizes.split(",")]
    results: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for size in sizes:
            (Path(folder) / f"{'x'.join(map(str, size))}.onnx").write_bytes(onnx(*size))
        folders = {
            "rushlight": chosen.site / "rushlight",
            "node_modules": npm(WEB),
            "web": HERE / "web",
            "models": Path(folder),
        }
        with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
            page.wait_for_function("window.bench")
            with step(f"load {', '.join(NAMES)}"):
                versions = page.evaluate("(names) => bench.open(names, 'webgpu')", NAMES)
            (gpu,) = browser_processes(os.getpid(), "gpu-process")
            for size in sizes:
                results.append(measure_size(page, NAMES, size, chosen.seconds, gpu))
                tell_row(_row(results[-1]))
            version = page.context.browser.version
    return {
        "sizes": results,
        "versions": {**versions, **PEERS, "chromium": version},
    }


def measure_size(
    page: Any, names: list[str], size: tuple[int, ...], seconds: float, pid: int, least: float = 0
) -> dict[str, Any]:
    """Measure a size with the contenders of a page, the first of them Rushlight.

    pid: the process that computes. least: GFLOP of a sample, which repeats smaller products.
    """
    n, k, m = size
    page.evaluate("([n, k, m]) => bench.prepare(n, k, m)", list(size))
    times = max(1, int(least * 1e9 / (2 * n * k * m)))
    sample = "([name, times]) => bench.sample(name, times)"
    samples: dict[str, list[float]] = {name: [] for name in names}
    spent: dict[str, list[float]] = {name: [] for name in names}

    def take(name: str) -> float:
        before = processor_ms(pid)
        samples[name].append(page.evaluate(sample, [name, times]))
        spent[name].append(processor_ms(pid) - before)
        return times * samples[name][-1]

    turns = {}
    with step(f"warm samples of {'x'.join(map(str, size))}"):
        for name in names:
            took = take(name)  # compiles
            if took < 2000:
                took = take(name)
            turns[name] = 0
            if took <= SLOW_MS:
                turns[name] = max(2, min(15, int(250 * seconds / took)))
                samples[name], spent[name] = [], []
    for turn in range(max(turns.values())):
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            if turn < turns[name]:
                take(name)
    apart, tolerance = page.evaluate("bench.check()"), 1e-5 * k**0.5
    for name, differences in apart.items():
        if not max(differences.values()) <= tolerance:
            raise SystemExit(f"{name}, {size}: off by {differences}, {tolerance} is allowed")
    flops = 2 * n * k * m
    speed = {name: flops / median(times) / 1e6 for name, times in samples.items()}
    ours, *others = (sum(spent[name]) / len(spent[name]) for name in names)
    return {
        "size": "x".join(map(str, size)),
        "gflops": speed,
        "times_best_peer": speed[names[0]] / max(speed[n] for n in names[1:]),
        "times_best_peer_by_processor_time": min(others) / ours,
        "milliseconds": samples,
        "processor_milliseconds": spent,
        "largest_difference": apart,
        "tolerance": tolerance,
    }


def _row(result: dict[str, Any]) -> list[object]:
    times = [result["times_best_peer"], result["times_best_peer_by_processor_time"]]
    return [result["size"], *(result["gflops"][n] for n in NAMES), *times]


def table(result: dict[str, Any]) -> str:
    """GFLOP/s by size."""
    head = ["n x k x m, GFLOP/s", *NAMES, "times the best peer", "by processor time"]
    return markdown(head, [_row(r) for r in result["sizes"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--sizes": {"default": ",".join(SIZES), "help": "products, as NxKxM"},
        "--seconds": {"type": float, "default": 6.0, "help": "about the time per size"},
    }
    run("matmul_web", __doc__, {"tab": tab}, table, options)
