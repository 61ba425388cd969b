"""all-MiniLM-L6-v2 on the CPU beside onnxruntime with the same weights: sentences per second.

    python benchmarks/minilm_cpu.py native [--threads 1,2]  beside onnxruntime, as processes
    python benchmarks/minilm_cpu.py tab [--site DIR]        beside onnxruntime-web on one thread

There are 64 short sentences, 40 texts of very different lengths that were not used for tuning, and
1,000 sentences of mixed lengths, of which there are fewer samples: natively two, and in the tab one
by each in a browser of its own, as they take a minute there. The peer's graph has the form that its
optimizer for transformers makes (minilm_onnx.py). Natively both tokenize; in the tab the peer gets
token ids. Vectors are compared with each other, to 1e-4, and then timed. Memory is the peak of each
process, in the tab that of a page in a browser of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import HERE, markdown, opened, run, served, step, tell_row
from minilm import NAME, SENTENCES, mixed, texts
from minilm_onnx import minilm_onnx
from peers import ORT, ORT_WEB, WEB, npm, pypi
from turns import Processor, alternate, compared, python_side, renderer_peak, sides

TOLERANCE = 1e-4
LENGTH = 256  # the checkpoint's limit in tokens
MANY = "1,000 sentences"
SETS = {"64 sentences": SENTENCES, "40 texts up to 256 tokens": texts(), MANY: mixed()}


def compare(found: dict[str, Any], what: str) -> float:
    """The largest difference of the vectors; stops if it is too large."""
    first, *others = (np.asarray(v, np.float32) for v in found.values())
    worst = max(float(np.abs(first - other).max()) for other in others)
    if not worst <= TOLERANCE:
        raise SystemExit(f"{what}: vectors differ by {worst}, {TOLERANCE} is allowed")
    return worst


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    from rushlight.models.hub.names import resolve

    folder, model = str(resolve(NAME)), str(minilm_onnx(Path(resolve(NAME))))
    rounds = chosen.rounds or 5
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    for threads in map(int, chosen.threads.split(",")):
        command, env = python_side("python.py", threads)
        other, paths = python_side("python.py", threads, pypi(ORT))
        commands = {
            "rushlight": ([*command, "rushlight"], env),
            "onnxruntime": ([*other, "onnxruntime"], paths),
        }
        with sides(commands) as started, TemporaryDirectory() as place:
            loads = {
                "rushlight": started["rushlight"].ask("load", folder=folder),
                "onnxruntime": started["onnxruntime"].ask(
                    "load", folder=folder, model=model, length=LENGTH
                ),
            }
            for what, sentences in SETS.items():
                vectors, first = {}, {}
                for name, side in started.items():
                    out = f"{place}/{name}.npy"
                    first[name] = side.ask("encode", texts=sentences, out=out)
                    vectors[name] = np.load(out)
                worst = compare(vectors, what)
                many = what == MANY
                samples = alternate(
                    list(started),
                    lambda name, _, at=started, given=sentences: at[name].ask(  # type: ignore[misc]
                        "encode", texts=given
                    ),
                    1 if many else rounds,
                    warm=0,
                )
                if many:  # the texts before have warmed both
                    samples = {name: [first[name], *taken] for name, taken in samples.items()}
                row = {
                    "what": what,
                    "threads": threads,
                    **compared(samples, len(sentences)),
                    "samples": samples,
                    "largest_difference": worst,
                }
                row["peak_mb"] = {name: side.peak_mb for name, side in started.items()}
                row["added_mb"] = {
                    n: side.peak_mb - loads[n]["before_mb"] for n, side in started.items()
                }
                results.append(row)
                tell_row(cells(row))
            for side in started.values():
                versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **ORT}}


PAGE = """<!doctype html><meta charset="utf-8"><title>benchmark</title>
<link rel="icon" href="data:,">
<script type="module" src="./web/minilm.js"></script>"""
SAMPLE = "(given) => bench.sample(...given)"
VALUES = "(name) => bench.values(name)"


def open_page(page: Any, names: list[str], *settings: str) -> dict[str, Any]:
    """Load the contenders of a page, with the device and the folder of the model."""
    page.wait_for_function("window.bench")
    with step(f"load {', '.join(names)}"):
        info: dict[str, Any] = page.evaluate("(given) => bench.open(...given)", [names, *settings])
    return info


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Both in one page, then each in a browser of its own, for its memory."""
    from rushlight.core.io.text.tokenizer import load_tokenizer
    from rushlight.models.hub.names import resolve

    folder = Path(resolve(NAME))
    tokenizer = load_tokenizer((folder / "tokenizer.json").read_bytes())
    ids = {
        what: [e.ids for e in tokenizer.encode_batch(sentences, max_length=LENGTH)]
        for what, sentences in SETS.items()
    }
    folders = {
        "": chosen.site,
        "node_modules": npm(WEB),
        "web": HERE / "web",
        "minilm.onnx": minilm_onnx(folder),
    }
    names = ["rushlight", "onnxruntime-web"]
    results: list[dict[str, Any]] = []
    memory: dict[str, float] = {}

    def give(name: str, what: str) -> list[Any]:
        return [name, SETS[what] if name == "rushlight" else ids[what]]

    def row_of(what: str, samples: dict[str, Any], found: dict[str, Any]) -> None:
        row = {"what": what, "threads": 1, **compared(samples, len(SETS[what]))}
        results.append(
            {**row, "samples": samples, "largest_difference": compare(found, what), "peak_mb": {}}
        )

    with served(PAGE, folders) as address:
        with opened(address) as page:
            info = open_page(page, names)
            spent = Processor(page).evaluate
            for what in SETS:
                if what != MANY:
                    samples = alternate(
                        names,
                        lambda name, _, what=what: spent(SAMPLE, give(name, what)),  # type: ignore[misc]
                        chosen.rounds or 3,
                    )
                    row_of(what, samples, {n: page.evaluate(VALUES, n) for n in names})
            version = page.context.browser.version
        many, vectors, peaks = {}, {}, {}
        for name in names:
            with opened(address) as page:
                open_page(page, [name])
                for row in results:
                    page.evaluate(SAMPLE, give(name, str(row["what"])))
                    row["peak_mb"][name] = renderer_peak()
                spent = Processor(page).evaluate
                with step(f"{name}: {MANY}"):
                    many[name] = [spent(SAMPLE, give(name, MANY))]
                peaks[name] = renderer_peak()
                vectors[name] = page.evaluate(VALUES, name)
                memory[name] = page.evaluate("bench.memory()")
        row_of(MANY, many, vectors)
        results[-1]["peak_mb"] = peaks
    for row in results:
        tell_row(cells(row))
    return {
        "results": results,
        "wasm_mb": memory,
        "versions": {**info, **ORT_WEB, "chromium": version},
    }


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    (peer,) = row["times"]
    speed, peak = row["per_s"], row["peak_mb"]
    return [
        row["what"],
        row["threads"],
        speed["rushlight"],
        speed[peer],
        row["times"][peer],
        row["times_by_processor"].get(peer, ""),
        peak["rushlight"],
        peak[peer],
    ]


def table(result: dict[str, Any]) -> str:
    """Sentences per second, and memory."""
    (peer,) = result["results"][0]["times"]
    head = [
        "texts per second",
        "threads",
        "rushlight",
        peer,
        "times the peer",
        "by processor time",
        "peak MB",
        f"{peer}'s",
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "natively, the numbers of threads"},
        "--rounds": {"type": int, "help": "samples of each: 5 natively, 3 in the tab"},
    }
    run("minilm_cpu", __doc__, {"native": native, "tab": tab}, table, options)
