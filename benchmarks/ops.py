"""The ops of decoding and of reading a prompt, one by one: time, GFLOP/s and GB/s.

    python benchmarks/ops.py native [--device webgpu]            a Python process
    python benchmarks/ops.py tab [--device webgpu] [--site DIR]  headless Chromium on SwiftShader

The quantized products are compared with sums in float64 first (1e-4 of the largest). The additions
show the cost of an op as such. There are no peers: the figures show which kernels are slow.
"""

from __future__ import annotations

import argparse
import platform
from statistics import median
from typing import Any

from measure import HERE, WEBGPU, markdown, opened, run, served, step

ROUNDS = 7
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module">
import { pyodide } from "./web/tab.js";
window.measure = async (device, rounds) => {
  const py = await pyodide();
  py.FS.writeFile("/work.py", await (await fetch("./work.py")).text());
  py.globals.set("arguments", py.toPy([device, rounds]));
  const text = await py.runPythonAsync(`
import json, sys
sys.path.insert(0, "/")
import work
json.dumps(work.measure(*arguments))
`);
  return JSON.parse(text);
};
</script>"""


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process."""
    from work import measure

    with step(f"{ROUNDS + 1} rounds of all ops"):
        result = measure(chosen.device, ROUNDS)
    result["versions"]["python"] = platform.python_version()
    return result


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page of a headless Chromium."""
    folders = {
        "rushlight": chosen.site / "rushlight",
        "web": HERE / "web",
        "work.py": HERE / "work.py",
    }
    with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
        page.wait_for_function("'measure' in window")
        with step(f"{ROUNDS + 1} rounds of all ops"):
            result: dict[str, Any] = page.evaluate(
                "([device, rounds]) => measure(device, rounds)", [chosen.device, ROUNDS]
            )
        result["versions"]["chromium"] = page.context.browser.version
    return result


def table(found: dict[str, Any]) -> str:
    """Microseconds, GFLOP/s and GB/s of each op, from the median round."""
    rows: list[list[object]] = []
    for name, times in found["milliseconds"].items():
        ms = median(times)
        speeds = [found["flops"][name] / ms / 1e6, found["nbytes"][name] / ms / 1e6]
        rows.append([name, f"{ms * 1000:.0f}", *speeds])
    return markdown([found["versions"]["adapter"], "microseconds", "GFLOP/s", "GB/s"], rows)


if __name__ == "__main__":
    options = {"--device": {"default": "webgpu", "help": "webgpu or cpu"}}
    run("ops", __doc__, {"native": native, "tab": tab}, table, options)
