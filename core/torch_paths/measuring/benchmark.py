"""torch.utils.benchmark: Timer and Compare over Python's clock."""

from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core.backends import get_num_threads, instantiated, set_num_threads
from rushlight.core.settings.standins import refuse_all

__all__ = ["Compare", "Measurement", "Timer", "timer"]


def timer() -> float:
    """Seconds, after the pending work of every device."""
    for each in instantiated():
        each.synchronize()
    return timeit.default_timer()


class Measurement:
    """Times of a statement: each of raw_times is that of number_per_run runs, in seconds."""

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        task_spec: Any = None,
        metadata: Any = None,
    ) -> None:
        self.number_per_run, self.raw_times, self.metadata = number_per_run, raw_times, metadata
        self.task_spec: dict[str, Any] = dict(task_spec or {})

    @property
    def times(self) -> list[float]:
        """Seconds of one run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """Their median."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of their quartiles."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __getattr__(self, name: str) -> Any:
        spec = self.__dict__.get("task_spec", {})
        if name in spec:
            return spec[name]
        raise AttributeError(f"Measurement has no {name}")

    @property
    def title(self) -> str:
        """The statement, or its label."""
        return str(self.task_spec.get("label") or self.task_spec.get("stmt", ""))

    def __repr__(self) -> str:
        scale, unit = _unit(self.median)
        count = len(self.times)
        return (
            f"<Measurement of {self.title}>\n  {self.median / scale:.2f} {unit}\n  {count} "
            f"measurement{'s' * (count > 1)}, {self.number_per_run} runs per measurement, "
            f"{self.task_spec.get('num_threads', 1)} thread(s)"
        )


def _unit(seconds: float) -> tuple[float, str]:
    for scale, unit in ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms")):
        if seconds < scale * 1000:
            return scale, unit
    return 1.0, "s"


class Timer:
    """Times a statement as Python's timeit does, with a number of threads.

    stmt and setup are texts; globals are their names. label, sub_label, description and env name
    the measurement in `Compare`.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if global_setup or str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError("Timer: C++ is not supported; supported: Python")
        self._timer = timeit.Timer(stmt, setup, timer, globals=dict(globals or {}))
        self.spec = {
            "stmt": stmt,
            "setup": setup,
            "label": label,
            "sub_label": sub_label,
            "description": description,
            "env": env,
            "num_threads": num_threads,
        }

    def _timed(self, number: int, times: int) -> Measurement:
        before = get_num_threads()
        set_num_threads(self.spec["num_threads"])  # type: ignore[arg-type]
        try:
            return Measurement(number, self._timer.repeat(times, number), self.spec)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The time of `number` runs, after a hundredth of them unmeasured."""
        self._timed(max(number // 100, 1), 1)
        return self._timed(number, 1)

    def repeat(self, repeat: int = -1, number: int = -1) -> Measurement:
        """Several times of `number` runs."""
        return self._timed(max(number, 1), max(repeat, 1))

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """As many blocks of runs as fit min_run_time, each at least a hundredth of it."""
        number = 1
        while (took := self._timed(number, 1).raw_times[0]) < min_run_time / 100:
            number *= 10
        return self._timed(number, max(1, math.ceil(min_run_time / max(took, 1e-9))))

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """`blocked_autorange(min_run_time=min_run_time)`."""
        return self.blocked_autorange(callback, min_run_time)


class Compare:
    """A table of measurements: rows by sub_label and threads, columns by description."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Accepted."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted; the table has no colors."""

    highlight_warnings = trim_significant_figures

    def __str__(self) -> str:
        columns = list(dict.fromkeys(str(r.task_spec.get("description")) for r in self._results))
        rows: dict[tuple[str, int], dict[str, float]] = {}
        for r in self._results:
            name = str(r.task_spec.get("sub_label") or r.title)
            key = (name, r.task_spec.get("num_threads", 1))
            rows.setdefault(key, {})[str(r.task_spec.get("description"))] = r.median
        scale, unit = _unit(min((r.median for r in self._results), default=1.0))
        width = max((len(name) + 14 for name, _ in rows), default=0)
        lines = [" | ".join([" " * width, *(f"{c:>12}" for c in columns)])]
        for (name, threads), by_column in rows.items():
            cells = [
                f"{by_column[c] / scale:12.1f}" if c in by_column else " " * 12 for c in columns
            ]
            lines.append(" | ".join([f"{name} ({threads} threads)".ljust(width), *cells]))
        return "\n".join([*lines, f"Times are in {unit}."])

    def print(self) -> None:
        """Print the table."""
        print(self)


globals().update(
    refuse_all(
        "utils.benchmark",
        "CallgrindStats FunctionCounts FuzzedParameter FuzzedTensor Fuzzer "
        "CopyIfCallgrind ParameterAlias",
        "supported: Timer, Measurement, Compare",
    )
)
