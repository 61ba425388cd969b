"""The host's time to replay a command list of 500 dispatches, and that of a small read.

    python benchmarks/replay.py native            a Python process
    python benchmarks/replay.py tab [--site DIR]  headless Chromium on SwiftShader

The list adds 1 to 16 numbers 500 times, one dispatch each. The benchmark times a call of the
captured function until it returns, and the part within the port (encoding and submitting; in the
tab, JavaScript). The device's work is waited for between calls and does not count. "computed" is
the processor time of the calling thread, which other work hardly changes (natively only). Reads are
of 4 to 64 bytes on the device. In the tab they are also awaited, and compared with plain JavaScript
in the same page: in a loop of its own, and while Python is suspended for it, which is the lower
bound of any read by Python.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from measure import HERE, WEBGPU, markdown, opened, run, served
from turns import alternate

COUNT = 4  # calls in a sample
READS = 20
SIZES = [4, 16, 64]  # as in replaying.py
PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/replay.js"></script>"""


def measure(
    rounds: int,
    replays: Callable[[int], dict[str, float]],
    reads: Callable[[str, int, int], float],
    readers: list[str],
) -> dict[str, Any]:
    """Samples, and their medians."""
    replays(COUNT)
    samples = [replays(COUNT) for _ in range(rounds)]
    result: dict[str, Any] = {
        "microseconds_a_dispatch": {key: median(s[key] for s in samples) for key in samples[0]},
        "replays": samples,
        "reads": {},
    }
    for nbytes in SIZES:
        result["reads"][str(nbytes)] = alternate(
            readers,
            lambda name, _, n=nbytes: reads(name, n, READS),  # type: ignore[misc]
            rounds,
            settle=0,
        )
    return result


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In this process."""
    import replaying

    replaying.check()
    result = measure(
        chosen.rounds, replaying.replays, lambda _, *given: replaying.reads(*given), ["rushlight"]
    )
    info = replaying.device.info
    return {
        **result,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "adapter": info["device"],
        },
    }


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page, cross-origin isolated for a precise clock."""
    folders = {
        "rushlight": chosen.site / "rushlight",
        "web": HERE / "web",
        "replaying.py": HERE / "replaying.py",
    }
    page_ = served(PAGE, folders, isolated=True)
    with page_ as address, opened(address, WEBGPU) as page:
        page.wait_for_function("window.bench")
        numpy = page.evaluate("(sizes) => bench.open(sizes)", SIZES)
        result = measure(
            chosen.rounds,
            lambda count: page.evaluate("(count) => bench.replays(count)", count),
            lambda *given: page.evaluate("(given) => bench.reads(...given)", given),
            ["rushlight", "awaited", "plain", "stopped"],
        )
        version = page.context.browser.version
    return {**result, "versions": {"chromium": version, "numpy": numpy, "adapter": "SwiftShader"}}


def table(found: dict[str, Any]) -> str:
    """Microseconds a dispatch; milliseconds a read."""
    each = found["microseconds_a_dispatch"]
    head = ["500 dispatches, microseconds each", "the whole call", "within the port"]
    rows: list[list[object]] = [["passed", each["call"], each["port"]]]
    if each["call_own"] and "python" in found["versions"]:
        rows.append(["computed by the thread", each["call_own"], each["port_own"]])
    parts = [markdown(head, rows)]
    tab = "plain" in found["reads"][str(SIZES[0])]
    more = [
        "plain JavaScript",
        "rushlight, times it",
        "Python stopped for plain JavaScript",
        "rushlight, awaited",
    ]
    head = ["read, milliseconds", "rushlight", *(more if tab else [])]
    rows = []
    for nbytes, samples in found["reads"].items():
        ms = {name: median(taken) for name, taken in samples.items()}
        row: list[object] = [f"{nbytes} bytes", ms["rushlight"]]
        if tab:
            row += [ms["plain"], ms["rushlight"] / ms["plain"], ms["stopped"], ms["awaited"]]
        rows.append(row)
    return "\n\n".join([*parts, markdown(head, rows)])


if __name__ == "__main__":
    options = {"--rounds": {"type": int, "default": 31, "help": "samples of each"}}
    run("replay", __doc__, {"native": native, "tab": tab}, table, options)
