"""all-MiniLM-L6-v2 on WebGPU in one tab, beside onnxruntime-web's WebGPU provider: sentences/s.

    python benchmarks/minilm_webgpu.py [--site DIR] [--rounds 5]

Both run the same weights (the peer's graph: minilm_onnx.py) on SwiftShader, WebGPU on the CPU, and
take turns, warm. Rushlight tokenizes; the peer gets token ids. Both return their vectors to the
page. Vectors are compared with each other, to 1e-4. "By processor time" compares the processor time
of SwiftShader's process. Nothing was tuned on the 16 texts of other languages and lengths.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from measure import HERE, WEBGPU, browser_processes, markdown, opened, processor_ms, run, served
from minilm import NAME, SENTENCES, texts
from minilm_cpu import LENGTH, PAGE, compare
from minilm_onnx import minilm_onnx
from peers import ORT_WEB, npm
from turns import alternate, compared

NAMES = ["rushlight", "onnxruntime-web"]
ENCODE = "([name, given]) => bench.encode(name, given)"


def sets(tokenizer: Any) -> dict[str, tuple[list[str], list[list[int]]]]:
    """The 64 sentences, and golden texts of at most 40 tokens; each with its token ids."""
    short = [t for t in texts() if len(tokenizer.encode(t).ids) <= 40][:16]
    given = {"64 sentences": SENTENCES, f"{len(short)} texts up to 40 tokens": short}
    return {
        what: (some, [e.ids for e in tokenizer.encode_batch(some, max_length=LENGTH)])
        for what, some in given.items()
    }


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, each on a device of its own."""
    from rushlight.core.io.hub.names import resolve
    from rushlight.core.io.text.tokenizer import load_tokenizer

    folder = Path(resolve(NAME))
    given = sets(load_tokenizer((folder / "tokenizer.json").read_bytes()))
    folders = {"": chosen.site, "node_modules": npm(ORT_WEB), "web": HERE / "web",
               "minilm.onnx": minilm_onnx(folder)}  # fmt: skip
    results: list[dict[str, Any]] = []
    with served(PAGE, folders) as address, opened(address, WEBGPU) as page:
        page.wait_for_function("window.bench")
        info = page.evaluate("(names) => bench.open(names, 'webgpu')", NAMES)
        (gpu,) = browser_processes(os.getpid(), "gpu-process")

        def sample(name: str, what: str) -> dict[str, Any]:
            before = processor_ms(gpu)
            found: dict[str, Any] = page.evaluate(ENCODE, [name, given[what][name != NAMES[0]]])
            return {**found, "processor_s": (processor_ms(gpu) - before) / 1000}

        for what, (some, _) in given.items():
            worst = compare({name: sample(name, what)["vectors"] for name in NAMES}, what)
            samples = alternate(NAMES, lambda name, _, what=what: sample(name, what), chosen.rounds)  # type: ignore[misc]
            for taken in samples.values():
                for one in taken:
                    del one["vectors"]
            row = {"what": what, **compared(samples, len(some)), "samples": samples,
                   "largest_difference": worst}  # fmt: skip
            results.append(row)
            print(line(row), flush=True)
        version = page.context.browser.version
    return {"results": results, "versions": {**info, **ORT_WEB, "chromium": version}}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    return [row["what"], *row["per_s"].values(), *row["times"].values(),
            *row["times_by_processor"].values()]  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """A finished row as text."""
    return "  ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in cells(row))


def table(result: dict[str, Any]) -> str:
    """Sentences per second."""
    head = ["texts per second", *NAMES, "times the peer", "by processor time"]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options = {"--rounds": {"type": int, "default": 5, "help": "samples of each"}}
    run("minilm_webgpu", __doc__, {"tab": tab}, table, options)
