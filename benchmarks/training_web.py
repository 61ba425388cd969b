"""Training steps of a CNN in the tab: Rushlight beside jax-js and tfjs, on one thread.

    python benchmarks/training_web.py [--site DIR]

A step is forward, backward and gradient descent on 64 pictures. Rushlight and jax-js compile it for
WebAssembly; tfjs lacks a kernel there and computes in JavaScript. All begin with the same weights;
after the same steps their losses must agree.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

from measure import HERE, markdown, opened, run, served, step
from peers import JAX, TFJS_WHOLE, WEB, npm
from turns import alternate

PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/training.js"></script>"""
NAMES = ["rushlight", "jax-js", "tfjs"]
STEPS = {"rushlight": 10, "jax-js": 1, "tfjs": 1}  # of a sample
CHECKED = 3  # steps whose losses are compared; they warm, too
MOST_APART = 1e-3


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step, one sample of each library a round."""
    folders = {
        "rushlight": chosen.site / "rushlight",
        "web": HERE / "web",
        "node_modules": npm(WEB),
    }
    with served(PAGE, folders) as address, opened(address) as page:
        page.wait_for_function("window.bench")
        with step(f"load {', '.join(NAMES)}"):
            versions = page.evaluate("(names) => bench.open(names)", NAMES)

        def steps(name: str, count: int) -> tuple[float, float]:
            seconds, loss = page.evaluate("(given) => bench.steps(...given)", [name, count])
            return float(seconds), float(loss)

        losses: dict[str, list[float]] = {}
        for name in NAMES:
            with step(f"{name}: {CHECKED} steps, to compare"):
                losses[name] = [steps(name, 1)[1] for _ in range(CHECKED)]
        first = losses[NAMES[0]]
        if not all(
            abs(a - b) < MOST_APART
            for each in losses.values()
            for a, b in zip(each, first, strict=True)
        ):
            raise SystemExit(f"the losses differ: {losses}")
        samples = alternate(NAMES, lambda name, _: steps(name, STEPS[name])[0], chosen.rounds, 0)
        version = page.context.browser.version
    return {
        "results": samples,
        "losses": losses,
        "versions": {**versions, **JAX, **TFJS_WHOLE, "chromium": version},
    }


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a step, and times the faster peer's speed."""
    ms = {name: 1e3 * median(seconds) for name, seconds in result["results"].items()}
    row = ["CNN, batch of 64", *ms.values(), min(ms[name] for name in NAMES[1:]) / ms[NAMES[0]]]
    return markdown(["a step in the tab, ms", *NAMES, "times the faster peer's speed"], [row])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--rounds": {"type": int, "default": 3, "help": "samples of each"}
    }
    run("training_web", __doc__, {"tab": tab}, table, options)
