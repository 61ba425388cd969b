"""torch.profiler: the time of blocks named by `record_function` and of kernels on `cpu`.

`rl.profile` gives more: kernels of a chosen device, and a trace of them.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from enum import Enum
from pathlib import Path
from typing import Any

from rushlight.core.tools.profile import profile as kernels

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What is recorded; there is no CUDA here."""

    CPU, XPU, CUDA, MTIA, HPU, PrivateUse1 = range(6)


class ProfilerAction(Enum):
    """What happens in a step of a schedule."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set[ProfilerActivity]:
    """CPU."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False."""
    return False


class FunctionEventAvg:
    """The runs of one name: their number and times in microseconds."""

    def __init__(self, key: str, times: list[float]) -> None:
        self.key, self.count = key, len(times)
        self.cpu_time_total = self.self_cpu_time_total = sum(times)
        self.cpu_time = self.cpu_time_total / max(1, self.count)
        self.device_time_total = self.cuda_time_total = 0.0

    def __repr__(self) -> str:
        return f"{self.key}: {self.count} runs, {self.cpu_time_total:.1f} us"


class EventList(list[FunctionEventAvg]):
    """Times by name."""

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        header: str | None = None,
        top_level_events_only: bool = False,
        **options: Any,
    ) -> str:
        """The rows as text, by total time, or by count with sort_by="count"."""
        key = "count" if sort_by == "count" else "cpu_time_total"
        rows = sorted(self, key=lambda e: -getattr(e, key))[: None if row_limit < 0 else row_limit]
        width = max([4, *(len(e.key) for e in rows)])
        head = f"{'Name':<{width}}  {'CPU total':>12}  {'CPU time avg':>12}  {'# of Calls':>10}"
        rule = "-" * len(head)
        lines = [
            f"{e.key:<{width}}  {e.cpu_time_total:>10.3f}us  {e.cpu_time:>10.3f}us  {e.count:>10}"
            for e in rows
        ]
        total = sum(e.self_cpu_time_total for e in self)
        return "\n".join([*([header] if header else []), rule, head, rule, *lines, rule,
                          f"Self CPU time total: {total:.3f}us"])  # fmt: skip

    def total_average(self) -> FunctionEventAvg:
        """All rows together."""
        return FunctionEventAvg("Total", [e.cpu_time_total for e in self])

    def __str__(self) -> str:
        return self.table()


_running: list[profile] = []


class record_function(ContextDecorator):
    """Context manager, or decorator: the block's time goes into the profile under this name."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        took = time.perf_counter() - self._began
        for each in _running:
            each._note(self.name, self._began, took)


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """What to do in each step: wait, warm up, record; again and again, or `repeat` times."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        cycle = wait + warmup + active
        if step < 0 or (repeat and step // cycle >= repeat):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For on_trace_ready: write each trace as a JSON file into the folder."""

    def write(found: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'worker'}.{time.time_ns()}.pt.trace.json"
        found.export_chrome_trace(str(Path(dir_name) / name))

    return write


class profile:
    """Context manager that times kernels on `cpu` and blocks of `record_function`.

    schedule, on_trace_ready and `step()` record some steps of a loop. Other options are accepted:
    shapes, stacks and memory are not recorded.
    """

    def __init__(
        self,
        *args: Any,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **options: Any,
    ) -> None:
        enabled = options.get("enabled", True) and not (args and args[0] is False)
        self._schedule, self._ready, self._enabled = schedule, on_trace_ready, enabled
        self.step_num = 0
        self._spans: list[tuple[str, float, float]] = []
        self._kernels: kernels | None = None

    def _note(self, name: str, began: float, took: float) -> None:
        self._spans.append((name, began, took))

    def _action(self) -> ProfilerAction:
        return self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD

    def start(self) -> None:
        """Begin."""
        if self._enabled:
            self._turn(self._action())

    def _turn(self, action: ProfilerAction) -> None:
        wanted = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wanted and self not in _running:
            self._spans = []
            _running.append(self)
            self._kernels = kernels("cpu", ceilings=False)
            self._kernels.__enter__()
        elif not wanted and self in _running:
            self._end()

    def _end(self) -> None:
        if self not in _running:
            return
        _running.remove(self)
        kernel_profile, self._kernels = self._kernels, None
        if kernel_profile is not None:
            kernel_profile.__exit__(None, None, None)
            for event in kernel_profile.events:
                if event.track == "kernel":
                    self._note(event.name, kernel_profile._began + event.start, event.seconds)

    def step(self) -> None:
        """The next step of the loop begins."""
        saved = self._action() is ProfilerAction.RECORD_AND_SAVE and self in _running
        if saved and self._schedule is not None:
            self._end()
            if self._ready:
                self._ready(self)
        self.step_num += 1
        if self._enabled:
            self._turn(self._action())

    def stop(self) -> None:
        """End."""
        running = self in _running
        self._end()
        if running and self._ready:
            self._ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def key_averages(self, *args: Any, **options: Any) -> EventList:
        """Times by name."""
        times: dict[str, list[float]] = defaultdict(list)
        for name, _, took in self._spans:
            times[name].append(took * 1e6)
        return EventList(FunctionEventAvg(name, each) for name, each in times.items())

    def events(self) -> EventList:
        """Each run by itself."""
        return EventList(FunctionEventAvg(name, [took * 1e6]) for name, _, took in self._spans)

    function_events = property(events)

    def total_average(self) -> FunctionEventAvg:
        """All times together."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all kernels and blocks."""
        return self.total_average().cpu_time_total

    def table(self, *args: Any, **options: Any) -> str:
        """`key_averages().table()`."""
        return self.key_averages().table(*args, **options)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the runs as a trace for chrome://tracing or Perfetto."""
        rows = [
            {"name": name, "ph": "X", "ts": began * 1e6, "dur": took * 1e6, "pid": 0, "tid": 0}
            for name, began, took in self._spans
        ]
        Path(path).write_text(json.dumps({"traceEvents": rows}), encoding="utf-8")

    def add_metadata(self, key: str, value: str) -> None:
        """Accepted; not written."""

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """NotImplementedError: stacks are not recorded."""
        raise NotImplementedError("export_stacks is not supported; supported: export_chrome_trace")
