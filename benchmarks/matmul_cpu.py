"""float32 matrix products on the CPU: Rushlight beside other libraries.

    python benchmarks/matmul_cpu.py native [--threads 1,2]  beside NumPy's BLAS and onnxruntime
    python benchmarks/matmul_cpu.py tab [--site DIR]        beside onnxruntime-web and jax-js, all
                                                            on one thread

Natively each library has a process of its own; in the tab they share a page. Each runs in its
documented fast form (onnxruntime with bound operands, jax-js under `jit`). Products are compared
with sums in float64, to 1e-5 times the square root of the sums' length. Nothing was tuned on the
last two sizes. Memory is the peak of a process, or of a page in a browser of its own, over all
sizes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matmul_web import PAGE, measure_size, onnx
from measure import HERE, markdown, opened, run, served, step, tell_row
from peers import JAX, ORT, ORT_WEB, WEB, npm, pypi
from turns import alternate, compared, page_process, python_side, renderer_peak, sides

SIZES = ["256x256x256", "512x512x512", "1024x1024x1024", "384x1000x700", "333x1021x517"]


def sizes_of(chosen: argparse.Namespace, folder: str) -> list[tuple[int, ...]]:
    """The requested sizes. Writes an ONNX file of each into `folder`."""
    sizes = [tuple(map(int, text.split("x"))) for text in chosen.sizes.split(",")]
    for size in sizes:
        Path(folder, f"{'x'.join(map(str, size))}.onnx").write_bytes(onnx(*size))
    return sizes


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    for threads in map(int, chosen.threads.split(",")):
        command, env = python_side("python.py", threads)
        other, paths = python_side("python.py", threads, pypi(ORT))
        commands = {
            "rushlight": ([*command, "rushlight"], env),
            "NumPy": ([*command, "numpy"], env),
            "onnxruntime": ([*other, "onnxruntime"], paths),
        }
        with sides(commands) as started, TemporaryDirectory() as folder:
            rows = []
            for n, k, m in sizes_of(chosen, folder):
                for name, side in started.items():
                    side.ask("prepare", n=n, k=k, m=m, model=f"{folder}/{n}x{k}x{m}.onnx")
                    off, tolerance = side.ask("off", n=n, k=k, m=m), 1e-5 * k**0.5
                    if not off <= tolerance:
                        raise SystemExit(f"{name}, {n}x{k}x{m}: off by {off}, not {tolerance}")
                times = max(1, int(2e9 / (2 * n * k * m)))
                samples = alternate(
                    list(started),
                    lambda name, _, at=started, times=times: at[name].ask("multiply", times=times),  # type: ignore[misc]
                    chosen.rounds,
                )
                row = {
                    "size": f"{n}x{k}x{m}",
                    "threads": threads,
                    **compared(samples, 2e-9 * n * k * m),
                    "samples": samples,
                }
                rows.append(row)
                tell_row(cells(row))
            for row in rows:
                row["peak_mb"] = {name: side.peak_mb for name, side in started.items()}
            results += rows
            for side in started.values():
                versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **ORT}}


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """All libraries in one page, then each in a browser of its own, for its memory."""
    names = ["rushlight", "onnxruntime-web", "jax-js"]
    results: list[dict[str, Any]] = []
    peaks: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        sizes = sizes_of(chosen, folder)
        folders = {
            "rushlight": chosen.site / "rushlight",
            "web": HERE / "web",
            "node_modules": npm(WEB),
            "models": Path(folder),
        }
        with served(PAGE, folders) as address:
            with opened(address) as page:
                page.wait_for_function("window.bench")
                pid = page_process(page)
                with step(f"load {', '.join(names)}"):
                    versions = page.evaluate("(names) => bench.open(names, 'cpu')", names)
                for size in sizes:
                    row_of_size = measure_size(page, names, size, chosen.seconds, pid, 0.5)
                    speed, spent = (
                        row_of_size["gflops"],
                        row_of_size["times_best_peer_by_processor_time"],
                    )
                    row = {
                        **row_of_size,
                        "threads": 1,
                        "per_s": speed,
                        "times_by_processor": {"best": spent},
                        "times": {n: speed[names[0]] / speed[n] for n in names[1:]},
                    }
                    results.append(row)
                    tell_row(cells(row))
                version = page.context.browser.version
            for name in names:
                with step(f"{name}: memory"), opened(address) as page:
                    page.wait_for_function("window.bench")
                    page.evaluate("(names) => bench.open(names, 'cpu')", [name])
                    for size in sizes:
                        page.evaluate("([n, k, m]) => bench.prepare(n, k, m)", list(size))
                        page.evaluate("(name) => bench.sample(name, 1)", name)
                        page.evaluate("bench.free()")
                    peaks[name] = renderer_peak()
    for row in results:
        row["peak_mb"] = peaks
    return {"results": results, "versions": {**versions, **JAX, **ORT_WEB, "chromium": version}}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    by_processor = row["times_by_processor"]
    return [
        row["size"],
        row["threads"],
        *row["per_s"].values(),
        min(row["times"].values()),
        min(by_processor.values()) if by_processor else "",
        *row.get("peak_mb", {}).values(),
    ]


def table(result: dict[str, Any]) -> str:
    """GFLOP/s, and memory."""
    names = list(result["results"][0]["per_s"])
    head = [
        "n x k x m, GFLOP/s",
        "threads",
        *names,
        "times the best peer",
        "by processor time",
        *(f"{name}, peak MB" for name in names),
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--sizes": {"default": ",".join(SIZES), "help": "products, as NxKxM"},
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--rounds": {"type": int, "default": 9, "help": "samples of each, natively"},
        "--seconds": {"type": float, "default": 5.0, "help": "in the tab, time per size"},
    }
    run("matmul_cpu", __doc__, {"native": native, "tab": tab}, table, options)
