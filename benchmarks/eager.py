"""Ops called one by one on cpu beside PyTorch and NumPy: ten elements, and a million.

    python benchmarks/eager.py native             Python processes; 1 thread, then 2
    python benchmarks/eager.py tab [--site DIR]   headless Chromium: what a call costs there

A call's cost is processor time on ten elements. For a million elements each side has a process of
its own, and they take turns; the results are compared first (1e-3 of the largest).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from statistics import median
from typing import Any

import numpy as np
from measure import HERE, markdown, opened, run, served, step
from ops import PAGE
from peers import TORCH, pypi
from turns import SETTLE_S, sides

ROUNDS = 5


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In processes of their own, in turns: two pools of threads would share the cores."""
    peer = str(pypi(TORCH))
    sys.path.append(peer)
    import eager_work as work
    import torch

    import rushlight as rl

    with step("compare the results"):
        ours, theirs = (work.side(name) for name in ("rushlight", "torch"))
        _compare(ours, theirs, work.DRAWN)
        del ours, theirs
    result: dict[str, Any] = {
        "large": {},
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "rushlight": version("rushlight"),
        },
    }
    both = {"rushlight": rl, "torch": torch}
    for lib in both.values():
        lib.set_num_threads(1)
    with step("ten elements"):
        result["small"] = _in_turns(both, lambda name: work.call_seconds(work.small(both[name])))
    for threads in ("1", "2"):
        commands = {name: _command(name, threads, peer) for name in ("rushlight", "torch", "numpy")}
        with step(f"a million elements, threads {threads}"), sides(commands) as started:
            result["large"][threads] = _in_turns(
                started,
                lambda name, at=started: at[name].ask("time"),  # type: ignore[misc]
            )
    return result


def _in_turns(
    sides: Iterable[str], once: Callable[[str], dict[str, float]]
) -> dict[str, dict[str, list[float]]]:
    """The seconds of each op of each side, one sample a round."""
    samples: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for _ in range(ROUNDS):
        for side, ops in samples.items():
            time.sleep(SETTLE_S)
            for op, seconds in once(side).items():
                ops.setdefault(op, []).append(seconds)
    return samples


def _command(side: str, threads: str, peer: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of one side."""
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), peer])
    environment = {
        "PYTHONPATH": path,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads),
    }
    return [sys.executable, str(HERE / "eager_work.py"), side, threads], environment


def _compare(ours: dict[str, Any], theirs: dict[str, Any], drawn: tuple[str, ...]) -> None:
    for name in ours:
        if name in drawn:
            continue
        got, expected = ours[name](), theirs[name]()
        if isinstance(got, tuple):
            got, expected = got[0], expected[0]
        a, b = (np.asarray(x.double().numpy()) for x in (got, expected))
        if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=1e-3 * max(np.abs(b).max(), 1)):
            raise SystemExit(f"{name}: the results differ")


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one page of a headless Chromium."""
    folders = {
        "rushlight": chosen.site / "rushlight",
        "web": HERE / "web",
        "work.py": HERE / "eager_work.py",
    }
    with served(PAGE, folders) as address, opened(address) as page:
        page.wait_for_function("'measure' in window")
        small = page.evaluate("(rounds) => measure(rounds, 1000)", ROUNDS)
        chromium = page.context.browser.version
    return {"small": {"rushlight": small}, "versions": {"chromium": chromium}}


def table(found: dict[str, Any]) -> str:
    """Microseconds of a call; milliseconds of a million elements, and times the faster peer."""
    small, sides = found["small"], list(found["small"])
    rows = [
        [name, *(1e6 * median(small[side][name]) for side in sides)] for name in small["rushlight"]
    ]
    text = markdown(["ten elements, microseconds", *sides], rows)
    if "large" not in found:
        return text
    head = ["a million elements, milliseconds"]
    for threads in found["large"]:
        head += [f"rushlight, {threads}", f"torch, {threads}", f"numpy, {threads}", "times best"]
    large: list[list[object]] = []
    for name in found["large"]["1"]["rushlight"]:
        row: list[object] = [name]
        for timed in found["large"].values():
            best = {side: 1e3 * median(ops[name]) for side, ops in timed.items() if name in ops}
            peer = min(v for side, v in best.items() if side != "rushlight")
            row += [
                best["rushlight"],
                best["torch"],
                best.get("numpy", ""),
                best["rushlight"] / peer,
            ]
        large.append(row)
    return f"{text}\n\n{markdown(head, large)}"


if __name__ == "__main__":
    run("eager", __doc__, {"native": native, "tab": tab}, table)
