"""SmolLM2-135M-Instruct (GGUF, Q4_1) in the tab: memory above the idle page, with 512 tokens.

    python benchmarks/tab_memory.py [--site DIR]

The idle page has Python and Rushlight started and no model. Then the model is loaded, and answers
so that 512 tokens are in its cache. Memory is what the page's process and, on `webgpu`, the
browser's GPU process hold above the idle page (VmRSS), as a multiple of the file; also the peak
(VmHWM, set back before loading), and the growth of the wasm heap. SwiftShader is a GPU in software:
what it compiles is in its process, too.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from measure import (
    HERE,
    WEBGPU,
    browser_processes,
    high_water,
    markdown,
    opened,
    run,
    served,
    step,
)
from smollm2 import NAME, goldens
from turns import page_process

PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/memory.js"></script>"""
CONTEXT, NEW = 512, 16


def resident(pid: int) -> float:
    """Resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """A browser of its own for each device."""
    from rushlight.models.hub.names import resolve

    (file,) = resolve(NAME).glob("*.gguf")
    long = max((v.tolist() for n, v in goldens().items() if n.endswith(".ids")), key=len)
    ids = (long * CONTEXT)[: CONTEXT - NEW]
    folders = {"": chosen.site, "web": HERE / "web", "model.gguf": file}
    rows = []
    for device in ("cpu", "webgpu"):
        with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
            page.wait_for_function("window.bench")
            heap = [page.evaluate("bench.start()")]
            page.wait_for_timeout(3000)
            pids = [page_process(page), *browser_processes(os.getpid(), "gpu-process")]
            before = [resident(pid) for pid in pids]
            for pid in pids:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            rss = {}
            for stage, call in {
                "loaded": f"bench.load('{device}', {CONTEXT})",
                "answered": f"bench.answer({ids}, {NEW})",
            }.items():
                with step(f"{device}: {stage}"):
                    heap.append(page.evaluate(call))
                page.wait_for_timeout(3000)
                now = [resident(pid) for pid in pids]
                rss[stage] = [a - b for a, b in zip(now, before, strict=True)]
            peak = [high_water(pid) - b for pid, b in zip(pids, before, strict=True)]
            rows.append(
                {
                    "device": device,
                    "file_mb": file.stat().st_size / 2**20,
                    "added": rss,
                    "peak": peak,
                    "heap": [n / 2**20 for n in heap],
                }
            )
            version = page.context.browser.version
    return {"results": rows, "versions": {"chromium": version}}


def table(result: dict[str, Any]) -> str:
    """Megabytes above the idle page, and multiples of the file."""
    head = [
        "device",
        "model loaded, MB",
        f"{CONTEXT} tokens, MB",
        "times the file",
        "peak, MB",
        "wasm heap, MB",
    ]
    rows = []
    for row in result["results"]:
        loaded, answered = (sum(row["added"][step]) for step in ("loaded", "answered"))
        heap = row["heap"][-1] - row["heap"][0]
        ratio = answered / row["file_mb"]
        rows.append([row["device"], loaded, answered, ratio, sum(row["peak"]), heap])
    return markdown(head, rows)


if __name__ == "__main__":
    run("tab_memory", __doc__, {"tab": tab}, table)
