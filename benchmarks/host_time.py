"""A captured step of SmolLM2-135M: the time of a token that is spent outside the kernels.

    python benchmarks/host_time.py native                   a Python process
    python benchmarks/host_time.py tab [--site DIR]         headless Chromium on a built site
    python benchmarks/host_time.py webgpu_native            the same on webgpu
    python benchmarks/host_time.py webgpu_tab [--site DIR]

A step computes one token of a greedy answer, with sampling and the token's text. On cpu the time
within kernels is that of the calls into their library; NumPy's work counts as outside. On webgpu
Python's own time excludes waiting for the device (see steps.py).
"""

from __future__ import annotations

import argparse
import asyncio
import platform
from importlib.metadata import version
from statistics import median, quantiles
from typing import Any

from measure import HERE, WEBGPU, markdown, opened, run, served, step
from smollm2 import NAME, goldens

PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module">
import { pyodide } from "./web/tab.js";
window.measure = async (...given) => {
  const py = await pyodide();
  py.FS.writeFile("/steps.py", await (await fetch("./steps.py")).text());
  py.globals.set("arguments", py.toPy(given));
  const text = await py.runPythonAsync(`
import json, sys
sys.path.insert(0, "/")
import rushlight as rl
import steps
name, device, *given = arguments
model = await rl.models.load_async(f"./models/{name}/", device=device)
gpu = device == "webgpu"
json.dumps(await steps.measure_webgpu(model, *given) if gpu else steps.measure(model, *given))
`);
  return JSON.parse(text);
};
</script>"""


def arguments(chosen: argparse.Namespace) -> list[Any]:
    """Mode, prompt, tokens of an answer, and number of answers."""
    long = max((v.tolist() for n, v in goldens().items() if n.endswith(".ids")), key=len)
    return [chosen.linear, long[:60], chosen.tokens, chosen.rounds]


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process."""
    from steps import measure

    import rushlight as rl

    model = rl.models.load(NAME)
    return summary(measure(model, *arguments(chosen)), {"python": platform.python_version()})


def webgpu_native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process, on the first adapter."""
    from steps import measure_webgpu

    import rushlight as rl

    model = rl.models.load(NAME, device="webgpu")
    times = asyncio.run(measure_webgpu(model, *arguments(chosen)))
    return summary(times, {"python": platform.python_version(), "wgpu": version("wgpu")})


def tab(chosen: argparse.Namespace, device: str = "cpu") -> dict[str, Any]:
    """In one page."""
    folders = {"": chosen.site, "web": HERE / "web", "steps.py": HERE / "steps.py"}
    flags = WEBGPU if device == "webgpu" else []
    with served(PAGE, folders) as address, opened(address, flags) as page:
        page.wait_for_function("'measure' in window")
        passed = [NAME, device, *arguments(chosen)]
        with step(f"load and {chosen.rounds + 1} answers on {device}"):
            times = page.evaluate("(given) => measure(...given)", passed)
        browser = page.context.browser.version
    return summary(times, {"chromium": browser})


def webgpu_tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page, on SwiftShader."""
    return tab(chosen, "webgpu")


def summary(found: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Medians, in front of the samples."""
    if "own_ms" in found:
        names = {"step": "step_ms", "waiting": "waiting_ms", "own": "own_ms"}
        return {
            "medians": {name: median(found[key]) for name, key in names.items()},
            **found,
            "versions": versions,
        }
    outside = [a - b for a, b in zip(found["step_ms"], found["within_kernels_ms"], strict=True)]
    medians = {
        "step": median(found["step_ms"]),
        "within": median(found["within_kernels_ms"]),
        "outside": median(outside),
        "calls": median(found["calls_of_the_library"]),
    }
    return {"medians": medians, **found, "versions": versions}


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a token."""
    medians = result["medians"]
    if "own" in medians:
        head = [
            result["adapter"],
            "ms of a token",
            "waiting for the device",
            "Python's own",
            "of the quickest quarter at most",
            "dispatches",
        ]
        row = [f"load {result['load_average']['before']:.1f}", medians["step"], medians["waiting"]]
        quarter = quantiles(result["own_ms"])[0]
        return markdown(head, [[*row, medians["own"], quarter, result["dispatches"][-1]]])
    head = [result["kernels"], "ms of a token", "within kernels", "outside", "calls"]
    row = [f"{result['linear']} mode, threads {result['threads']}"]
    values = [medians[key] for key in ("step", "within", "outside")]
    return markdown(head, [[*row, *values, f"{medians['calls']:.0f}"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--linear": {"default": "fast", "help": "the mode of linear layers"},
        "--tokens": {"type": int, "default": 24, "help": "tokens of an answer"},
        "--rounds": {"type": int, "default": 3, "help": "measured answers"},
    }
    places = {
        "native": native,
        "tab": tab,
        "webgpu_native": webgpu_native,
        "webgpu_tab": webgpu_tab,
    }
    run("host_time", __doc__, places, table, options)
