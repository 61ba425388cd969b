"""A captured step of SmolLM2-135M: the time of a token that is spent outside the C kernels.

    python benchmarks/host_time.py native            a Python process
    python benchmarks/host_time.py tab [--site DIR]  headless Chromium on a built site

A step is what one more token of a greedy answer takes, with sampling and the token's text; what
is within kernels is the time of the calls into their library (steps.py). NumPy's work counts as
time outside.
"""

from __future__ import annotations

import argparse
import platform
from statistics import median
from typing import Any

from measure import HERE, markdown, opened, run, served
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
name, *given = arguments
model = await rl.models.load_async(f"./models/{name}/")
json.dumps(steps.measure(model, *given))
`);
  return JSON.parse(text);
};
</script>"""


def arguments(chosen: argparse.Namespace) -> list[Any]:
    """Mode, prompt, tokens of an answer, and answers."""
    long = max((v.tolist() for n, v in goldens().items() if n.endswith(".ids")), key=len)
    return [chosen.linear, long[:60], chosen.tokens, chosen.rounds]


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process."""
    from steps import measure

    import rushlight as rl

    model = rl.models.load(NAME)
    return summary(measure(model, *arguments(chosen)), {"python": platform.python_version()})


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page."""
    folders = {"": chosen.site, "web": HERE / "web", "steps.py": HERE / "steps.py"}
    with served(PAGE, folders) as address, opened(address) as page:
        page.wait_for_function("'measure' in window")
        given = [NAME, *arguments(chosen)]
        found = page.evaluate("(given) => measure(...given)", given)
        version = page.context.browser.version
    return summary(found, {"chromium": version})


def summary(found: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Medians, in front of the samples."""
    outside = [a - b for a, b in zip(found["step_ms"], found["within_kernels_ms"], strict=True)]
    medians = {"step": median(found["step_ms"]), "within": median(found["within_kernels_ms"]),
               "outside": median(outside),
               "calls": median(found["calls_of_the_library"])}  # fmt: skip
    return {"medians": medians, **found, "versions": versions}


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a token."""
    found = result["medians"]
    head = [result["kernels"], "ms of a token", "within kernels", "outside", "calls"]
    row = [f"{result['linear']} mode, threads {result['threads']}"]
    values = [found[key] for key in ("step", "within", "outside")]
    return markdown(head, [[*row, *values, f"{found['calls']:.0f}"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--linear": {"default": "fast", "help": "the mode of linear layers"},
        "--tokens": {"type": int, "default": 24, "help": "of an answer"},
        "--rounds": {"type": int, "default": 3, "help": "answers that are measured"},
    }
    run("host_time", __doc__, {"native": native, "tab": tab}, table, options)
