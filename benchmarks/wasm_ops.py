"""Twenty ops on a million elements in WebAssembly: Rushlight beside jax-js and tfjs, one thread.

    python benchmarks/wasm_ops.py [--site DIR]

All share a page of a headless Chromium and take turns. jax-js runs under `jit`; tfjs has images
with their channels last, as its documentation asks. Results are compared first, to 1e-4 of the
largest element.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

from measure import HERE, markdown, opened, run, served, step, tell
from peers import JAX, TFJS_WASM, WEB, npm
from turns import alternate

PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/wasm_ops.js"></script>"""
NAMES = ["rushlight", "jax-js", "tfjs"]
OPS = ["add", "mul", "exp", "tanh", "sigmoid", "clamp", "a > b", "where", "sum", "sum, dim 0",
       "sum, dim 1", "max, dim 1", "argmax, dim 1", "cumsum, dim 1", "softmax", "transposed copy",
       "index_select", "max_pool2d", "conv2d", "depthwise conv2d"]  # fmt: skip


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a call of each op and library, one sample a round."""
    folders = {
        "rushlight": chosen.site / "rushlight",
        "web": HERE / "web",
        "node_modules": npm(WEB),
    }
    results = {}
    with served(PAGE, folders) as address, opened(address) as page:
        page.wait_for_function("window.bench")
        with step(f"load {', '.join(NAMES)}"):
            versions = page.evaluate("(names) => bench.open(names)", NAMES)
        for op in OPS:
            for name, off in page.evaluate("(op) => bench.apart(op)", op).items():
                if not off <= 1e-4:
                    raise SystemExit(f"{op}: {name} is off by {off} of the largest element")
            results[op] = alternate(
                NAMES,
                lambda name, _, op=op: page.evaluate(  # type: ignore[misc]
                    "(given) => bench.sample(...given)", [name, op, 0.1]
                ),
                chosen.rounds,
                settle=0,
            )
            tell(f"{op}: {len(results)} of {len(OPS)}")
        version = page.context.browser.version
    return {"results": results, "versions": {**versions, **JAX, **TFJS_WASM, "chromium": version}}


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a call, and times the faster peer's speed."""
    rows: list[list[object]] = []
    for op, samples in result["results"].items():
        ms = {name: 1e3 * median(seconds) for name, seconds in samples.items()}
        rows.append([op, *ms.values(), min(ms[name] for name in NAMES[1:]) / ms[NAMES[0]]])
    return markdown(["a million elements, ms", *NAMES, "times the faster peer's speed"], rows)


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--rounds": {"type": int, "default": 5, "help": "samples of each"}
    }
    run("wasm_ops", __doc__, {"tab": tab}, table, options)
