"""all-MiniLM-L6-v2 on WebGPU in one tab, beside onnxruntime-web's WebGPU provider: sentences/s.

    python benchmarks/minilm_webgpu.py [--site DIR] [--rounds 1]

Both run the same weights (the peer's graph: minilm_onnx.py) on SwiftShader, WebGPU on the CPU, and
take turns. The peer takes most of a minute for a sample, so that it has one, after a warm one of a
few of the texts. Rushlight tokenizes; the peer gets token ids. Both return their vectors to the
page. Vectors are compared with each other, to 1e-4. "By processor time" compares the processor time
of SwiftShader's process. Nothing was tuned on the 16 texts of other languages and lengths.
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
    markdown,
    opened,
    processor_ms,
    run,
    served,
    tell_row,
)
from minilm import NAME, SENTENCES, texts
from minilm_cpu import LENGTH, PAGE, SAMPLE, VALUES, compare, open_page
from minilm_onnx import minilm_onnx
from peers import ORT_WEB, WEB, npm
from turns import alternate, compared

NAMES = ["rushlight", "onnxruntime-web"]
WARM = 4  # texts


def sets(tokenizer: Any) -> dict[str, tuple[list[str], list[list[int]]]]:
    """The 64 sentences, and golden texts of at most 40 tokens; each with its token ids."""
    short = [t for t in texts() if len(tokenizer.encode(t).ids) <= 40][:16]
    named = {"64 sentences": SENTENCES, f"{len(short)} texts up to 40 tokens": short}
    return {
        what: (some, [e.ids for e in tokenizer.encode_batch(some, max_length=LENGTH)])
        for what, some in named.items()
    }


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, each on a device of its own."""
    from rushlight.core.io.text.tokenizer import load_tokenizer
    from rushlight.models.hub.names import resolve

    folder = Path(resolve(NAME))
    by_name = sets(load_tokenizer((folder / "tokenizer.json").read_bytes()))
    folders = {
        "": chosen.site,
        "node_modules": npm(WEB),
        "web": HERE / "web",
        "minilm.onnx": minilm_onnx(folder),
    }
    results: list[dict[str, Any]] = []
    with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
        info = open_page(page, NAMES, "webgpu")
        (gpu,) = browser_processes(os.getpid(), "gpu-process")

        def sample(name: str, what: str, turn: int = 0) -> dict[str, Any]:
            peer = name != NAMES[0]
            rows = by_name[what][peer]
            before = processor_ms(gpu)
            few = rows[:WARM] if peer and turn < 0 else rows
            result: dict[str, Any] = page.evaluate(SAMPLE, [name, few])
            return {**result, "processor_s": (processor_ms(gpu) - before) / 1000}

        for what, (some, _) in by_name.items():
            samples = alternate(
                NAMES,
                lambda name, turn, what=what: sample(name, what, turn),  # type: ignore[misc]
                chosen.rounds,
            )
            worst = compare({name: page.evaluate(VALUES, name) for name in NAMES}, what)
            row = {
                "what": what,
                **compared(samples, len(some)),
                "samples": samples,
                "largest_difference": worst,
            }
            results.append(row)
            tell_row(cells(row))
        version = page.context.browser.version
    return {"results": results, "versions": {**info, **ORT_WEB, "chromium": version}}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    return [
        row["what"],
        *row["per_s"].values(),
        *row["times"].values(),
        *row["times_by_processor"].values(),
    ]


def table(result: dict[str, Any]) -> str:
    """Sentences per second."""
    head = ["texts per second", *NAMES, "times the peer", "by processor time"]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options = {"--rounds": {"type": int, "default": 1, "help": "samples of each"}}
    run("minilm_webgpu", __doc__, {"tab": tab}, table, options)
