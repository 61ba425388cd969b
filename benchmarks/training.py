"""Training steps beside PyTorch's: a CNN with batches of 64 images, and a small language model.

    python benchmarks/training.py [--threads 1,2]

A step is forward, backward and AdamW. All contenders begin with the same weights and batches; after
the same steps their losses must agree.
"""

from __future__ import annotations

import argparse
from typing import Any

from measure import markdown, run, tell_row
from peers import TORCH, pypi
from turns import measured, python_side, sides

CONTENDERS = ("rushlight compiled", "rushlight", "torch", "torch compiled")
# The network, and the steps of a sample.
WORK = {"cnn": 10, "gpt": 5}
MOST_APART = 0.02


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads and network."""
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    for threads in map(int, chosen.threads.split(",")):
        commands = {}
        for name in CONTENDERS:
            peer = pypi(TORCH) if name.startswith("torch") else None
            command, env = python_side("training.py", threads, peer)
            commands[name] = ([*command, name], env)
        for kind, count in WORK.items():
            with sides(commands) as started:
                for side in started.values():
                    side.ask("prepare", kind=kind)
                losses: dict[int, dict[str, float]] = {}

                def sample(
                    who: str, turn: int, at: Any = started, count: int = count, losses: Any = losses
                ) -> dict[str, float]:
                    times: dict[str, float] = at[who].ask("steps", count=count)
                    losses.setdefault(turn, {})[who] = times["loss"]
                    return times

                row = measured(started, sample, chosen.rounds, kind, threads)
                for turn, said in losses.items():
                    if max(said.values()) - min(said.values()) > MOST_APART:
                        raise SystemExit(f"{kind}, turn {turn}: the losses differ: {said}")
                results.append(row)
                tell_row(cells(row))
                for side in started.values():
                    versions |= side.ask("about")
    return {"results": results, "versions": versions}


def cells(row: dict[str, Any]) -> list[object]:
    """A row of the table."""
    took = {name: 1000 / per_s for name, per_s in row["per_s"].items()}
    captured, eager, torch, compiled = (took[name] for name in CONTENDERS)
    return [row["what"], row["threads"], captured, eager, torch, compiled, torch / captured,
            compiled / captured, eager / torch, row["peak_mb"]["rushlight compiled"],
            row["peak_mb"]["torch"]]  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Milliseconds of a step, ratios, and memory."""
    head = ["ms of a step", "threads", "captured", "eager", "torch", "torch compiled",
            "torch by captured", "torch compiled by captured", "eager by torch", "peak MB",
            "torch's"]  # fmt: skip
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 5, "help": "samples of each"},
    }
    run("training", __doc__, {"native": native}, table, options)
