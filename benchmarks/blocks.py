"""Products of one row with a weight of each quantized type, as a share of the copy bandwidth.

    python benchmarks/blocks.py native [--threads 2]    a Python process; up to so many threads
    python benchmarks/blocks.py tab                     headless Chromium: the module of the tab

A row of 2048 with 2048 x 2048 and one of 1536 with 576 x 1536. Types take turns with each other and
with a copy of 32 MB, each over 8 MB of weights, so that weights come from memory. Every product is
compared with one in float64 first (3e-5 of the sum of its terms' sizes: `fast` rounds activations).
"""

from __future__ import annotations

import argparse
import platform
from statistics import median
from typing import Any

from measure import HERE, markdown, opened, run, served, step
from ops import PAGE

ROUNDS = 7


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process: on one thread processor time, which other work hardly changes."""
    from block_work import measure

    with step(f"{ROUNDS} rounds of all types"):
        result = measure(ROUNDS, chosen.threads)
    result["versions"]["python"] = platform.python_version()
    return result


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page of a headless Chromium."""
    folders = {
        "rushlight": chosen.site / "rushlight",
        "web": HERE / "web",
        "work.py": HERE / "block_work.py",
    }
    with served(PAGE, folders) as address, opened(address) as page:
        page.wait_for_function("'measure' in window")
        with step(f"{ROUNDS} rounds of all types"):
            result: dict[str, Any] = page.evaluate(f"() => measure({ROUNDS}, 1)")
        result["versions"]["chromium"] = page.context.browser.version
    return result


def table(found: dict[str, Any]) -> str:
    """Microseconds, and the share of the bytes per second of one thread's copy; median rounds."""
    columns = list(found["rows"])
    rows: list[list[object]] = []
    for name in found["nbytes"][columns[0]]:
        row: list[object] = [name]
        for column in columns:
            seconds = median(found["rows"][column][name])
            rate = found["nbytes"][column][name] / seconds
            copied = found["copied"] / median(found["rows"][columns[0]]["copy"])
            row += [f"{seconds * 1e6:.0f}", f"{100 * rate / copied:.0f} %"]
        rows.append(row)
    head = [found["versions"]["kernels"]]
    for column in columns:
        head += [f"{column}: microseconds", "of a copy"]
    return markdown(head, rows)


if __name__ == "__main__":
    options = {"--threads": {"type": int, "default": 1, "help": "natively, the most threads"}}
    run("blocks", __doc__, {"native": native, "tab": tab}, table, options)
