"""Ops called one by one on cpu beside PyTorch and NumPy: ten elements, and a million.

    python benchmarks/eager.py native             a Python process; 1 thread, then 2
    python benchmarks/eager.py tab [--site DIR]   headless Chromium: what a call costs there

A call's cost is processor time on ten elements. For a million elements the sides take turns, and
their results are compared first (1e-3 of the largest).
"""

from __future__ import annotations

import argparse
import platform
import sys
from importlib.metadata import version
from statistics import median
from typing import Any

import numpy as np
from measure import HERE, WEBGPU, markdown, opened, run, served
from peers import TORCH, pypi

ROUNDS = 5
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module">
import { pyodide } from "./web/tab.js";
window.measure = async (rounds) => {
  const py = await pyodide();
  py.FS.writeFile("/eager_work.py", await (await fetch("./eager_work.py")).text());
  py.globals.set("rounds", rounds);
  const text = await py.runPythonAsync(`
import json, sys
sys.path.insert(0, "/")
import eager_work
import rushlight as rl
json.dumps(eager_work.call_seconds(eager_work.small(rl), rounds))
`);
  return JSON.parse(text);
};
</script>"""


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process, with PyTorch in it."""
    sys.path.append(str(pypi(TORCH)))
    import eager_work as work
    import torch

    import rushlight as rl

    sides = {
        "rushlight": work.large(rl, rl.nn.functional, rl.from_numpy),
        "torch": work.large(torch, torch.nn.functional, torch.from_numpy),
        "numpy": work.numpys(),
    }
    _compare(sides["rushlight"], sides["torch"], work.DRAWN)
    found: dict[str, Any] = {"large": {}, "versions": {
        "python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
        "rushlight": version("rushlight"),
    }}  # fmt: skip
    for threads in (1, 2):
        torch.set_num_threads(threads)
        rl.set_num_threads(threads)
        if threads == 1:
            found["small"] = {
                "rushlight": work.call_seconds(work.small(rl), ROUNDS),
                "torch": work.call_seconds(work.small(torch), ROUNDS),
            }
        found["large"][str(threads)] = work.turn_seconds(sides, ROUNDS)
    return found


def _compare(ours: dict[str, Any], theirs: dict[str, Any], drawn: tuple[str, ...]) -> None:
    for name in ours:
        if name in drawn:
            continue
        got, expected = ours[name](), theirs[name]()
        if isinstance(got, tuple):
            got, expected = got[0], expected[0]
        a, b = (np.asarray(x.double().numpy()) for x in (got, expected))
        if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=1e-3 * max(np.abs(b).max(), 1)):
            raise SystemExit(f"{name}: the results differ")


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page of a headless Chromium."""
    folders = {"rushlight": chosen.site / "rushlight", "web": HERE / "web",
               "eager_work.py": HERE / "eager_work.py"}  # fmt: skip
    with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
        page.wait_for_function("'measure' in window")
        small = page.evaluate("(rounds) => measure(rounds)", ROUNDS)
        chromium = page.context.browser.version
    return {"small": {"rushlight": small}, "versions": {"chromium": chromium}}


def table(found: dict[str, Any]) -> str:
    """Microseconds of a call; milliseconds of a million elements, and times the faster peer."""
    small, sides = found["small"], list(found["small"])
    rows = [[name, *(1e6 * median(small[side][name]) for side in sides)]
            for name in small["rushlight"]]  # fmt: skip
    text = markdown(["ten elements, microseconds", *sides], rows)
    if "large" not in found:
        return text
    head = ["a million elements, milliseconds"]
    for threads in found["large"]:
        head += [f"rushlight, {threads}", f"torch, {threads}", f"numpy, {threads}", "times best"]
    large: list[list[object]] = []
    for name in found["large"]["1"]["rushlight"]:
        row: list[object] = [name]
        for timed in found["large"].values():
            best = {side: 1e3 * median(ops[name]) for side, ops in timed.items() if name in ops}
            peer = min(v for side, v in best.items() if side != "rushlight")
            row += [best["rushlight"], best["torch"], best.get("numpy", ""),
                    best["rushlight"] / peer]  # fmt: skip
        large.append(row)
    return f"{text}\n\n{markdown(head, large)}"


if __name__ == "__main__":
    run("eager", __doc__, {"native": native, "tab": tab}, table)
