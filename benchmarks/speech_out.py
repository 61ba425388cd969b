"""Speech of ten sentences by a voice of Piper, beside onnxruntime on the same file.

    python benchmarks/speech_out.py [--threads 1,2] [--rounds 3]

Both get the same tokens and no noise. Samples are compared first: they may differ by 1e-3 at most.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import markdown, run, tell_row
from peers import ORT, pypi
from turns import measured, python_side, sides

MOST = 1e-3
# Harvard sentences (IEEE, 1969).
SENTENCES = (
    "The birch canoe slid on the smooth planks.",
    "Glue the sheet to the dark blue background.",
    "It is easy to tell the depth of a well.",
    "These days a chicken leg is a rare dish.",
    "Rice is often served in round bowls.",
    "The juice of lemons makes fine punch.",
    "The box was thrown beside the parked truck.",
    "The hogs were fed chopped corn and garbage.",
    "Four hours of steady work faced us.",
    "A large size in stockings is hard to sell.",
)


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    import rushlight as rl
    from rushlight.core.io.hub.fetch import cache_dir
    from rushlight.models.hub.names import MODELS
    from rushlight.models.speech.speaking.tokens import Reading

    (source,) = MODELS["piper-joe"]
    folder = cache_dir() / "benchmarks" / "piper-joe"
    folder.mkdir(parents=True, exist_ok=True)
    source.parts.fetch(folder, None)  # type: ignore[attr-defined]
    graph = folder / "voice.onnx"
    (folder / "voice.onnx.json").write_bytes((folder / "voice.json").read_bytes())
    tokens = rl.models.load("piper-joe").tokens
    read = Reading({}, "lexicon")
    ids = [list(sentence.ids) for text in SENTENCES for sentence in tokens.read(text, read)]
    results: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for threads in map(int, chosen.threads.split(",")):
        commands = {}
        for name in ("rushlight", "onnxruntime"):
            path = None if chosen.installed else pypi(ORT)
            command, env = python_side("speaking.py", threads, path)
            commands[name] = ([*command, name], env)
        with TemporaryDirectory() as place, sides(commands) as started:
            loads = {n: side.ask("load", path=str(graph), ids=ids) for n, side in started.items()}
            out = {name: str(Path(place) / f"{name}.npy") for name in commands}
            for name, side in started.items():
                side.ask("speak", out=out[name])
            a, b = (np.load(file) for file in out.values())
            apart = float(np.abs(a - b).max()) if len(a) == len(b) else float("inf")
            if apart > MOST:
                raise SystemExit(f"samples differ by {apart}")

            def sample(who: str, _: int, at: Any = started) -> dict[str, float]:
                times: dict[str, float] = at[who].ask("speak")
                return times

            row = measured(started, sample, chosen.rounds, "ten sentences", threads, warm=0)
            row |= {"loads": loads, "largest_difference": apart}
            for side in started.values():
                versions |= side.ask("about")
            tell_row(["ten sentences", threads, *row["times"].values()])
        results.append(row)
    return {"results": results, "versions": versions}


def table(result: dict[str, Any]) -> str:
    """How much faster than it sounds speech is made, and the first sentence."""
    head = ["threads", "times real time, rushlight", "onnxruntime", "times the peer",
            "by processor time", "first sentence, ms", "the peer's", "load, s", "the peer's",
            "peak MB", "the peer's", "largest difference"]  # fmt: skip
    rows = []
    for row in result["results"]:
        own, peer = row["samples"]["rushlight"], row["samples"]["onnxruntime"]
        times = [median(s["spoken_s"] / s["seconds"] for s in taken) for taken in (own, peer)]
        first = [1000 * median(s["first_seconds"] for s in taken) for taken in (own, peer)]
        loads = [row["loads"][name]["load_s"] for name in ("rushlight", "onnxruntime")]
        rows.append([row["threads"], *times, row["times"]["onnxruntime"],
                     row["times_by_processor"].get("onnxruntime", ""), *first, *loads,
                     row["peak_mb"]["rushlight"], row["peak_mb"]["onnxruntime"],
                     row["largest_difference"]])  # fmt: skip
    return markdown(head, rows)


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "numbers of threads"},
        "--rounds": {"type": int, "default": 3, "help": "samples of each"},
        "--installed": {"action": "store_true", "help": "take the onnxruntime that is installed"},
    }
    run("speech_out", __doc__, {"native": native}, table, options)
