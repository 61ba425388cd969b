"""A cross-encoder on the CPU beside onnxruntime with the same weights: pairs per second.

    python benchmarks/reranking.py [--threads 1,2]

The model is all-MiniLM-L6-v2's encoder (as cross-encoder/ms-marco-MiniLM-L6-v2 has it: 6 layers,
384 wide) with a random pooler and head, as real ones are in no package. A query is read with each
of 100 texts of 3 to 180 words. Both sides tokenize and sort by length; logits are compared to 1e-4.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import markdown, run
from minilm import NAME, mixed
from minilm_cpu import cells, line
from minilm_onnx import HIDDEN, minilm_onnx
from peers import ORT, pypi
from turns import measured, python_side, sides

QUERY = "How quickly does a fox get over the lazy dog by the river?"
LENGTH = 256
TOLERANCE = 1e-4


def cross_encoder(folder: Path) -> None:
    """Writes the checkpoint: the encoder as it is, a pooler and a head by a seed."""
    import rushlight as rl
    from rushlight.core.io.hub.names import resolve
    from rushlight.core.io.weights.safetensors import load_safetensors, save_safetensors

    source = Path(resolve(NAME))
    stored = load_safetensors(source / "model.safetensors")
    weights = {f"bert.{n.removeprefix('bert.')}": v for n, v in stored.items() if "pooler" not in n}
    draws = np.random.default_rng(5)
    for layer, rows in (("bert.pooler.dense", HIDDEN), ("classifier", 1)):
        for part, shape in (("weight", (rows, HIDDEN)), ("bias", (rows,))):
            values = draws.normal(0, 0.05, shape).astype(np.float32)
            weights[f"{layer}.{part}"] = rl.from_numpy(values)
    save_safetensors(weights, folder / "model.safetensors")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "score"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    texts = mixed(100)
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    with TemporaryDirectory() as place:
        cross_encoder(Path(place))
        model = str(minilm_onnx(Path(place), "cross-encoder"))
        for threads in map(int, chosen.threads.split(",")):
            own, env = python_side("python.py", threads)
            other, paths = python_side("python.py", threads, pypi(ORT))
            commands = {"rushlight": ([*own, "rushlight"], env),
                        "onnxruntime": ([*other, "onnxruntime"], paths)}  # fmt: skip
            with sides(commands) as at:
                at["rushlight"].ask("load", folder=place)
                at["onnxruntime"].ask("load", folder=place, model=model, length=LENGTH)

                def rank(name: str, _: int, at: Any = at) -> dict[str, Any]:
                    found: dict[str, Any] = at[name].ask("rank", query=QUERY, texts=texts)
                    return found

                first = [np.asarray(rank(name, 0)["scores"]) for name in at]
                worst = float(np.abs(first[0] - first[1]).max())
                if not worst <= TOLERANCE or np.ptp(first[0]) < 100 * TOLERANCE:
                    raise SystemExit(f"logits differ by {worst}, {TOLERANCE} is allowed")
                row = measured(at, rank, chosen.rounds, "100 pairs", threads, len(texts))
                for taken in row["samples"].values():
                    for sample in taken:
                        del sample["scores"]
                results.append({**row, "largest_difference": worst})
                print(line(results[-1]), flush=True)
                for side in at.values():
                    versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **ORT}}


def table(result: dict[str, Any]) -> str:
    """Pairs per second, and memory."""
    head = ["pairs per second", "threads", "rushlight", "onnxruntime", "times the peer",
            "by processor time", "peak MB", "onnxruntime's"]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 7, "help": "samples of each"},
    }
    run("reranking", __doc__, {"native": native}, table, options)
