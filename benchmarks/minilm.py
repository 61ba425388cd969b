"""all-MiniLM-L6-v2: load time, sentences per second and peak memory, natively and in the tab.

    python benchmarks/minilm.py native            a Python process
    python benchmarks/minilm.py tab [--site DIR]  headless Chromium on a built site

Every figure is printed with its raw samples and written, with versions and machine, to
benchmarks/results/. Before anything is timed, the embeddings are compared with those of the
published implementation (the golden file of tests/parity).
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import HERE, high_water, markdown, opened, renderer_peaks, run, served, step

PARITY = HERE.parent / "tests" / "parity" / "data"
NAME = "all-minilm-l6-v2"
ROUNDS, VISITS = 5, 3
SENTENCES = [
    f"Sentence number {i}: the quick brown fox jumps over the lazy dog near the river bank."
    for i in range(64)
]


def check(vectors: Any) -> None:
    """Stop if the embeddings differ from those of the published implementation."""
    from rushlight.core.io.weights.safetensors import load_safetensors

    golden = load_safetensors(PARITY / "minilm.safetensors")["embeddings"].numpy()
    worst = float(np.abs(np.asarray(vectors, np.float32) - golden).max())
    if not worst <= 1e-5:
        raise SystemExit(f"embeddings differ from the reference by {worst}")


def texts() -> list[str]:
    """The texts of the golden file."""
    golden_texts: list[str] = json.loads((PARITY / "texts.json").read_text(encoding="utf-8"))
    return golden_texts


def mixed(count: int = 1000) -> list[str]:
    """Sentences of 3 to 180 words, most of them short, by a seed."""
    draws = np.random.default_rng(7)
    words = "".join(SENTENCES[:1]).lower().split() + sorted({w for t in texts() for w in t.split()})
    counts = np.clip(draws.lognormal(2.9, 0.8, count), 3, 180).astype(int)
    return [" ".join(draws.choice(words, n)) for n in counts]


def native() -> dict[str, Any]:
    """Load and encode in this fresh process."""
    began = time.perf_counter()
    import rushlight as rl

    imported = time.perf_counter() - began
    from rushlight.models.hub.names import resolve

    folder = resolve(NAME)
    before = high_water()
    began = time.perf_counter()
    model = rl.models.load(folder)
    loaded = time.perf_counter() - began
    after_load = high_water()
    check(model.encode(texts()).numpy())
    model.encode(SENTENCES)
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        model.encode(SENTENCES)
        seconds.append(time.perf_counter() - began)
    return {
        "import_s": imported,
        "load_s": loaded,
        "load_peak_mb": after_load - before,
        "encode_peak_mb": high_water() - before,
        "encode_s": seconds,
        "sentences_per_s": len(SENTENCES) / float(np.median(seconds)),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module">
const opened = performance.timeOrigin;
const now = () => (performance.timeOrigin + performance.now() - opened) / 1000;
import { createRushlight } from "./rushlight/client.js";
window.run = (async () => {
  const rl = await createRushlight();
  const started = now();
  const model = await rl.load("./models/NAME/");
  const loaded = now();
  await model.encode(["a"]);
  const first = now();
  return { rl, model, started, loaded, first };
})();
window.times = async () => {
  const { started, loaded, first } = await window.run;
  return { started, loaded, first };
};
window.encode = async (texts) => {
  const { model } = await window.run;
  const began = performance.now();
  const vectors = await model.encode(texts);
  return { seconds: (performance.now() - began) / 1000, vectors: vectors.map((v) => [...v]) };
};
window.info = async () => (await window.run).rl.info();
</script>""".replace("NAME", NAME)


def tab(site: Path) -> dict[str, Any]:
    """Open the page in a new browser, and again with everything cached."""
    with served(PAGE, {"": site}) as address, opened(address) as page:
        with step("the first visit"):
            cold = page.evaluate("times()")
        cached = []
        for number in range(1, VISITS + 1):
            with step(f"visit {number} of {VISITS} with the weights kept"):
                page.reload()
                cached.append(page.evaluate("times()"))
        check(page.evaluate("(t) => encode(t)", texts())["vectors"])
        seconds = [page.evaluate("(t) => encode(t)", SENTENCES)["seconds"] for _ in range(ROUNDS)]
        info = page.evaluate("info()")
        peaks = renderer_peaks(os.getpid())
        version = page.context.browser.version
    return {
        "cold": cold,
        "cached": cached,
        "encode_s": seconds,
        "sentences_per_s": len(SENTENCES) / float(np.median(seconds)),
        "heap_mb": info["heapBytes"] / 2**20,
        "renderer_peak_mb": max(peaks.values()),
        "versions": {**info, "chromium": version},
    }


def table(result: dict[str, Any]) -> str:
    """The figures of one place."""
    rows: list[list[object]] = [["64 sentences, per second", result["sentences_per_s"]]]
    if "cold" in result:
        cached = float(np.median([visit["first"] for visit in result["cached"]]))
        rows += [
            ["page opened to first result, first visit, s", result["cold"]["first"]],
            ["page opened to first result, weights kept, s", cached],
            ["wasm heap, MB", result["heap_mb"]],
            ["the page's process, peak MB", result["renderer_peak_mb"]],
        ]
    else:
        rows += [
            ["load, s", result["load_s"]],
            ["peak memory added by loading, MB", result["load_peak_mb"]],
            ["peak memory added by loading and encoding, MB", result["encode_peak_mb"]],
        ]
    return markdown(["", "rushlight"], rows)


if __name__ == "__main__":
    places = {"native": lambda _: native(), "tab": lambda chosen: tab(chosen.site)}
    run("minilm", __doc__, places, table)
