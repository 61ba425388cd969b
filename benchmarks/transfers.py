"""64 MB to a WebGPU device and back, beside the shortest equivalent code without Rushlight.

    python benchmarks/transfers.py native            beside wgpu-py alone
    python benchmarks/transfers.py tab [--site DIR]  beside plain JavaScript in the page

A write ends when the device has the data, a read when the program's memory has it. The bytes read
must equal those written. Both codes take turns, warm.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from measure import HERE, WEBGPU, markdown, opened, run, served

NBYTES = 64 << 20
ROUNDS = 9
JOBS = ["write", "plain_write", "read", "plain_read"]


def result(samples: dict[str, list[float]], versions: dict[str, str]) -> dict[str, Any]:
    """Medians as GB/s and as multiples of the plain code's time, with the raw milliseconds."""
    middle = {job: median(times) for job, times in samples.items()}
    return {
        "nbytes": NBYTES,
        "gb_per_s": {job: NBYTES / ms / 1e6 for job, ms in middle.items()},
        "times_plain": {job: middle[job] / middle[f"plain_{job}"] for job in ("write", "read")},
        "milliseconds": samples,
        "versions": versions,
    }


def native(_: argparse.Namespace) -> dict[str, Any]:
    """In this process, on the first adapter."""
    import wgpu

    import rushlight as rl

    device = rl.device("webgpu")
    port: Any = device.backend.port  # type: ignore[attr-defined]
    values = np.random.default_rng(0).random(NBYTES // 4, dtype=np.float32)
    gpu = port.device
    use = wgpu.BufferUsage
    target = gpu.create_buffer(size=NBYTES, usage=use.STORAGE | use.COPY_DST | use.COPY_SRC)
    staging = gpu.create_buffer(size=NBYTES, usage=use.MAP_READ | use.COPY_DST)
    tensor = rl.from_numpy(values).to("webgpu")

    def fetch(nbytes: int) -> np.ndarray:
        encoder = gpu.create_command_encoder()
        encoder.copy_buffer_to_buffer(target, 0, staging, 0, nbytes)
        gpu.queue.submit([encoder.finish()])
        staging.map_sync(wgpu.MapMode.READ, 0, nbytes)
        values_read = np.frombuffer(staging.read_mapped(0, nbytes), np.float32)
        staging.unmap()
        return values_read

    def write() -> None:
        nonlocal tensor
        tensor = rl.from_numpy(values).to("webgpu")
        device.synchronize()

    def plain_write() -> None:
        gpu.queue.write_buffer(target, 0, values)
        fetch(4)  # wgpu-py has no other way to wait for a queue

    jobs: dict[str, Callable[[], Any]] = {
        "write": write,
        "plain_write": plain_write,
        "read": lambda: tensor.numpy(),
        "plain_read": lambda: fetch(NBYTES),
    }
    samples: dict[str, list[float]] = {job: [] for job in JOBS}
    for turn in range(ROUNDS + 2):
        for job in JOBS:
            began = time.perf_counter()
            jobs[job]()
            if turn > 1:
                samples[job].append((time.perf_counter() - began) * 1000)
    for returned in (tensor.numpy(), fetch(NBYTES)):
        if not np.array_equal(returned, values):
            raise SystemExit("other values came back")
    info = device.info
    versions = {
        "python": platform.python_version(),
        "wgpu": wgpu.__version__,
        "adapter": info["device"],
        "driver": info["description"],
    }
    return result(samples, versions)


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/transfers.js"></script>"""


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page of a headless Chromium on SwiftShader."""
    folders = {"rushlight": chosen.site / "rushlight", "web": HERE / "web"}
    with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
        page.wait_for_function("window.bench")
        versions = page.evaluate("(n) => bench.open(n)", NBYTES)
        samples: dict[str, list[float]] = {job: [] for job in JOBS}
        for turn in range(ROUNDS + 2):
            for job in JOBS:
                took = page.evaluate("(job) => bench.sample(job)", job)
                if turn > 1:
                    samples[job].append(took)
        if not page.evaluate("bench.check()"):
            raise SystemExit("other values came back")
        version = page.context.browser.version
    return result(samples, {**versions, "chromium": version})


def table(found: dict[str, Any]) -> str:
    """GB/s, and the time as a multiple of the plain code's."""
    speed, times = found["gb_per_s"], found["times_plain"]
    rows = [[f"{job}, 64 MB", speed[job], speed[f"plain_{job}"], times[job]] for job in times]
    return markdown(["", "rushlight, GB/s", "plain, GB/s", "times the plain code's time"], rows)


if __name__ == "__main__":
    run("transfers", __doc__, {"native": native, "tab": tab}, table)
