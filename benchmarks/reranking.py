"""A cross-encoder on the CPU beside onnxruntime with the same weights: pairs per second.

    python benchmarks/reranking.py native [--threads 1,2]  beside onnxruntime, as processes
    python benchmarks/reranking.py tab [--site DIR]        beside onnxruntime-web on one thread

The model is all-MiniLM-L6-v2's encoder (as cross-encoder/ms-marco-MiniLM-L6-v2 has it: 6 layers,
384 wide) with a random pooler and head, as real ones are in no package. A query is read with each
of 100 texts of 3 to 180 words. Both sides sort by length, natively both tokenize, too, and in the
tab the peer gets token ids. Logits are compared to 1e-4. In the tab each has a browser of its own
in which it reads the pairs once after a few of them, as they take half a minute there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import HERE, markdown, opened, run, served, step, tell_row
from minilm import NAME, mixed
from minilm_cpu import PAGE, SAMPLE, VALUES, cells, open_page
from minilm_onnx import HIDDEN, minilm_onnx
from peers import ORT, ORT_WEB, WEB, npm, pypi
from turns import Processor, compared, measured, python_side, renderer_peak, sides

QUERY = "How quickly does a fox get over the lazy dog by the river?"
LENGTH = 256
WARM = 8  # pairs, in the tab
TOLERANCE = 1e-4


def cross_encoder(folder: Path) -> None:
    """Writes the checkpoint: the encoder as it is, a pooler and a head by a seed."""
    import rushlight as rl
    from rushlight.core.io.weights.safetensors import load_safetensors, save_safetensors
    from rushlight.models.hub.names import resolve

    source = Path(resolve(NAME))
    stored = load_safetensors(source / "model.safetensors")
    weights = {f"bert.{n.removeprefix('bert.')}": v for n, v in stored.items() if "pooler" not in n}
    draws = np.random.default_rng(5)
    for layer, rows in (("bert.pooler.dense", HIDDEN), ("classifier", 1)):
        for name, shape in (("weight", (rows, HIDDEN)), ("bias", (rows,))):
            values = draws.normal(0, 0.05, shape).astype(np.float32)
            weights[f"{layer}.{name}"] = rl.from_numpy(values)
    save_safetensors(weights, folder / "model.safetensors")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "score"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    files = [
        {
            "path": path.name,
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.iterdir())
    ]
    listed = {"format": 1, "name": "cross-encoder", "files": files}  # which a page asks for
    (folder / "manifest.json").write_text(json.dumps(listed), encoding="utf-8")


def compare(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference of the logits; stops if it is too large, or if all are alike."""
    worst = float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())
    if not worst <= TOLERANCE or np.ptp(ours) < 100 * TOLERANCE:
        raise SystemExit(f"logits differ by {worst}, {TOLERANCE} is allowed")
    return worst


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    texts = mixed(100)
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    with TemporaryDirectory() as place:
        cross_encoder(Path(place))
        model = str(minilm_onnx(Path(place), "cross-encoder"))
        for threads in map(int, chosen.threads.split(",")):
            command, env = python_side("python.py", threads)
            other, paths = python_side("python.py", threads, pypi(ORT))
            commands = {
                "rushlight": ([*command, "rushlight"], env),
                "onnxruntime": ([*other, "onnxruntime"], paths),
            }
            with sides(commands) as started:
                started["rushlight"].ask("load", folder=place)
                started["onnxruntime"].ask("load", folder=place, model=model, length=LENGTH)

                def rank(name: str, _: int, at: Any = started) -> dict[str, Any]:
                    ranking: dict[str, Any] = at[name].ask("rank", query=QUERY, texts=texts)
                    return ranking

                first = [rank(name, 0)["scores"] for name in started]
                worst = compare(*first)
                row = measured(
                    started, rank, chosen.rounds, "100 pairs", threads, len(texts), warm=0
                )
                for taken in row["samples"].values():
                    for sample in taken:
                        del sample["scores"]
                results.append({**row, "largest_difference": worst})
                tell_row(cells(results[-1]))
                for side in started.values():
                    versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **ORT}}


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Each in a browser of its own, for its memory."""
    import rushlight as rl

    texts = mixed(100)
    names = ["rushlight", "onnxruntime-web"]
    samples: dict[str, list[dict[str, Any]]] = {}
    scores: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    with TemporaryDirectory() as place:
        folder = Path(place)
        cross_encoder(folder)
        graph = minilm_onnx(folder, "cross-encoder")
        model: Any = rl.models.load(folder)
        pairs = list(model.encoded_pairs([(QUERY, text) for text in texts], "longest_first"))
        inputs: dict[str, tuple[list[Any], Any]] = {
            names[0]: (texts, QUERY),
            names[1]: ([p.ids for p in pairs], [p.types for p in pairs]),
        }
        folders = {
            "": chosen.site,
            "node_modules": npm(WEB),
            "web": HERE / "web",
            "cross-encoder": folder,
            "minilm.onnx": graph,
        }
        info: dict[str, Any] = {}
        with served(PAGE, folders) as address:
            for name in names:
                with opened(address) as page:
                    info |= open_page(page, [name], "cpu", "./cross-encoder/")
                    spent = Processor(page).evaluate
                    rows, more = inputs[name]
                    few = more if isinstance(more, str) else more[:WARM]
                    page.evaluate(SAMPLE, [name, rows[:WARM], few])
                    with step(f"{name}: 100 pairs"):
                        samples[name] = [spent(SAMPLE, [name, rows, more])]
                    scores[name] = [row[0] for row in page.evaluate(VALUES, name)]
                    peaks[name] = renderer_peak()
                    version = page.context.browser.version
    row = {
        "what": "100 pairs",
        "threads": 1,
        **compared(samples, len(texts)),
        "samples": samples,
        "largest_difference": compare(*scores.values()),
        "peak_mb": peaks,
    }
    tell_row(cells(row))
    return {"results": [row], "versions": {**info, **ORT_WEB, "chromium": version}}


def table(result: dict[str, Any]) -> str:
    """Pairs per second, and memory."""
    (peer,) = result["results"][0]["times"]
    head = [
        "pairs per second",
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
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 3, "help": "samples of each"},
    }
    run("reranking", __doc__, {"native": native, "tab": tab}, table, options)
