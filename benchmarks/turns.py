"""Runs contenders in turns: a process for each, alternating samples, ratios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from measure import HERE, high_water, processor_ms, renderer_peaks, step, tell

Sample = TypeVar("Sample")
# A pool's threads spin for a moment after their work, OpenBLAS's for 0.1 s, which would slow the
# next contender.
SETTLE_S = 0.15
TOLD_S = 2.0  # shorter rounds are not worth a line
QUICK = ("about", "linear")  # calls that only ask
_BEGIN = "TracingStartedInBrowser"


def alternate(
    names: Sequence[str],
    sample: Callable[[str, int], Sample],
    rounds: int,
    warm: int = 1,
    settle: float = SETTLE_S,
) -> dict[str, list[Sample]]:
    """Calls sample(name, turn) for each contender in every round; contenders begin rounds in turn.

    The first `warm` rounds are dropped; their turns count from -warm to -1. Rounds of seconds are
    told.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    for turn in range(-warm, rounds):
        began, took = time.perf_counter(), []
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            time.sleep(settle)
            since = time.perf_counter()
            taken = sample(name, turn)
            took.append(f"{name} {time.perf_counter() - since:.1f} s")
            if turn >= 0:
                samples[name].append(taken)
        if time.perf_counter() - began > TOLD_S:
            which = f"round {turn + 1} of {rounds}" if turn >= 0 else "a warm round"
            tell(f"{which}: {', '.join(took)}")
    return samples


class Side:
    """A contender in a process of its own, which answers each line of JSON with a line."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], name: str = "") -> None:
        self.name, self._asked = name, set[str]()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )

    def ask(self, call: str, **arguments: Any) -> Any:
        """The answer to a call; RuntimeError if the process has ended.

        The first call of a kind, which loads or compiles, is told.
        """
        if call in self._asked or call in QUICK:
            return self._answer(call, arguments)
        self._asked.add(call)
        with step(f"{self.name}: {call}"):
            return self._answer(call, arguments)

    def _answer(self, call: str, arguments: dict[str, Any]) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([call, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args!r} ended at {call}; see its error above")
        return json.loads(line)

    @property
    def peak_mb(self) -> float:
        """The peak memory of the process (VmHWM)."""
        return high_water(self.process.pid)


@contextmanager
def sides(commands: Mapping[str, tuple[Sequence[str], Mapping[str, str]]]) -> Iterator[Any]:
    """Starts processes by name, name -> (command, environment), and ends them with the block."""
    with ExitStack() as stack:
        started: dict[str, Side] = {}
        for name, (command, env) in commands.items():
            side = started[name] = Side(command, env, name)
            stack.callback(_end, side.process)
        yield started


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()


def python_side(script: str, threads: int, path: Path | None = None) -> Any:
    """Command and environment of a script of sides/ that runs on `threads` threads."""
    source = str(HERE.parent / "src")
    python_path = os.pathsep.join([str(path), source] if path else [source])
    count = str(threads)
    env = {"PYTHONPATH": python_path, "OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count}
    env["PYTHONDONTWRITEBYTECODE"] = ""  # installed packages have their bytecode, too
    return [sys.executable, str(HERE / "sides" / script), count], env


def measured(
    at: Mapping[str, Side],
    sample: Callable[[str, int], dict[str, float]],
    rounds: int,
    what: str,
    threads: int,
    count: int = 1,
    warm: int = 1,
) -> dict[str, Any]:
    """A row of a table: samples of all contenders in turns, per `count`, and their memory."""
    samples = alternate(list(at), sample, rounds, warm)
    peaks = {name: side.peak_mb for name, side in at.items()}
    return {
        "what": what,
        "threads": threads,
        **compared(samples, count),
        "samples": samples,
        "peak_mb": peaks,
    }


def page_process(page: Any) -> int:
    """The renderer process of a page, by the browser's own word; other renderers are spare.

    A trace of the page begins with its frames and their processes.
    """
    session = page.context.new_cdp_session(page)
    events: list[dict[str, Any]] = []
    ended: list[object] = []
    session.on("Tracing.dataCollected", lambda told: events.extend(told["value"]))
    session.on("Tracing.tracingComplete", lambda told: ended.append(told))
    config = {"includedCategories": ["disabled-by-default-devtools.timeline"]}
    session.send("Tracing.start", {"traceConfig": config, "transferMode": "ReportEvents"})
    session.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(5)
    session.detach()
    (frames,) = (e["args"]["data"]["frames"] for e in events if e["name"] == _BEGIN)
    (main,) = (frame for frame in frames if "parent" not in frame)
    return int(main["processId"])


class Processor:
    """Calls into a page, with the processor time of its process."""

    def __init__(self, page: Any) -> None:
        self.page, self.pid = page, page_process(page)

    def evaluate(self, script: str, given: Any) -> dict[str, Any]:
        """The script's result, an object, with "processor_s"."""
        before = processor_ms(self.pid)
        result = self.page.evaluate(script, given)
        return {**result, "processor_s": (processor_ms(self.pid) - before) / 1000}


def renderer_peak() -> float:
    """The peak memory of a page's process of this process's browser, in MB."""
    return max(renderer_peaks(os.getpid()).values())


def medians(samples: Mapping[str, Sequence[Mapping[str, Any]]], key: str) -> dict[str, float]:
    """The median of a figure over each contender's samples, if it has the figure."""
    return {
        name: median(s[key] for s in taken) for name, taken in samples.items() if key in taken[0]
    }


def ratios(times: Mapping[str, float], own: str = "rushlight") -> dict[str, float]:
    """The time of each other contender as a multiple of `own`'s."""
    return {name: took / times[own] for name, took in times.items() if name != own}


def compared(
    samples: Mapping[str, Sequence[Mapping[str, Any]]], work: float, what: str = ""
) -> Any:
    """The figures of a row from samples of "seconds" and "processor_s": speeds, ratios by both."""
    prefix = what and f"{what}_"
    seconds = medians(samples, f"{prefix}seconds")
    spent = medians(samples, f"{prefix}processor_s")
    return {
        "per_s": {name: work / took for name, took in seconds.items()},
        "times": ratios(seconds),
        "times_by_processor": ratios(spent) if len(spent) == len(seconds) else {},
    }
