"""A model that sees, beside transformers: a picture and twenty tokens, equal random weights.

    python benchmarks/pictures.py [--threads 1,2]

Qwen2-VL's shape with half a billion parameters in float32; a picture of 448 x 448 has 256 tokens. A
row is the time until the first token (tower and prompt), or of the twenty tokens after it. The
tokens are compared with each other before anything is timed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from measure import markdown, run, tell, tell_row
from peers import TORCH, pypi
from turns import measured, python_side, sides

TOKENS = 20
STAGES = {"picture and prompt": "read", f"{TOKENS} tokens": "answer"}


def written() -> Path:
    """The folder in the cache with the model's files."""
    from rushlight.core.io.hub.fetch import cache_dir

    place = cache_dir() / "benchmarks" / f"seeing-transformers@{TORCH['transformers']}"
    if not place.is_dir():
        command, env = python_side("pictures.py", 2, pypi(TORCH))
        temporary = place.with_name(f"{place.name}.part")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        with sides({"transformers": ([*command, "transformers"], env)}) as started:
            started["transformers"].ask("write", folder=str(temporary))
        temporary.rename(place)
        tell("the model is written")
    return place


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    place = written()
    for threads in map(int, chosen.threads.split(",")):
        commands = {}
        for name, path in (("rushlight", None), ("transformers", pypi(TORCH))):
            command, env = python_side("pictures.py", threads, path)
            commands[name] = ([*command, name], env)
        with sides(commands) as started:
            answers = {}
            for name, side in started.items():
                side.ask("load", folder=str(place))
                side.ask("read")
                answers[name] = side.ask("tokens", count=TOKENS)
            if answers["rushlight"] != answers["transformers"]:
                raise SystemExit(f"the answers differ: {answers}")
            for what, call in STAGES.items():
                row = measured(
                    started,
                    lambda name, _, at=started, call=call: at[name].ask(call),  # type: ignore[misc]
                    chosen.rounds,
                    what,
                    threads,
                )
                results.append(row)
                tell_row(cells(row))
            for side in started.values():
                versions |= side.ask("about")
    return {"results": results, "versions": versions}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    took = [1000 / per_s for per_s in row["per_s"].values()]
    peaks = [row["peak_mb"][name] for name in ("rushlight", "transformers")]
    return [row["what"], row["threads"], *took, *row["times"].values(), *peaks]


def table(result: dict[str, Any]) -> str:
    """Milliseconds, ratios, and memory."""
    head = ["ms", "threads", "rushlight", "transformers", "transformers by rushlight",
            "peak MB", "transformers MB"]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 3, "help": "samples of each"},
    }
    run("pictures", __doc__, {"native": native}, table, options)
